/* The ledger: who in the pod answers for how many bytes of which device.
 *
 * A shared file (the region) holds, per device and book, one row per slot: asked, granted, gone, and the slot's share.
 * The sum of the rows is the truth; no total is stored, no lock is needed to be granted, and within its share a process
 * reads no other's row. See docs/design.md, "Ledger", for the protocol and its invariants.
 *
 * Hosted and freestanding alike: raw system calls only. Unless said otherwise a function may be called on any thread,
 * also while others call it, after fork (the child has no slot and takes its own when it first needs one), but not in
 * a signal handler and not under the loader lock.
 */
#ifndef AMVGPU_LEDGER_H
#define AMVGPU_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LEDGER_DEVICES = 64,
	LEDGER_SLOTS = 1024,
};

#define LEDGER_DEFAULT_PATH "/tmp/hipdevshr.cache"

/* The two books, each bounded by the limit on its own. */
enum ledger_book {
	LEDGER_REQUESTED, /* what was asked for through HIP or HSA, managed memory included */
	LEDGER_PHYSICAL,  /* what the driver gave */
	LEDGER_BOOKS,
};

enum ledger_outcome {
	LEDGER_GRANTED = 0,
	LEDGER_OVER_LIMIT = 1, /* at one moment the pod's committed bytes + n exceeded the limit */
	LEDGER_UNSETTLED = 2,  /* refused because another process stood still with conflicting bytes announced */
	LEDGER_OVER_OWN = 3,   /* within the pod's limit, but over the lower one this process set for itself */
};

enum ledger_reason {
#define REASON(name, what, remedy) LEDGER_REASON_##name,
#include "reason.def"
#undef REASON
	LEDGER_REASONS,
};

struct ledger_settings {
	const char *path;		     /* HIP_DEVICE_MEMORY_SHARED_CACHE; NULL: LEDGER_DEFAULT_PATH. Copied. */
	uint64_t limit[LEDGER_DEVICES];	     /* the pod's, bytes; 0: none. Written into a region nobody lives in. */
	uint64_t own_limit[LEDGER_DEVICES];  /* of this process alone, bytes; 0: none; never raises the pod's */
	uint64_t wait_ms; /* how long a request waits for others; 0: 10 s. For tests. */
};

struct ledger; /* one per process in the library; tests and tools may have several */

/* A ledger that has not touched any file yet: the region is found or made by the first call that needs it.
 * storage: at least ledger_size() bytes, page aligned, private to the caller, zeroed; forked children find it zeroed
 * (MADV_WIPEONFORK is set here) except for the settings. May be called under the loader lock. */
size_t ledger_size(void);
struct ledger *ledger_init(void *storage, const struct ledger_settings *settings);

/* Opens the region and takes a slot now. 0, or the reason (enum ledger_reason) for which enforcement is private.
 * Needs no call: everything below does it. */
int ledger_open(struct ledger *l);
/* Unmaps. The slot is left for a later claim to reap, as at any other death. */
void ledger_close(struct ledger *l);

/* Reserve, then do the real allocation, then settle (it succeeded) or withdraw (it failed). After a grant exactly one of
 * the two must follow. n = 0 is granted. A refusal leaves everything as it was.
 * A request that fits only if others' calls in flight fail waits for them, at most wait_ms. So a thread must not reserve
 * while a reservation of its own in the same device and book is unsettled: it would wait for itself. */
enum ledger_outcome ledger_reserve(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n);
void ledger_settle(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n);
void ledger_withdraw(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n);

/* The bytes are really free again. Only what this process settled or charged. */
void ledger_release(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n);

/* Answers for n bytes that cannot be refused (an overdraft where they exceed the limit). */
void ledger_charge(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n);

/* The pod's limit of a device, lowered to this process's own; 0: none. */
uint64_t ledger_limit(struct ledger *l, unsigned device);
/* Bytes of the pod, announced ones included; never below what is really held. Looks for the dead at most every 50 ms. */
uint64_t ledger_used(struct ledger *l, unsigned device, enum ledger_book book);
/* Bytes that a request could still get in this book: min over the pod's and the own limit; UINT64_MAX: no limit. */
uint64_t ledger_free(struct ledger *l, unsigned device, enum ledger_book book);

/* What is shown of this process (amvgpu status). Never needed for enforcement. */
struct ledger_refusal {
	char api[32];	    /* "hipMalloc" */
	uint32_t device;
	uint32_t book;
	uint64_t bytes;
	uint64_t limit;
	uint64_t used;	    /* of the pod in that book, then */
	uint64_t realtime_ns;
};
/* Notes open nothing: before the region is open they are kept until it is, except refusals and migrations. */
void ledger_note_refusal(struct ledger *l, const char *api, unsigned device, enum ledger_book book, uint64_t bytes);
void ledger_note_reason(struct ledger *l, enum ledger_reason reason);
void ledger_note_symbols(struct ledger *l, unsigned bound, unsigned wanted);
/* A settled HIP allocation came (+1) or went (-1). */
void ledger_note_allocations(struct ledger *l, int64_t change);
/* Managed bytes that a prefetch or preferred location put on the device; reported apart, in no book. */
void ledger_note_migrated(struct ledger *l, unsigned device, int64_t change);

/* Looking at a region from outside (amvgpu): a copy of it, takes no slot, trusts nothing in it. */
struct ledger_process {
	uint32_t pid; /* in its own pid namespace */
	bool alive;
	bool foreign_namespace;
	char command[16];
	uint64_t reasons; /* bit 1 << enum ledger_reason */
	uint32_t symbols_bound, symbols_wanted;
	uint64_t start_time; /* field 22 of /proc/pid/stat */
	int64_t allocations; /* live */
	uint64_t refusals;
	struct ledger_refusal last;
	uint64_t bytes[LEDGER_BOOKS][LEDGER_DEVICES];
	uint64_t migrated[LEDGER_DEVICES];
};
struct ledger_view;
/* 0 or -errno (-EPROTO: not a region of this version). path NULL: LEDGER_DEFAULT_PATH. view: ledger_view_size() bytes,
 * zeroed. */
size_t ledger_view_size(void);
int ledger_view_open(struct ledger_view *view, const char *path);
void ledger_view_close(struct ledger_view *view);
uint64_t ledger_view_limit(const struct ledger_view *view, unsigned device);
/* Fills *process from the next slot in use at or after *slot and moves *slot behind it; false at the end. */
bool ledger_view_next(const struct ledger_view *view, unsigned *slot, struct ledger_process *process);
/* Reaps the dead of the region at path (amvgpu reap): how many, or -errno. */
int ledger_view_reap(const char *path);

const char *ledger_reason_name(enum ledger_reason reason);
const char *ledger_reason_text(enum ledger_reason reason);
const char *ledger_reason_remedy(enum ledger_reason reason);

#endif
