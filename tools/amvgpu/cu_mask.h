/* The grammar of HSA_CU_MASK, as ROCr reads it: GPU:list[;GPU:list...], list = number or range, separated by
 * commas. */
#ifndef AMVGPU_CU_MASK_H
#define AMVGPU_CU_MASK_H

#include <stdbool.h>
#include <stdint.h>

enum { CU_MASK_GPUS = 64, CU_MASK_WORDS = 32 }; /* 1024 CUs: ROCr's own bound */

struct cu_mask {
	bool set[CU_MASK_GPUS];
	uint32_t bits[CU_MASK_GPUS][CU_MASK_WORDS];
};

/* NULL, or what is wrong. ROCr takes nothing of a text with an error, and says nothing. */
const char *cu_mask_parse(const char *text, struct cu_mask *mask);

#endif
