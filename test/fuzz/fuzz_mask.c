/* Any text as HSA_CU_MASK: judged by a reader written as a list of clauses, without the shortcuts.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined test/fuzz/fuzz_mask.c -o fuzz_mask && ./fuzz_mask test/fuzz/corpus/mask
 */
#include "fuzz.h"

#include <ctype.h>
#include <errno.h>

#include "../../src/hip/cu_mask.h"

static bool number(const char **at, unsigned long long *n)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*n = strtoull(*at, &end, 10);
	*at = end;
	return !errno;
}

static bool range(const char **at, unsigned long long *first, unsigned long long *last)
{
	if (!number(at, first))
		return false;
	*last = *first;
	if (**at != '-')
		return true;
	++*at;
	return number(at, last) && *last >= *first;
}

/* Marks what a list names, up to its first mistake. False: the list is mistaken. */
static bool list(const char **at, bool marked[CU_MASK_BITS])
{
	unsigned long long first, last;

	for (;; ++*at) {
		if (!range(at, &first, &last))
			return false;
		for (unsigned long long n = first; n <= last && n < CU_MASK_BITS; n++)
			marked[n] = true;
		if (**at != ',')
			return true;
	}
}

static void expect(const char *at, unsigned gpu, bool units[CU_MASK_BITS])
{
	for (;; at++) {
		bool gpus[CU_MASK_BITS] = { 0 }, cus[CU_MASK_BITS] = { 0 };
		bool is_right;

		if (!list(&at, gpus) || *at++ != ':')
			return;
		is_right = list(&at, cus);
		if (gpus[gpu])
			memcpy(units, cus, sizeof cus);
		if (!is_right || gpus[gpu] || *at != ';')
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);

	for (unsigned gpu = 0; gpu < 4; gpu++) {
		bool units[CU_MASK_BITS] = { 0 }, is_set = false;
		struct cu_mask mask = cu_mask_of(text, gpu);

		expect(text, gpu, units);
		for (unsigned i = 0; i < CU_MASK_BITS; i++) {
			must((mask.word[i / 32] >> i % 32 & 1) == units[i], "another unit");
			is_set |= units[i];
		}
		must(mask.is_set == is_set, "set or not");
	}
	must(!cu_mask_of(NULL, 0).is_set, "no text, but a mask");
	free(text);
	return 0;
}
