/* Sizes: the text of a limit, and the bytes an allocation call asks for.
 *
 * Pure functions; callable anywhere. A product that does not fit 64 bits is SIZE_TOO_LARGE, which is over every limit:
 * never a wrapped sum.
 */
#ifndef AMVGPU_MEMORY_SIZE_H
#define AMVGPU_MEMORY_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_abi.h"
#include "../sys/text.h"

#define SIZE_TOO_LARGE UINT64_MAX

static inline bool memory_size_shift(char suffix, unsigned *shift)
{
	static const char suffixes[] = "KMGT";

	if (suffix >= 'a')
		suffix = (char)(suffix - 'a' + 'A');
	for (unsigned i = 0; suffixes[i]; i++) {
		if (suffixes[i] == suffix) {
			*shift = 10 * (i + 1);
			return true;
		}
	}
	return false;
}

/* "4096", "512m", "4G": digits and at most one of K M G T in either case; one final newline is forgiven. False: anything
 * else, or more than 64 bits; *bytes is untouched. */
static inline bool memory_size_parse(const char *text, uint64_t *bytes)
{
	uint64_t value;
	unsigned shift = 0;

	if (!text || !text_number(&text, &value))
		return false;
	if (*text && *text != '\n') {
		if (!memory_size_shift(*text, &shift))
			return false;
		text++;
	}
	if (*text == '\n')
		text++;
	if (*text || value > UINT64_MAX >> shift)
		return false;
	*bytes = value << shift;
	return true;
}

static inline uint64_t size_mul(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_TOO_LARGE : product;
}

/* Rows are padded to 256 bytes (clr: imagePitchAlignment_; the same in all four releases). */
static inline uint64_t size_pitched(uint64_t width, uint64_t height, uint64_t depth)
{
	if (width > UINT64_MAX - 255)
		return SIZE_TOO_LARGE;
	return size_mul(size_mul((width + 255) & ~(uint64_t)255, height), depth);
}

static inline uint64_t size_at_least_one(uint64_t n)
{
	return n ? n : 1;
}

/* A height or depth of 0 means that the array has no such dimension. */
static inline uint64_t size_array(uint64_t element, uint64_t width, uint64_t height, uint64_t depth)
{
	return size_mul(size_mul(size_mul(element, width), size_at_least_one(height)), size_at_least_one(depth));
}

static inline uint64_t size_mipmapped(uint64_t element, uint64_t width, uint64_t height, uint64_t depth, unsigned levels)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < levels && i < 64; i++) {
		uint64_t level = size_array(element, size_at_least_one(width >> i), height >> i, depth >> i);

		if (__builtin_add_overflow(sum, level, &sum))
			return SIZE_TOO_LARGE;
	}
	return sum;
}

/* Bytes of one texel; 0 for a descriptor that the runtime will refuse. */
static inline uint64_t size_channels(const hipChannelFormatDesc *desc)
{
	if (!desc || desc->x < 0 || desc->y < 0 || desc->z < 0 || desc->w < 0)
		return 0;
	return ((uint64_t)desc->x + (uint64_t)desc->y + (uint64_t)desc->z + (uint64_t)desc->w) / 8;
}

/* HIP_AD_FORMAT_*: U8 1, U16 2, U32 3, S8 8, S16 9, S32 10, HALF 16, FLOAT 32. */
static inline uint64_t size_format(int format)
{
	switch (format) {
	case 1:
	case 8:
		return 1;
	case 2:
	case 9:
	case 16:
		return 2;
	case 3:
	case 10:
	case 32:
		return 4;
	default:
		return 0;
	}
}

static inline uint64_t size_descriptor(const HIP_ARRAY_DESCRIPTOR *d)
{
	return d ? size_array(size_format(d->Format) * d->NumChannels, d->Width, d->Height, 0) : 0;
}

static inline uint64_t size_descriptor3d(const HIP_ARRAY3D_DESCRIPTOR *d)
{
	return d ? size_array(size_format(d->Format) * d->NumChannels, d->Width, d->Height, d->Depth) : 0;
}

static inline uint64_t size_descriptor_mipmapped(const HIP_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
	return d ? size_mipmapped(size_format(d->Format) * d->NumChannels, d->Width, d->Height, d->Depth, levels) : 0;
}

#endif
