/* Text and numbers without a libc: comparison, bounded building, parsing.
 *
 * All functions are pure, need no other translation unit and may be called anywhere.
 */
#ifndef AMVGPU_TEXT_H
#define AMVGPU_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t text_length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static inline bool text_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static inline bool text_starts(const char *s, const char *prefix)
{
	while (*prefix) {
		if (*s++ != *prefix++)
			return false;
	}
	return true;
}

static inline void bytes_copy(void *to, const void *from, size_t size)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	while (size--)
		*t++ = *f++;
}

static inline void bytes_clear(void *to, size_t size)
{
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(0) : "memory"); /* no loop to make a memset of */
}

/* Reads decimal digits at *s into *value and moves *s behind them. False: no digit, or more than 64 bits. */
static inline bool text_number(const char **s, uint64_t *value)
{
	const char *p = *s;
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	}
	*value = v;
	*s = p;
	return true;
}

/* A text being built in a caller's buffer: always terminated, cut where it does not fit. */
struct text {
	char *buffer;
	size_t size; /* of the buffer, terminator included */
	size_t length;
};

#define TEXT_ON(array) ((struct text){ (array), sizeof(array), ((array)[0] = 0) })

static inline void text_add(struct text *t, const char *s)
{
	for (; *s && t->length + 1 < t->size; s++)
		t->buffer[t->length++] = *s;
	t->buffer[t->length] = 0;
}

static inline void text_add_number(struct text *t, uint64_t value)
{
	char digits[21];
	size_t n = sizeof digits - 1;

	digits[n] = 0;
	do {
		digits[--n] = (char)('0' + value % 10);
	} while (value /= 10);
	text_add(t, digits + n);
}

static inline void text_add_hex(struct text *t, uint64_t value)
{
	char digits[17];
	size_t n = sizeof digits - 1;

	digits[n] = 0;
	do {
		digits[--n] = "0123456789abcdef"[value % 16];
	} while (value /= 16);
	text_add(t, digits + n);
}

#endif
