/* HSA_CU_MASK: "GPUs:CUs[;GPUs:CUs]...", each a list of numbers and ranges, as "0,1:0-15,32".
 *
 * A pure function; callable anywhere.
 */
#ifndef AMVGPU_CU_MASK_H
#define AMVGPU_CU_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "../sys/text.h"

enum { CU_MASK_WORDS = 32, CU_MASK_BITS = 32 * CU_MASK_WORDS };

struct cu_mask {
	uint32_t word[CU_MASK_WORDS];
	bool is_set; /* at least one CU */
};

/* Reads "a" or "a-b" at *text. */
static inline bool cu_mask_range(const char **text, uint64_t *first, uint64_t *last)
{
	if (!text_number(text, first))
		return false;
	*last = *first;
	if (**text != '-')
		return true;
	++*text;
	return text_number(text, last) && *last >= *first;
}

/* The mask of the GPU; reading stops at the first error, as in ROCr. The GPU's first clause counts. */
static inline struct cu_mask cu_mask_of(const char *text, unsigned gpu)
{
	struct cu_mask mask = { { 0 }, false };
	uint64_t first, last;

	while (text && *text) {
		bool is_mine = false;

		for (;; text++) {
			if (!cu_mask_range(&text, &first, &last))
				return mask;
			is_mine |= gpu >= first && gpu <= last;
			if (*text != ',')
				break;
		}
		if (*text++ != ':')
			return mask;
		for (;; text++) {
			if (!cu_mask_range(&text, &first, &last))
				return mask;
			for (uint64_t cu = first; is_mine && cu <= last && cu < CU_MASK_BITS; cu++) {
				mask.word[cu / 32] |= 1u << cu % 32;
				mask.is_set = true;
			}
			if (*text != ',')
				break;
		}
		if (is_mine || *text++ != ';')
			return mask;
	}
	return mask;
}

#endif
