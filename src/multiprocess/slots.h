/* Taking a slot and giving back those of the dead.
 *
 * Exit gives nothing back: it is death like any other, found by whoever needs the bytes or a slot. All
 * reaping happens under the region's lock, may be broken off at any instruction and is then done again by the
 * next.
 */
#ifndef AMVGPU_SLOTS_H
#define AMVGPU_SLOTS_H

#include "rows.h"
#include "region_guard.h"

static inline void row_reap_locked(struct region_row *row)
{
	uint64_t asked = atomic_load(&row->asked);

	row_revoke(row);
	if (asked == atomic_load(&row->gone) && asked == atomic_load(&row->granted))
		return;
	atomic_store(&row->gone, asked);
	TESTPOINT(reap_gone_raised);
	atomic_store(&row->granted, asked);
	TESTPOINT(reap_row_raised);
}

/* Raises, never clears: a sum that runs meanwhile sees at most too much. */
static inline void slot_reap_locked(struct region *r, unsigned slot)
{
	for (unsigned book = 0; book < LEDGER_BOOKS; book++) {
		uint64_t used = atomic_load(&r->header.used[book]);

		for (; used; used &= used - 1)
			row_reap_locked(&r->row[__builtin_ctzll(used)][book][region_row_index(slot)]);
	}
	atomic_store(&r->slot[slot].space, 0);
	TESTPOINT(reap_space_cleared);
	atomic_store(&r->slot[slot].ident, 0);
}

/* The dead that stand in the way of one device and book; how many. */
static inline unsigned rows_reap_locked(const struct rows *b, struct judge *judge)
{
	unsigned top = region_high(b->region), reaped = 0;

	for (unsigned i = 0; i < top; i++) {
		uint64_t ident = atomic_load(&b->region->slot[i].ident);

		if (row_asked(row_of(b, i)) && row_is_of_the_dead(b, judge, i, ident)) {
			slot_reap_locked(b->region, i);
			reaped++;
		}
	}
	return reaped;
}

/* Before exec this process was another, with the same identity: what carries it and is not this image's is
 * dead. */
static inline bool slot_is_of_my_past(const struct ledger *l, unsigned slot, uint64_t ident)
{
	return ident == l->state.ident && !guard_has_slot(l, slot);
}

/* Reaps before a slot is taken, so that the lowest is free and scans stay short. Everybody is judged in full
 * at most every LEDGER_LOOK_NS; in between only until one is found alive, else by what a single system call
 * tells. Whether anybody lives. */
static inline bool slots_reap_locked(struct ledger *l, struct region *r, struct judge *judge)
{
	uint64_t now = ledger_now_ns(), swept = atomic_load(&r->header.swept_ns);
	bool in_full = swept > now || now - swept > LEDGER_LOOK_NS, is_anybody_alive = false;
	unsigned top = region_high(r);

	for (unsigned i = 0; i < top; i++) {
		uint64_t ident = atomic_load(&r->slot[i].ident);
		bool is_dead;

		if (!ident)
			continue;
		if (in_full || !is_anybody_alive)
			is_dead = slot_is_of_my_past(l, i, ident) || slot_is_dead(judge, r, i, ident);
		else
			is_dead = slot_is_of_my_past(l, i, ident) ||
				  slot_is_plainly_dead(judge->space, r, i, ident);
		if (is_dead)
			slot_reap_locked(r, i);
		else
			is_anybody_alive = true;
	}
	if (in_full)
		atomic_store(&r->header.swept_ns, now);
	return is_anybody_alive;
}

static inline bool slots_have_living(struct region *r, struct judge *judge)
{
	unsigned top = region_high(r);

	for (unsigned i = 0; i < top; i++) {
		uint64_t ident = atomic_load(&r->slot[i].ident);

		if (ident && !slot_is_dead(judge, r, i, ident))
			return true;
	}
	return false;
}

/* Limits hold as long as anybody lives; after that they are the next one's. */
static inline void limits_write(struct ledger *l, struct region *r)
{
	for (unsigned i = 0; i < LEDGER_DEVICES; i++) {
		atomic_store(&r->header.limit[i], l->kept.settings.limit[i]);
		if (i == 0)
			TESTPOINT(limits_half_written);
	}
}

static inline void high_raise(struct region *r, unsigned high)
{
	uint64_t seen = atomic_load(&r->header.high);

	while (seen < high && !atomic_compare_exchange_weak(&r->header.high, &seen, high)) {
	}
}

/* Takes slot i if it is free. The byte is locked before the identity is written and the mark is raised before
 * that, so whoever finds the identity without a namespace may let the byte decide, and no identity is above
 * the mark. */
static inline bool slot_try(struct ledger *l, struct region *r, int fd, unsigned i)
{
	struct region_slot *s = &r->slot[i];
	uint64_t free = 0;

	if (atomic_load(&s->ident) || byte_try_lock(fd, LOCK_SLOT + i) == -EAGAIN)
		return false;
	TESTPOINT(claim_byte_locked);
	high_raise(r, i + 1);
	TESTPOINT(claim_raised);
	if (!atomic_compare_exchange_strong(&s->ident, &free, l->state.ident)) {
		byte_unlock(fd, LOCK_SLOT + i);
		return false;
	}
	TESTPOINT(claim_identified);
	atomic_store(&s->flags, l->state.is_held_by_mapping ? SLOT_MAPPED : 0);
	atomic_store(&s->space, l->state.space);
	TESTPOINT(claim_published);
	return true;
}

/* fd: the description that r was mapped through. 0, or -ENOSPC: all slots are taken.
 * Without the lock (somebody stands still with it, or waits with it for a call in flight) nobody is reaped
 * and the compare-and-swap alone decides. */
static inline int slot_claim(struct ledger *l, struct region *r, int fd, uint64_t deadline_ns)
{
	bool is_locked = byte_lock(fd, LOCK_REGION, deadline_ns) == 0;
	CLEANUP_JUDGE struct judge judge = judge_init(l->state.space, &l->state.place, fd);
	bool is_anybody_alive = is_locked ? slots_reap_locked(l, r, &judge) : slots_have_living(r, &judge);
	unsigned i = 0;

	if (!is_anybody_alive)
		limits_write(l, r);
	while (i < LEDGER_SLOTS && !slot_try(l, r, fd, i))
		i++;
	if (is_locked)
		byte_unlock(fd, LOCK_REGION);
	l->state.slot = i;
	return i < LEDGER_SLOTS ? 0 : -ENOSPC;
}

#endif
