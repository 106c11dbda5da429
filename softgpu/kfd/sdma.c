/* Packets of the copy engines. Formats: the SDMA packet headers that the kernel and ROCr publish; word
 * numbers below. */
#include "events.h"
#include "log.h"
#include "memory.h"
#include "queues.h"
#include "settings.h"

#include <string.h>

enum {
	OP_NOP = 0,
	OP_COPY = 1,
	OP_FENCE = 5,
	OP_TRAP = 6,
	OP_POLL = 8,
	OP_ATOMIC = 10,
	OP_FILL = 11,
	OP_TIMESTAMP = 13,
	OP_CACHE = 17,
	COPY_LINEAR = 0,
	COPY_RECT = 4
};

/* One side of a rectangle copy, in elements. */
struct plane {
	uint8_t *base;
	uint64_t x, y, z, pitch, slice;
};

struct rectangle {
	struct plane from, to;
	uint64_t width, height, depth;
	unsigned int element; /* bytes */
};

static uint64_t word64(const uint32_t *words)
{
	return words[0] | (uint64_t)words[1] << 32;
}

static uint64_t bits(uint32_t word, int low, int count)
{
	return word >> low & (uint32_t)((1ull << count) - 1);
}

/* Field widths differ: xy 14, z 11, pitch 19 (from bit 13), slice 28 before gfx12; xy 16, z 14, pitch 16,
 * slice 32 since. */
static struct plane read_plane(const uint32_t *words, bool is_gfx12)
{
	int xy = is_gfx12 ? 16 : 14;

	return (struct plane){.base = memory_pointer(word64(words)),
			      .x = bits(words[2], 0, xy),
			      .y = bits(words[2], 16, xy),
			      .z = bits(words[3], 0, is_gfx12 ? 14 : 11),
			      .pitch = (is_gfx12 ? bits(words[3], 16, 16) : bits(words[3], 13, 19)) + 1,
			      .slice = (is_gfx12 ? words[4] : bits(words[4], 0, 28)) + 1ull};
}

static uint8_t *row_of(const struct plane *plane, unsigned int element, uint64_t y, uint64_t z)
{
	return plane->base +
	       element * ((plane->z + z) * plane->slice + (plane->y + y) * plane->pitch + plane->x);
}

static void copy_rectangle(const uint32_t *words)
{
	bool is_gfx12 = settings()->gfx >= 120000;
	int xy = is_gfx12 ? 16 : 14;
	struct rectangle copy = {.from = read_plane(words + 1, is_gfx12),
				 .to = read_plane(words + 6, is_gfx12),
				 .width = bits(words[11], 0, xy) + 1,
				 .height = bits(words[11], 16, xy) + 1,
				 .depth = bits(words[12], 0, is_gfx12 ? 14 : 11) + 1,
				 .element = 1u << (words[0] >> 29)};

	log_line("SDMA rectangle=%lux%lux%lu element=%u", copy.width, copy.height, copy.depth, copy.element);
	for (uint64_t z = 0; z < copy.depth; z++)
		for (uint64_t y = 0; y < copy.height; y++)
			memcpy(row_of(&copy.to, copy.element, y, z), row_of(&copy.from, copy.element, y, z),
			       copy.width * copy.element);
}

static void copy_linear(const uint32_t *words)
{
	uint64_t bytes = bits(words[1], 0, 30) + 1;

	log_line("SDMA copy=%lu", bytes);
	memmove(memory_pointer(word64(words + 5)), memory_pointer(word64(words + 3)), bytes);
}

static unsigned int copy(const uint32_t *words)
{
	unsigned int kind = words[0] >> 8 & 0xff;

	if (kind == COPY_LINEAR) {
		copy_linear(words);
		return 7;
	}
	if (kind == COPY_RECT) {
		copy_rectangle(words);
		return 13;
	}
	return 0;
}

static unsigned int fill(const uint32_t *words)
{
	uint32_t *to = memory_pointer(word64(words + 1));
	uint64_t count = bits(words[4], 0, 30) / 4 + 1;

	log_line("SDMA fill=%lu", count * 4);
	for (uint64_t i = 0; i < count; i++)
		to[i] = words[3];
	return 5;
}

static bool is_poll_met(const uint32_t *words)
{
	uint32_t value, reference = words[3];

	if (!(words[0] >> 31)) /* a register, not memory */
		return true;
	value = *(volatile uint32_t *)(uintptr_t)word64(words + 1) & words[4];
	switch (words[0] >> 28 & 7) {
	case 1:
		return value < reference;
	case 2:
		return value <= reference;
	case 3:
		return value == reference;
	case 4:
		return value != reference;
	case 5:
		return value >= reference;
	case 6:
		return value > reference;
	default:
		return true;
	}
}

/* Carries one packet out; its length in words, 0: unknown. */
static unsigned int carry_out(const uint32_t *words)
{
	switch (words[0] & 0xff) {
	case OP_NOP:
		return 1 + (unsigned int)bits(words[0], 16, 14);
	case OP_COPY:
		return copy(words);
	case OP_FENCE:
		*(volatile uint32_t *)(uintptr_t)word64(words + 1) = words[3];
		return 4;
	case OP_TRAP:
		events_set(words[1] & 0xfffffff);
		return 2;
	case OP_POLL:
		return 6;
	case OP_ATOMIC:
		__atomic_add_fetch((int64_t *)(uintptr_t)word64(words + 1), (int64_t)word64(words + 3),
				   __ATOMIC_SEQ_CST);
		return 8;
	case OP_FILL:
		return fill(words);
	case OP_TIMESTAMP:
		*(volatile uint64_t *)(uintptr_t)word64(words + 1) = clock_ticks();
		return 3;
	case OP_CACHE:
		return 5;
	default:
		return 0;
	}
}

enum step sdma_step(struct queue *queue)
{
	uint64_t at = *queue->read;
	uint64_t end = __atomic_load_n(queue->written, __ATOMIC_ACQUIRE); /* the program's release */
	const uint32_t *words = (const uint32_t *)(uintptr_t)(queue->ring + at % queue->size);
	unsigned int length;

	if (at == end)
		return STEP_IDLE;
	if ((words[0] & 0xff) == OP_POLL && !is_poll_met(words))
		return STEP_BLOCKED;
	length = carry_out(words);
	if (!length) { /* what follows cannot be told from data: skip to the end */
		log_unknown("UNKNOWN SDMA packet %#x on queue %u", words[0], queue->id);
		__atomic_store_n(queue->read, end, __ATOMIC_RELEASE);
		return STEP_DONE;
	}
	__atomic_store_n(queue->read, at + length * 4, __ATOMIC_RELEASE);
	return STEP_DONE;
}
