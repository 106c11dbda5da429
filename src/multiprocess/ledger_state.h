/* struct ledger: what one process keeps of its own. Private to the module.
 *
 * Two parts on pages of their own. A forked child keeps the first and finds the second zeroed, so that it
 * owns nothing of its parent's: it opens the region again and takes its own slot when it first needs one.
 */
#ifndef AMVGPU_LEDGER_STATE_H
#define AMVGPU_LEDGER_STATE_H

#include "../sys/sys.h"
#include "../sys/text.h"
#include "region_layout.h"
#include "testpoint.h"

enum {
	LEDGER_PATH_SIZE = 4096,
	LEDGER_WAIT_MS = 10000,      /* how long a request waits for others before it is refused unsettled */
	LEDGER_LOOK_NS = 50000000,   /* the dead are looked for at most this often without pressure */
	LEDGER_LOOK_TICKS = 1 << 26, /* the clock is read at most once in as many ticks: 13 ms at 5 GHz */
};

enum ledger_opening { OPENING_NOBODY, OPENING_SOMEBODY, OPENING_FAILED };

/* Where the region's file is: enough to open a fresh description of the very same file. */
struct region_place {
	char path[LEDGER_PATH_SIZE];   /* absolute */
	char hidden[LEDGER_PATH_SIZE]; /* the same directory's ".NAME.region" */
	char aside[LEDGER_PATH_SIZE];  /* "NAME.unusable" */
	size_t directory_length;       /* of all three, the last slash included */
	uint64_t device, inode;
};

struct ledger_kept {
	struct ledger_settings settings;    /* path points into asked_path */
	uint64_t own_bound[LEDGER_DEVICES]; /* the lower of both settings; 0: none */
	uint64_t wait_ns;
	bool is_wiped_on_fork; /* false: no MADV_WIPEONFORK here, each call compares pids instead */
	int opener_pid;
	int lifetime_fd; /* the parent's, when not negative: a child closes its copy */
	uint64_t lifetime_device, lifetime_inode;
	shared_u64 reasons, symbols; /* noted by others than the ledger; true of children too */
	char asked_path[LEDGER_PATH_SIZE];
};

struct ledger_state {
	_Atomic(struct region *) region;  /* NULL: not open. Published last; never changes until close. */
	_Atomic(struct region *) mapping; /* the same, from the moment it is mapped */
	unsigned slot;
	_Atomic bool is_private; /* no other process sees the region */
	bool is_held_by_mapping; /* SLOT_MAPPED works on this file system */
	_Atomic bool clock_is_tsc;
	int private_reason; /* what ledger_open() answers */
	uint64_t ident, space;
	_Atomic uint32_t opening;       /* enum ledger_opening: one thread opens, others wait */
	_Atomic uint32_t private_queue[LEDGER_BOOKS]; /* stand for the kernel's locks when the region is private */
	shared_u64 look_ticks, look_ns; /* when the dead were last looked for from ledger_used() */
	shared_u64 reasons;             /* the ledger's own */
	shared_u64 allocations;         /* noted before there was a slot */
	/* What this process has announced and not released: exact whatever happens to the file. */
	_Alignas(64) shared_u64 own[LEDGER_DEVICES][LEDGER_BOOKS];
	shared_u64 raising[LEDGER_BOOKS]; /* bit per device: a thread raises the share */
	uint64_t pod_limit[LEDGER_DEVICES]; /* when the slot was taken; used if the file is cut off */
	struct region_place place;
};

struct ledger {
	struct ledger_kept kept;
	_Alignas(4096) struct ledger_state state;
};

static inline uint64_t ledger_now_ns(void)
{
	return sys_clock_ns(CLOCK_MONOTONIC);
}

/* For a lock of the kernel that somebody has: yields at first, then sleeps from 50 us, doubling up to 1.6 ms,
 * so that hundreds of waiters leave the processor to the one that they wait for. */
static inline void ledger_back_off(unsigned round)
{
	if (round < 4)
		sys_sched_yield();
	else
		sys_sleep_ns(UINT64_C(50000) << (round < 9 ? round - 4 : 5));
}

/* A short wait that grows: the caller looks again after it. */
static inline void ledger_pause(unsigned round)
{
	if (round < 8)
		__builtin_ia32_pause();
	else if (round < 40)
		sys_sched_yield();
	else
		sys_sleep_ns(50000);
}

#endif
