/* The region: what the shared file holds, word by word.
 *
 *	0	header	magic, version, sizes, boot id; high-water mark; limits
 *	4096	slots	[LEDGER_SLOTS]			who sits where
 *	36864	rows	[device][book][region_row_index(slot)]	asked, granted, gone, share
 *	...	status	[LEDGER_SLOTS]			what is shown of each process
 *
 * Nothing read from here may be trusted: any process of the pod can write anything into it. Bounds are
 * checked by the reader, text is terminated by the reader, a row that is nonsense counts as nothing.
 */
#ifndef AMVGPU_REGION_LAYOUT_H
#define AMVGPU_REGION_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_multiprocess_memory_limit.h"

typedef _Atomic uint64_t shared_u64;

#define REGION_MAGIC 0x52756d6470676d61u /* "amgpdmuR", little endian */
enum { REGION_VERSION = 2 };

/* Reads as one piece from a file, before anything is mapped. */
struct region_stamp {
	uint64_t magic;
	uint32_t version; /* a larger one is never touched */
	uint32_t header_size;
	uint32_t word_size;
	uint32_t slots;
	uint32_t devices;
	uint32_t books;
	uint32_t slot_size;
	uint32_t row_size;
	uint32_t status_size;
	uint32_t reserved;
	uint64_t region_size;
	uint64_t boot[2]; /* /proc/sys/kernel/random/boot_id; zero: unknown */
};

struct region_header {
	struct region_stamp stamp;
	_Alignas(128) shared_u64 high;    /* slots ever used: rows at or above it have never been written */
	shared_u64 used[LEDGER_BOOKS];    /* bit per device: some row of it has been written */
	_Alignas(64) shared_u64 swept_ns; /* CLOCK_MONOTONIC of the last look at every slot; a hint */
	_Alignas(64) shared_u64 limit[LEDGER_DEVICES]; /* bytes; 0: none. Written while nobody lives. */
	_Alignas(4096) char end[0];
};

/* How a slot's lock byte is held: SLOT_MAPPED means that the kernel keeps it exactly as long as the owner's
 * address space has the region mapped, so the byte alone tells the living from the dead. */
enum slot_flag { SLOT_MAPPED = 1 };

struct region_slot {
	shared_u64 ident; /* 0: free; pid << 42 | start time. Set by the owner, cleared by a reaper. */
	shared_u64 space; /* pid namespace << 32 | time namespace; 0 while being claimed or reaped */
	shared_u64 flags; /* enum slot_flag; valid when space is not 0 */
	shared_u64 reserved;
};

/* pending = asked - granted, committed = granted - gone; modulo 2^64. Free slots have asked = granted = gone and no share.
 */
struct region_row {
	shared_u64 asked;   /* + before looking, - when withdrawn */
	shared_u64 granted; /* only grows */
	shared_u64 gone;    /* only grows */
	shared_u64 share;   /* bytes that count as asked for, SHARE_UNPROVEN; its owner raises it, anybody may clear it */
};

/* Two rows are a cache line. The first 512 slots have the even ones, so that processes do not write to each other's lines: with
 * 16 on 16 cores a pair costs half as much as in rows that lie close (bench/explained.md). */
static inline unsigned region_row_index(unsigned slot)
{
	return (slot << 1 | slot / (LEDGER_SLOTS / 2)) & (LEDGER_SLOTS - 1);
}

struct region_status {
	shared_u64 reasons;
	shared_u64 symbols; /* bound << 32 | wanted */
	shared_u64 allocations;
	shared_u64 refusals;
	char command[16];
	shared_u64 writing; /* odd while `last` is being written */
	uint64_t reserved;
	struct ledger_refusal last;
	shared_u64 migrated[LEDGER_DEVICES];
	_Alignas(64) char end[0];
};

struct region {
	struct region_header header;
	struct region_slot slot[LEDGER_SLOTS];
	_Alignas(64) struct region_row row[LEDGER_DEVICES][LEDGER_BOOKS][LEDGER_SLOTS];
	_Alignas(4096) struct region_status status[LEDGER_SLOTS];
};

/* Golden offsets: a change of any of them is a new REGION_VERSION. */
#define REGION_GOLDEN(what, bytes) _Static_assert((what) == (bytes), #what)
REGION_GOLDEN(sizeof(struct region_stamp), 72);
REGION_GOLDEN(offsetof(struct region_stamp, version), 8);
REGION_GOLDEN(offsetof(struct region_stamp, region_size), 48);
REGION_GOLDEN(offsetof(struct region_header, high), 128);
REGION_GOLDEN(offsetof(struct region_header, used), 136);
REGION_GOLDEN(offsetof(struct region_header, swept_ns), 192);
REGION_GOLDEN(offsetof(struct region_header, limit), 256);
REGION_GOLDEN(sizeof(struct region_header), 4096);
REGION_GOLDEN(sizeof(struct region_slot), 32);
REGION_GOLDEN(sizeof(struct region_row), 32);
REGION_GOLDEN(sizeof(struct region_status), 704);
REGION_GOLDEN(offsetof(struct region, slot), 4096);
REGION_GOLDEN(offsetof(struct region, row), 36864);
REGION_GOLDEN(offsetof(struct region, status), 4231168);
REGION_GOLDEN(sizeof(struct region), 4952064);
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && sizeof(shared_u64) == 8, "rows are plain 64-bit words");

/* What a file that should be a region is. */
enum region_kind {
	REGION_VALID,
	REGION_FUTURE,  /* ours, of a version that we do not know: never touched */
	REGION_STALE,   /* ours, of an older version, another word size or another boot */
	REGION_GARBAGE, /* not ours, or cut short */
};

static inline struct region_stamp region_stamp_make(const uint64_t boot[2])
{
	return (struct region_stamp){
	    .magic = REGION_MAGIC,
	    .version = REGION_VERSION,
	    .header_size = sizeof(struct region_header),
	    .word_size = sizeof(uint64_t),
	    .slots = LEDGER_SLOTS,
	    .devices = LEDGER_DEVICES,
	    .books = LEDGER_BOOKS,
	    .slot_size = sizeof(struct region_slot),
	    .row_size = sizeof(struct region_row),
	    .status_size = sizeof(struct region_status),
	    .region_size = sizeof(struct region),
	    .boot = {boot[0], boot[1]},
	};
}

static inline bool region_is_same_boot(const uint64_t a[2], const uint64_t b[2])
{
	return (a[0] == b[0] && a[1] == b[1]) || !(a[0] | a[1]) || !(b[0] | b[1]);
}

/* file_size: of the file that the stamp was read from. */
static inline enum region_kind region_kind(const struct region_stamp *s, uint64_t file_size,
					   const uint64_t boot[2])
{
	if (file_size < sizeof *s || s->magic != REGION_MAGIC)
		return REGION_GARBAGE;
	if (s->version > REGION_VERSION)
		return REGION_FUTURE;
	if (s->version < REGION_VERSION || s->header_size != sizeof(struct region_header) ||
	    s->word_size != sizeof(uint64_t) || s->slots != LEDGER_SLOTS || s->devices != LEDGER_DEVICES ||
	    s->books != LEDGER_BOOKS || s->slot_size != sizeof(struct region_slot) ||
	    s->row_size != sizeof(struct region_row) || s->status_size != sizeof(struct region_status) ||
	    s->region_size != sizeof(struct region) || !region_is_same_boot(s->boot, boot))
		return REGION_STALE;
	return file_size < sizeof(struct region) ? REGION_GARBAGE : REGION_VALID;
}

static inline bool region_is_valid(const struct region_stamp *s, uint64_t file_size, const uint64_t boot[2])
{
	return region_kind(s, file_size, boot) == REGION_VALID;
}

/* How many rows there are to read; whatever the file says, never more than exist. */
static inline unsigned region_high(struct region *r)
{
	uint64_t high = atomic_load(&r->header.high);

	return high < LEDGER_SLOTS ? (unsigned)high : LEDGER_SLOTS;
}

#endif
