/* Whether HSA_CU_MASK is written as ROCr reads it. ROCr stops at the first error and says nothing; we say
 * what is wrong. */
#ifndef AMVGPU_MASK_CHECK_H
#define AMVGPU_MASK_CHECK_H

/* NULL, or what is wrong with it. */
const char *mask_check(const char *text);

#endif
