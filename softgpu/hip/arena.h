/* The memory itself: real, readable and writable host memory, but only addresses until it is touched.
 *
 * One reservation of addresses is cut into chunks of 2 MiB. Blocks up to 1 MiB come from a chunk of their
 * size class (powers of two from 4 KiB), larger ones are runs of chunks. A table tells for any address, in
 * constant time, which block it lies in, so that an interior pointer finds its block. Blocks of a class are
 * handed out from a cache of the calling thread.
 */
#ifndef SOFTGPU_ARENA_H
#define SOFTGPU_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span;

struct block {
	char *address;
	struct block *next; /* while free */
	struct span *span;
	size_t size;    /* asked for */
	size_t charged; /* taken from the row below */
	int row;
	_Atomic int live;
	/* The client's: which runtime it belongs to and what it is to that runtime. */
	void *owner;
	void *detail;
	int kind;
	int device;
};

/* NULL when there are no addresses left. The contents are whatever was there. */
struct block *arena_take(size_t size);
void arena_give(struct block *block);
/* The live block that `address` points into, or NULL. */
struct block *arena_find(const void *address);
/* Calls `each` for every live block; `each` may give it back. */
void arena_walk(void (*each)(struct block *block, void *data), void *data);
/* In a child, and when the library goes: everything is gone. */
void arena_drop(void);

#endif
