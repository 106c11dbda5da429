/* Whether HSA_CU_MASK is written as ROCr reads it: GPUs:CUs[;GPUs:CUs]..., each a list of numbers and ranges.
 */
#include <string.h>

#include "mask_check.h"
#include "../../src/hip/cu_mask.h"
#include "../../src/hip/env_policy.h"

/* A list at *text; marks what it names in seen where that is not NULL, and then refuses what is marked
 * already. */
static const char *check_list(const char **text, uint64_t bound, bool *seen)
{
	uint64_t first, last;

	for (;; ++*text) {
		if (!cu_mask_range(text, &first, &last))
			return "a number is missing, or a range runs backwards";
		if (last >= bound)
			return seen ? "a GPU index is too large" : "a CU number is too large";
		for (uint64_t i = first; seen && i <= last; i++) {
			if (seen[i])
				return "a GPU is named twice";
			seen[i] = true;
		}
		if (**text != ',')
			return NULL;
	}
}

const char *mask_check(const char *text)
{
	bool seen[ENV_DEVICES] = {false};

	for (;; text++) {
		const char *error = check_list(&text, ENV_DEVICES, seen);

		if (error)
			return error;
		if (*text++ != ':')
			return "a colon is missing behind the GPU index";
		if ((error = check_list(&text, CU_MASK_BITS, NULL)))
			return error;
		if (!*text)
			return NULL;
		if (*text != ';')
			return "something follows a list of CUs that is no comma and no semicolon";
	}
}
