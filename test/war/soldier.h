/* What a soldier of the random war does with the card: one slot, one allocation, whatever allocator made it. */
#ifndef WAR_SOLDIER_H
#define WAR_SOLDIER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { DEVICES = 2, SLOTS = 96, PAGE = 4096 };
enum { POOLED = 1 }; /* the device whose memory may also come from pools */
enum { INJECTED = 777 }; /* what SOFTGPU_FAIL makes a call say */
enum { OUT_OF_MEMORY = 2 };

enum slot_state { SLOT_EMPTY, SLOT_BUSY, SLOT_FULL };

struct slot {
	_Atomic int state;
	const struct allocator *allocator;
	void *key, *address; /* address: where a handle of VMM is mapped */
	size_t size;
	int device;
};

struct counts {
	uint64_t operations, granted, refused, injected, wrong, longest_us;
};

/* Loads the runtime; NULL or what is wrong. */
const char *allocator_init(const char *runtime, const uint64_t limit[DEVICES]);

/* The random number below n. */
unsigned random_below(uint64_t *random, unsigned n);

/* One random operation on one of the slots. Any thread. */
void allocator_step(struct slot *slots, struct counts *counts, uint64_t *random);

/* In a child: frees what its parent holds, which must not work. */
void allocator_free_stranger(const struct slot *slots, struct counts *counts);

/* Whether size bytes of a device can be had, and what one page more says; both are free again afterwards. */
void allocator_probe(int device, uint64_t size, struct counts *counts, int result[2]);

/* Gives the memory that pools keep back to the card. */
void allocator_trim(void);

/* hipDeviceReset. No other thread runs. */
void allocator_reset(struct slot *slots, struct counts *counts, int device);

/* What the slots hold, and how much of it is managed memory. */
void allocator_held(const struct slot *slots, uint64_t held[DEVICES], uint64_t managed[DEVICES]);

#endif
