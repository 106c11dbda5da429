/* See migration.h. */
#include "migration.h"

#include "gate.h"
#include "../sys/spin.h"

enum { CAPACITY = 8192 };
#define PAGE ((uint64_t)4096)

struct range {
	uint64_t start, end;
	unsigned device;
};

/* lock protects the rest; it nests under nothing. Of a range that finds no room nothing is known: it stays reported. */
struct ranges {
	uint32_t lock;
	uint32_t count;
	struct range range[CAPACITY];
};

static struct ranges *made;

/* A forked child finds it empty. */
static struct ranges *ranges(void)
{
	struct ranges *r = __atomic_load_n(&made, __ATOMIC_ACQUIRE), *expected = NULL;

	if (r)
		return r;
	r = sys_mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_error(r))
		return NULL;
	sys_madvise(r, sizeof *r, MADV_WIPEONFORK);
	if (__atomic_compare_exchange_n(&made, &expected, r, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return r;
	sys_munmap(r, sizeof *r);
	return expected;
}

static bool add_locked(struct ranges *r, struct range range)
{
	if (r->count == CAPACITY)
		return false;
	r->range[r->count++] = range;
	return true;
}

/* Takes what lies from start to end out of one range, which may leave two; true: it is gone and the last has its place. */
static bool cut_one_locked(struct ranges *r, struct range *range, uint64_t start, uint64_t end)
{
	struct range rest = *range;
	uint64_t from = start > range->start ? start : range->start, to = end < range->end ? end : range->end;

	if (from >= to)
		return false;
	ledger_note_migrated(gate_ledger(), range->device, -(int64_t)(to - from));
	rest.start = to;
	range->end = from;
	if (range->start < range->end) {
		if (rest.start < rest.end && !add_locked(r, rest))
			ledger_note_migrated(gate_ledger(), rest.device, -(int64_t)(rest.end - rest.start));
		return false;
	}
	*range = rest.start < rest.end ? rest : r->range[--r->count];
	return rest.start >= rest.end;
}

static void cut_locked(struct ranges *r, uint64_t start, uint64_t end)
{
	uint32_t i = 0;

	while (i < r->count)
		i += !cut_one_locked(r, &r->range[i], start, end);
}

void migration_set(int device, uint64_t start, uint64_t size)
{
	struct ranges *r = size ? ranges() : NULL;

	if (!r)
		return;
	spin_lock(&r->lock);
	cut_locked(r, start, start + size);
	if (device >= 0) {
		ledger_note_migrated(gate_ledger(), (unsigned)device, (int64_t)size);
		add_locked(r, (struct range){ start, start + size, (unsigned)device });
	}
	spin_unlock(&r->lock);
}

void migration_cut(uint64_t start, uint64_t size)
{
	struct ranges *r = __atomic_load_n(&made, __ATOMIC_ACQUIRE);

	if (!r)
		return;
	spin_lock(&r->lock);
	cut_locked(r, start & ~(PAGE - 1), (start + size + PAGE - 1) & ~(PAGE - 1));
	spin_unlock(&r->lock);
}

void migration_end(uint64_t start)
{
	struct ranges *r = __atomic_load_n(&made, __ATOMIC_ACQUIRE);

	if (!r)
		return;
	spin_lock(&r->lock);
	for (uint32_t i = 0; i < r->count; i++) {
		if (r->range[i].start == start) {
			cut_locked(r, start, r->range[i].end);
			break;
		}
	}
	spin_unlock(&r->lock);
}
