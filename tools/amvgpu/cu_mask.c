/* The grammar of HSA_CU_MASK. */
#include <string.h>

#include "cu_mask.h"
#include "../../src/sys/text.h"

/* "4" or "4-7" at *s. */
static const char *parse_range(const char **s, uint32_t *words)
{
	uint64_t first, last;

	if (!text_number(s, &first))
		return "a CU number is missing";
	last = first;
	if (**s == '-') {
		(*s)++;
		if (!text_number(s, &last))
			return "the end of a CU range is missing";
	}
	if (last < first)
		return "a CU range runs backwards";
	if (last >= 32 * CU_MASK_WORDS)
		return "a CU number is larger than 1023";
	for (uint64_t cu = first; cu <= last; cu++)
		words[cu / 32] |= 1u << cu % 32;
	return NULL;
}

static const char *parse_gpu(const char **s, struct cu_mask *mask)
{
	uint64_t gpu;
	const char *error;

	if (!text_number(s, &gpu) || gpu >= CU_MASK_GPUS)
		return "a GPU index is missing or larger than 63";
	if (*(*s)++ != ':')
		return "a colon is missing behind the GPU index";
	if (mask->set[gpu])
		return "a GPU is named twice";
	mask->set[gpu] = true;
	for (;; (*s)++) {
		if ((error = parse_range(s, mask->bits[gpu])))
			return error;
		if (**s != ',')
			return NULL;
	}
}

const char *cu_mask_parse(const char *text, struct cu_mask *mask)
{
	memset(mask, 0, sizeof *mask);
	for (;; text++) {
		const char *error = parse_gpu(&text, mask);

		if (error)
			return error;
		if (!*text)
			return NULL;
		if (*text != ';')
			return "something follows a CU list that is no comma and no semicolon";
	}
}
