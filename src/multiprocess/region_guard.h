/* A file can be cut off while it is mapped: the next touch is SIGBUS.
 *
 * One handler, installed when the first region is mapped and never in a process without one. A fault inside a
 * region replaces the mapping, in one step and at the same address, by a private copy that holds this
 * process's own bytes and its pod's limits; the faulting instruction runs again and enforcement goes on for
 * this process alone. Any other SIGBUS goes to whoever had it before. A program that installs its own handler
 * later takes ours over with it. The handler only makes system calls and touches memory of our own.
 */
#ifndef AMVGPU_REGION_GUARD_H
#define AMVGPU_REGION_GUARD_H

#include <signal.h>

#include "ledger_state.h"

enum { GUARDS = 64 };

struct guard {
	_Atomic(struct region *) region; /* NULL: free */
	struct ledger *ledger;           /* NULL: a tool's mapping, nothing to keep */
	_Atomic uint32_t state;          /* enum guard_state */
};

enum guard_state { GUARD_WATCHING, GUARD_REPLACING, GUARD_REPLACED, GUARD_FAILED };

struct kernel_sigaction {
	void (*handler)(int, siginfo_t *, void *);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

enum { KERNEL_SA_RESTORER = 0x04000000, KERNEL_MREMAP_MAYMOVE = 1, KERNEL_MREMAP_FIXED = 2 };

static struct guard guard_table[GUARDS];
static struct kernel_sigaction guard_previous;
static _Atomic uint32_t guard_installed;

/* Exactly these bytes: unwinders know a signal frame by them. */
#ifdef __CET__
__attribute__((nocf_check))
#endif
static __attribute__((naked, used)) void
guard_return(void)
{
	__asm__("mov $15, %rax\n\tsyscall");
}

/* After a fork the table is the parent's; its entries are dead because the child's state was zeroed. */
static inline bool guard_is_live(const struct guard *g, const struct region *r)
{
	return r && (!g->ledger || atomic_load(&g->ledger->state.mapping) == r);
}

static inline struct guard *guard_find(uintptr_t address)
{
	for (unsigned i = 0; i < GUARDS; i++) {
		struct region *r = atomic_load(&guard_table[i].region);

		if (guard_is_live(&guard_table[i], r) && address - (uintptr_t)r < sizeof *r)
			return &guard_table[i];
	}
	return NULL;
}

/* Is slot one that another ledger of this very process image has in the same file? */
static inline bool guard_has_slot(const struct ledger *l, unsigned slot)
{
	for (unsigned i = 0; i < GUARDS; i++) {
		const struct guard *g = &guard_table[i];
		const struct ledger *other = g->ledger;

		if (guard_is_live(g, atomic_load(&g->region)) && other && other != l &&
		    other->state.slot == slot && other->state.place.inode == l->state.place.inode &&
		    other->state.place.device == l->state.place.device)
			return true;
	}
	return false;
}

/* What the ledger knows by itself, in the shape of a region. Nobody else sees it yet. */
static inline void region_fill_private(struct region *r, struct ledger *l, const uint64_t *limit)
{
	unsigned slot = l->state.slot;

	atomic_store(&r->header.high, slot + 1);
	atomic_store(&r->slot[slot].ident, l->state.ident);
	atomic_store(&r->slot[slot].space, l->state.space);
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		atomic_store(&r->header.limit[d], limit[d]);
		for (unsigned b = 0; b < LEDGER_BOOKS; b++) {
			uint64_t own = atomic_load(&l->state.own[d][b]);

			if (!own)
				continue;
			atomic_store(&r->row[d][b][region_row_index(slot)].asked, own);
			atomic_store(&r->row[d][b][region_row_index(slot)].granted, own);
			atomic_fetch_or(&r->header.used[b], UINT64_C(1) << d);
		}
	}
}

static inline bool guard_replace(struct guard *g)
{
	struct region *old = atomic_load(&g->region);
	struct region *new =
	    sys_mmap(NULL, sizeof *new, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_error(new))
		return false;
	if (g->ledger) {
		atomic_store(&g->ledger->state.is_private, true);
		atomic_fetch_or(&g->ledger->state.reasons, UINT64_C(1) << LEDGER_REASON_REGION_PRIVATE);
		region_fill_private(new, g->ledger, g->ledger->state.pod_limit);
	}
	sys_madvise(new, sizeof *new, MADV_DONTFORK);
	return !sys_is_error((void *)sys_call6(SYS_mremap, (long)new, sizeof *new, sizeof *new,
					       KERNEL_MREMAP_MAYMOVE | KERNEL_MREMAP_FIXED, (long)old, 0));
}

/* True: the mapping is whole, run the instruction again. */
static inline bool guard_mend(struct guard *g)
{
	uint32_t watching = GUARD_WATCHING;

	if (atomic_compare_exchange_strong(&g->state, &watching, GUARD_REPLACING))
		atomic_store(&g->state, guard_replace(g) ? GUARD_REPLACED : GUARD_FAILED);
	while (atomic_load(&g->state) == GUARD_REPLACING)
		sys_sched_yield();
	return atomic_load(&g->state) == GUARD_REPLACED;
}

static inline void guard_pass_on(int signal, siginfo_t *info, void *context)
{
	struct kernel_sigaction *previous = &guard_previous;
	static const struct kernel_sigaction dfl;

	if ((uintptr_t)previous->handler == (uintptr_t)SIG_IGN)
		return;
	if ((uintptr_t)previous->handler != (uintptr_t)SIG_DFL) {
		previous->handler(signal, info, context);
		return;
	}
	SYS_CALL4(SYS_rt_sigaction, signal, &dfl, 0, sizeof dfl.mask);
	if (info->si_code <= 0) /* sent, not a fault: it does not come again by itself */
		SYS_CALL(SYS_tgkill, sys_getpid(), sys_gettid(), signal);
}

static void guard_handler(int signal, siginfo_t *info, void *context)
{
	struct guard *g = info->si_code > 0 ? guard_find((uintptr_t)info->si_addr) : NULL;

	if (!g || !guard_mend(g))
		guard_pass_on(signal, info, context);
}

/* With the mask and stack of the handler that was there, which may be called from ours. */
static inline void guard_install(void)
{
	struct kernel_sigaction ours = {.handler = guard_handler, .restorer = guard_return};
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong(&guard_installed, &none, 1))
		return;
	SYS_CALL4(SYS_rt_sigaction, SIGBUS, NULL, &guard_previous, sizeof ours.mask);
	ours.mask = guard_previous.mask;
	ours.flags = (guard_previous.flags & ~(unsigned long)SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK |
		     SA_RESTART | KERNEL_SA_RESTORER;
	SYS_CALL4(SYS_rt_sigaction, SIGBUS, &ours, NULL, sizeof ours.mask);
}

static inline void guard_remove(const struct region *r)
{
	for (unsigned i = 0; i < GUARDS; i++) {
		struct region *seen = atomic_load(&guard_table[i].region);

		if (seen == r)
			atomic_compare_exchange_strong(&guard_table[i].region, &seen, NULL);
	}
}

/* Before r is touched for the first time. A full table leaves r unguarded: only a test has so many. */
static inline void guard_add(struct region *r, struct ledger *ledger)
{
	guard_install();
	guard_remove(r); /* a parent's, at the address that its child was given again */
	for (unsigned i = 0; i < GUARDS; i++) {
		struct guard *g = &guard_table[i];
		struct region *seen = atomic_load(&g->region);

		if (guard_is_live(g, seen) || !atomic_compare_exchange_strong(&g->region, &seen, r))
			continue;
		g->ledger = ledger;
		atomic_store(&g->state, GUARD_WATCHING);
		return;
	}
}

#endif
