/* Which live allocation is how large and on which device: what a free gives back.
 *
 * A hash table by address in shards, 16 bytes an entry, grown without bound. Its memory is the process's own: a forked
 * child finds it empty (it owns nothing of its parent's), locks included. Any thread; no lock is held over anything but the
 * table's own memory. Not in a signal handler.
 */
#ifndef AMVGPU_ALLOC_TRACKER_H
#define AMVGPU_ALLOC_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tracker_class {
	TRACK_POINTER,	  /* device memory that hipFree frees; size, device */
	TRACK_MANAGED,	  /* the same, but hipDeviceReset leaves it alone */
	TRACK_ARRAY,	  /* hipArray_t; size, device */
	TRACK_HANDLE,	  /* hipMemGenericAllocationHandle_t; size, device */
	TRACK_REFERENCES, /* of a handle: size is their number */
	TRACK_MAPPING,	  /* an address a handle is mapped at: size is the handle */
	TRACK_POOL,	  /* hipMemPool_t; device is HIP's ordinal */
	TRACK_EXEC,	  /* hipGraphExec_t with alloc nodes; size, device, flag once charged */
};

#define TRACK_FREEABLE (1u << TRACK_POINTER | 1u << TRACK_MANAGED)

struct tracked {
	uint64_t size; /* below 1 << 48 */
	uint8_t device; /* below 64 */
	uint8_t class;
	bool flag;
};

struct tracker;

/* An empty tracker, or NULL without memory. May be called under the loader lock. */
struct tracker *tracker_new(void);
/* The one at *where, which the first caller makes; two that meet get the same. NULL without memory. */
struct tracker *tracker_at(struct tracker **where);

/* Remembers value under key; an older value of the same key and class is replaced. False: no memory, or a value out of
 * range; nothing changed. */
bool tracker_put(struct tracker *t, const void *key, struct tracked value);
/* classes: bits 1 << class. The first match; false if there is none. */
bool tracker_find(struct tracker *t, const void *key, unsigned classes, struct tracked *value);
bool tracker_take(struct tracker *t, const void *key, unsigned classes, struct tracked *value);
/* Adds to the size of the entry and returns the new size; an entry that reaches 0 is gone. -1: no such entry. */
int64_t tracker_add(struct tracker *t, const void *key, unsigned class, int64_t change);
/* Adds 1 to the size of the entry, which is made where there is none. False: no memory. */
bool tracker_raise(struct tracker *t, const void *key, unsigned class);
/* Sets the flag of the entry: true if this call did it. */
bool tracker_flag(struct tracker *t, const void *key, unsigned class);
/* Drops all entries of one class on one device; returns the sum of their sizes and their number. */
uint64_t tracker_drop(struct tracker *t, unsigned class, unsigned device, uint64_t *count);
uint64_t tracker_count(struct tracker *t);

#endif
