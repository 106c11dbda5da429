/* What the fuzzers of text share. */
#ifndef AMVGPU_FUZZ_H
#define AMVGPU_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void must(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

/* The bytes with a NUL behind them, on the heap: the address sanitizer sees whoever reads on. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	must(text, "no memory");
	memcpy(text, data, size);
	text[size] = 0;
	return text;
}

#endif
