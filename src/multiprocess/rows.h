/* The arithmetic of rows: announce, withdraw, the share, and the sums between which the truth lies.
 *
 * Everything is sequentially consistent. Needed is less: the announcement must be visible before the scan
 * reads (store to load), `share` and `gone` must be read before `asked` of the same row, all `granted` before all
 * `gone` in lower(), and the high-water mark is raised before a slot's first announcement. On x86-64 the
 * stronger order costs nothing.
 */
#ifndef AMVGPU_ROWS_H
#define AMVGPU_ROWS_H

#include "liveness.h"

#define ROWS_NO_LIMIT INT64_MAX
/* No card is larger. Keeps the sum of all slots' announcements below 2^63. */
#define ROWS_LIMIT_MAX (UINT64_C(1) << 52)
/* Of a share: counted by others, not yet used by its owner. */
#define SHARE_UNPROVEN (UINT64_C(1) << 63)

/* One device and book as one process sees it. */
struct rows {
	struct region *region;
	struct region_row *row; /* [region_row_index(slot)] */
	struct region_row *mine;
	shared_u64 *own;   /* what this process has announced and not released */
	int64_t limit;     /* the pod's */
	int64_t own_bound; /* of this process alone */
	unsigned device, book, slot;
};

static inline struct region_row *row_of(const struct rows *b, unsigned slot)
{
	return &b->row[region_row_index(slot)];
}

static inline int64_t rows_limit(uint64_t limit)
{
	if (!limit)
		return ROWS_NO_LIMIT;
	return limit < ROWS_LIMIT_MAX ? (int64_t)limit : (int64_t)ROWS_LIMIT_MAX;
}

/* A row that no right program could have written counts as nothing: neither may it lend others its nonsense,
 * nor may the sum of all rows leave 63 bits. */
static inline int64_t row_net(uint64_t plus, uint64_t minus)
{
	uint64_t net = plus - minus;

	return net <= ROWS_LIMIT_MAX ? (int64_t)net : 0;
}

/* Announced and not gone of one row. `gone` first: what an earlier-read gone holds is in a later-read asked.
 */
static inline int64_t row_asked(struct region_row *row)
{
	uint64_t gone = atomic_load(&row->gone);

	return row_net(atomic_load(&row->asked), gone);
}

static inline int64_t row_committed(struct region_row *row)
{
	uint64_t granted = atomic_load(&row->granted);

	return row_net(granted, atomic_load(&row->gone));
}

static inline int64_t rows_upper_carefully(const struct rows *b)
{
	unsigned top = region_high(b->region);
	int64_t sum = 0;

	for (unsigned i = 0; i < top; i++)
		sum += row_asked(row_of(b, i));
	return sum;
}

/* Never less than what lives; counts the undecided and no shares. Nonsense is looked for once, in all rows together. */
static inline int64_t rows_upper(const struct rows *b)
{
	unsigned top = region_high(b->region);
	uint64_t sum = 0, all = 0;

	for (unsigned i = 0; i < top; i++) {
		struct region_row *row = row_of(b, i);
		uint64_t gone = atomic_load(&row->gone), net = atomic_load(&row->asked) - gone;

		sum += net;
		all |= net;
	}
	return __builtin_expect(all < ROWS_LIMIT_MAX, 1) ? (int64_t)sum : rows_upper_carefully(b);
}

/* What a row stands for in others' sums: what is announced, or the share where that is more. A share is cleared before its
 * row is read again, so whoever finds none finds all that was granted on it. */
struct rows_sum {
	int64_t asked;	 /* as rows_upper() */
	int64_t claimed; /* with shares */
	bool is_revoked; /* shares stood in the way */
};

static inline void rows_sum_add(struct rows_sum *sum, struct region_row *row)
{
	uint64_t share = atomic_load(&row->share) & ~SHARE_UNPROVEN;
	int64_t asked = row_asked(row), claimed = row_net(share, 0);

	sum->asked += asked;
	sum->claimed += asked > claimed ? asked : claimed;
}

/* Never more than was committed at the moment between the two passes. */
static inline int64_t rows_lower(const struct rows *b)
{
	unsigned top = region_high(b->region);
	uint64_t sum = 0;

	for (unsigned i = 0; i < top; i++)
		sum += atomic_load(&row_of(b, i)->granted);
	top = region_high(b->region);
	for (unsigned i = 0; i < top; i++)
		sum -= atomic_load(&row_of(b, i)->gone);
	return (int64_t)sum;
}

static inline bool row_is_of_the_dead(const struct rows *b, struct judge *judge, unsigned i, uint64_t ident)
{
	return i != b->slot && ident && slot_is_dead(judge, b->region, i, ident);
}

/* judge: not NULL to leave out the dead, for want of the lock under which they could be reaped. The identity is then read
 * before the row and once more after it (slot_is_dead), so a row is left out only if it was the dead one's. */
static inline struct rows_sum rows_sum(const struct rows *b, struct judge *judge)
{
	unsigned top = region_high(b->region);
	struct rows_sum sum = {0};

	for (unsigned i = 0; i < top; i++) {
		uint64_t ident = judge ? atomic_load(&b->region->slot[i].ident) : 0;
		struct rows_sum with = sum;

		rows_sum_add(&with, row_of(b, i));
		if (!judge || with.claimed == sum.claimed || !row_is_of_the_dead(b, judge, i, ident))
			sum = with;
	}
	return sum;
}

/* Does a dead row stand in the way of a request? */
static inline bool rows_have_dead(const struct rows *b, struct judge *judge)
{
	unsigned top = region_high(b->region);

	for (unsigned i = 0; i < top; i++) {
		uint64_t ident = atomic_load(&b->region->slot[i].ident);

		if (row_asked(row_of(b, i)) && row_is_of_the_dead(b, judge, i, ident))
			return true;
	}
	return false;
}

/* The own total follows the row: in between, a file cut off under us costs at most the calls in flight. */
static inline void rows_announce(const struct rows *b, uint64_t n)
{
	uint64_t bit = UINT64_C(1) << b->device;
	shared_u64 *used = &b->region->header.used[b->book];

	if (!(atomic_load(used) & bit))
		atomic_fetch_or(used, bit);
	atomic_fetch_add(&b->mine->asked, n);
	TESTPOINT(reserve_announced);
	atomic_fetch_add(b->own, n);
	TESTPOINT(reserve_counted);
}

static inline void rows_withdraw(const struct rows *b, uint64_t n)
{
	atomic_fetch_sub(&b->mine->asked, n);
	TESTPOINT(withdraw_lowered);
	atomic_fetch_sub(b->own, n);
}

/* At any time: it costs its owner one look at all rows. */
static inline void row_revoke(struct region_row *row)
{
	if (atomic_load(&row->share))
		atomic_store(&row->share, 0);
}

static inline void rows_revoke(const struct rows *b)
{
	unsigned top = region_high(b->region);

	for (unsigned i = 0; i < top; i++)
		row_revoke(row_of(b, i));
	TESTPOINT(shares_revoked);
}

/* Nobody else need be looked at: all have counted this much since it was found to fit. The announcement came first, so
 * whoever clears the share after this look finds that in the row. */
static inline bool rows_share_covers(const struct rows *b)
{
	int64_t share = (int64_t)atomic_load(&b->mine->share); /* unproven: negative */
	int64_t own = (int64_t)atomic_load(b->own);	       /* exact, whatever was written into the row */

	return row_asked(b->mine) <= share && share <= b->limit && own <= b->limit && own <= b->own_bound;
}

/* Whether what has been announced is within both limits; *sum is of the pod's, where it has one. judge: see rows_sum(). */
static inline bool rows_fit(const struct rows *b, struct judge *judge, struct rows_sum *sum)
{
	if ((int64_t)atomic_load(b->own) > b->own_bound)
		return false;
	if (b->limit == ROWS_NO_LIMIT)
		return true;
	*sum = rows_sum(b, judge);
	if (sum->claimed > b->limit && sum->asked <= b->limit) {
		rows_revoke(b);
		*sum = rows_sum(b, judge);
		sum->is_revoked = true;
	}
	return sum->claimed <= b->limit;
}

/* The outcome of a request for n that cannot be granted whatever is in flight; LEDGER_GRANTED: it may still
 * fit. Nothing of the request is announced, and no row of the dead counts (or none was found just before). */
static inline enum ledger_outcome rows_refusal(const struct rows *b, uint64_t n)
{
	if (b->limit != ROWS_NO_LIMIT && rows_lower(b) > b->limit - (int64_t)n)
		return LEDGER_OVER_LIMIT;
	if (b->own_bound != ROWS_NO_LIMIT && row_committed(b->mine) > b->own_bound - (int64_t)n)
		return LEDGER_OVER_OWN;
	return LEDGER_GRANTED;
}

#endif
