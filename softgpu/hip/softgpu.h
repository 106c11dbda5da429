/* What the stand-in libhsa-runtime64 offers to the stand-in libamdhip64 beside the HSA functions themselves:
 * which block an address lies in, and what the hardware holds. Memory of devices is taken and given back
 * through the HSA functions.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include "arena.h"
#include "settings.h"
#include "state.h"

struct softgpu {
	const struct settings *settings;
	struct block *(*find)(const void *address);
	void (*walk)(void (*each)(struct block *block, void *data), void *data);
	uint64_t (*held)(int row);
	uint64_t (*held_here)(int row);
	uint64_t (*capacity)(int row);
	uint64_t (*others)(int row);
	/* Addresses of `size` bytes charged to `row`, or to nobody if row < 0; 0 or an hsa_status_t. */
	int (*take)(int row, size_t size, void **address);
	/* Of this block's memory, given back; false if somebody else was faster. */
	bool (*give)(struct block *block);
	/* Appends one line to SOFTGPU_LOG, if that is set. */
	void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
	bool (*is_logging)(void);
};

/* After hsa_init; exported with the symbol version SOFTGPU_1. */
const struct softgpu *softgpu_open(void);

#endif
