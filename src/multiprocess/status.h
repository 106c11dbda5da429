/* What a process shows of itself, in its slot. Never needed for enforcement; written by the owner alone. */
#ifndef AMVGPU_STATUS_H
#define AMVGPU_STATUS_H

#include "ledger_state.h"

static inline struct region_status *status_of(struct ledger *l)
{
	struct region *r = atomic_load_explicit(&l->state.region, memory_order_acquire);

	return r ? &r->status[l->state.slot] : NULL;
}

/* The last owner's words go; what was noted before there was a slot comes in. */
static inline void status_reset(struct ledger *l, struct region *r)
{
	struct region_status *s = &r->status[l->state.slot];
	char command[sizeof s->command + 1] = "";

	if (file_read("/proc/self/comm", command, sizeof command) <= 0)
		command[0] = 0;
	for (unsigned i = 0; i < sizeof s->command; i++) {
		if (command[i] == '\n')
			command[i] = 0;
	}
	atomic_store(&s->writing, 1);
	bytes_copy(s->command, command, sizeof s->command);
	atomic_store(&s->refusals, 0);
	bytes_clear(&s->last, sizeof s->last);
	for (unsigned d = 0; d < LEDGER_DEVICES; d++)
		atomic_store(&s->migrated[d], 0);
	atomic_store(&s->writing, 0);
	atomic_store(&s->reasons, atomic_load(&l->state.reasons) | atomic_load(&l->kept.reasons));
	atomic_store(&s->symbols, atomic_load(&l->kept.symbols));
	atomic_store(&s->allocations, atomic_load(&l->state.allocations));
}

/* One writer at a time; a second one's note is dropped, a killed one's stays unreadable until the slot is
 * taken again. The odd count is the partner of status_read_last(). */
static inline void status_write_last(struct region_status *s, const struct ledger_refusal *last)
{
	uint64_t count = atomic_load(&s->writing);

	if (count & 1 || !atomic_compare_exchange_strong(&s->writing, &count, count + 1))
		return;
	bytes_copy(&s->last, last, sizeof s->last / 2);
	TESTPOINT(status_half_written);
	bytes_copy((char *)&s->last + sizeof s->last / 2, (const char *)last + sizeof s->last / 2,
		   sizeof s->last - sizeof s->last / 2);
	atomic_store(&s->writing, count + 2);
}

/* A copy of a status taken out of a file: whole only if nobody was writing. */
static inline void status_read_last(const struct region_status *s, struct ledger_refusal *last)
{
	bytes_clear(last, sizeof *last);
	if (atomic_load(&((struct region_status *)s)->writing) & 1)
		return;
	bytes_copy(last, &s->last, sizeof *last);
	last->api[sizeof last->api - 1] = 0;
	for (unsigned i = 0; last->api[i]; i++) {
		if (last->api[i] < ' ' || last->api[i] > '~')
			last->api[i] = '?';
	}
}

#endif
