/* The gate that every allocation passes: reserve in the ledger, let the runtime work, settle; and the way back for frees.
 *
 * Called by the wrappers on the program's threads. Nothing here is called under the loader lock but gate_init.
 */
#ifndef AMVGPU_GATE_H
#define AMVGPU_GATE_H

#include "alloc_tracker.h"
#include "hip_copy.h"
#include "../multiprocess/hip_multiprocess_memory_limit.h"

/* All thread-local state of the library; 16 bytes. */
struct gate_thread {
	uintptr_t frame;    /* of the thread's outermost call of a wrapper */
	uint16_t caller;    /* the last bits of its return address */
	uint8_t inside;	    /* depth of the runtime's own calls, which are not charged again */
	uint8_t may_refuse; /* depth of allocation calls: the driver's ENOMEM reaches one, which expects it */
	uint8_t is_fragile; /* depth of calls that ENOMEM would break: they overdraw and are rolled back */
	uint8_t in_ioctl;   /* an outer ioctl or close is being counted */
	/* In the outermost allocation call: */
	uint8_t was_refused;   /* 1 + the device on which the driver said ENOMEM for us */
	uint8_t has_overdrawn; /* a fragile call has got more than the limit leaves */
};
extern __thread struct gate_thread gate_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The process's ledger; NULL until gate_init. */
struct ledger *gate_ledger(void);
struct tracker *gate_tracker(void);

/* Makes the ledger and the tracker from the settings. Under the loader lock; touches no file. False: no memory. */
bool gate_init(void);

/* In an outermost call's own frame: it says where it is. */
static inline __attribute__((always_inline)) void gate_mark(void)
{
	gate_thread.frame = (uintptr_t)__builtin_frame_address(0);
	gate_thread.caller = (uint16_t)(uintptr_t)__builtin_return_address(0);
}

/* First thing in every stub of HIP, whose frame is its wrapper's. */
static inline __attribute__((always_inline)) void gate_arrive(void)
{
	if (__builtin_expect(gate_thread.inside, 0))
		return;
	gate_mark();
	gate_thread.in_ioctl = 0;
}

/* Whether the outermost call is going on still, seen from the frame of a later one. If not, its depths are forgotten: an
 * exception or siglongjmp takes a thread out of a call without a word. What that call asked for stays announced. */
bool gate_is_going_on(uintptr_t frame);

/* A depth that was forgotten meanwhile is not lowered. */
static inline void gate_lower(uint8_t *depth)
{
	*depth = (uint8_t)(*depth - !!*depth);
}

/* Around every call of the runtime's originals. */
static inline void gate_enter(void)
{
	gate_thread.inside++;
}

static inline void gate_leave(void)
{
	gate_lower(&gate_thread.inside);
}

/* In a wrapper's own frame. */
static inline __attribute__((always_inline)) bool gate_is_inside(void)
{
	return __builtin_expect(gate_thread.inside, 0) && gate_is_going_on((uintptr_t)__builtin_frame_address(0));
}

/* Bytes announced for one call. bytes = 0: the call is not counted. */
struct charge {
	uint64_t bytes;
	unsigned device;
};

/* Puts a refusal on record; the first of a process is logged too. */
void gate_note_refusal(const char *function, unsigned device, enum ledger_book book, uint64_t bytes);

/* Around an allocation call, which the driver may refuse. Calls nest: what the driver refused is on record once, for the
 * outermost, and only if that failed: the runtime may have trimmed its cache and tried again. */
static inline void gate_allocation_begin(void)
{
	if (!gate_thread.may_refuse++)
		gate_thread.was_refused = gate_thread.has_overdrawn = 0;
}

/* The runtime works on an allocation that a wrapper has charged and reports: there is nothing left to do for it. */
static inline bool gate_is_within_allocation(void)
{
	return gate_thread.inside && gate_thread.may_refuse;
}

static inline void gate_driver_refused(unsigned device)
{
	gate_thread.was_refused = (uint8_t)(device + 1);
}

static inline void gate_allocation_end(const char *function, bool has_failed, uint64_t bytes)
{
	gate_lower(&gate_thread.may_refuse);
	if (!gate_thread.may_refuse && has_failed && gate_thread.was_refused)
		gate_note_refusal(function, gate_thread.was_refused - 1u, LEDGER_PHYSICAL, bytes);
}

/* Reserves bytes on the device that HIP calls ordinal. False: refused, and the refusal is on record. */
bool gate_reserve(struct charge *charge, enum hip_function function, int ordinal, uint64_t bytes);
void gate_withdraw(const struct charge *charge);

/* The allocation under key is there and has got bytes. False: it took more than was reserved and that does not fit; the
 * caller must free it and then give the charge up. */
bool gate_settle(struct charge *charge, enum hip_function function, uint64_t got, enum tracker_class class,
		 const void *key);
void gate_give_up(const struct charge *charge);

/* Makes the runtime itself say "out of memory", so that its last error is its own. Returns that error. */
hipError_t gate_refuse(const struct hip_copy *copy);

/* Takes what a free of key will give back: the key itself or, for pointers, the block it points into. *base is its key. */
bool gate_take(const struct hip_copy *copy, unsigned classes, const void *key, const void **base, struct tracked *taken);
/* The free failed: as before. */
void gate_put_back(const void *base, struct tracked taken);
/* The free succeeded. */
void gate_release(struct tracked taken);

/* Free bytes as reported: what the ledger leaves, at most really_free, in KiB steps as the runtime counts. */
uint64_t gate_report_free(unsigned device, uint64_t really_free, uint64_t total);
/* The total as reported: the limit, or the physical size where that is less. */
uint64_t gate_report_total(unsigned device, uint64_t physical);

#endif
