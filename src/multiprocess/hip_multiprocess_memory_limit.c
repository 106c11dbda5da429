/* The ledger's protocol: reserve, settle, withdraw, release, charge, and what is left.
 *
 * Why it is one translation unit: `gcc test.c hip_multiprocess_memory_limit.c` builds every test of it, and
 * the library's fast path inlines down to the three counters of a row. The parts are the sibling headers,
 * from the floor up: region_layout, ledger_state, region_lock, liveness, rows, region_guard, slots,
 * region_file, status, open, view.
 */
#include "hip_multiprocess_memory_limit.h"

#include "open.h"
#include "view.h"

static __attribute__((noinline, cold)) void wipe_if_forked(struct ledger *l)
{
	if (l->kept.opener_pid && l->kept.opener_pid != sys_getpid())
		bytes_clear(&l->state, sizeof l->state);
}

static inline struct region *ledger_region(struct ledger *l)
{
	struct region *r;

	if (__builtin_expect(!l->kept.is_wiped_on_fork, 0))
		wipe_if_forked(l);
	r = atomic_load_explicit(&l->state.region, memory_order_acquire);
	return __builtin_expect(r != NULL, 1) ? r : ledger_open_once(l);
}

static inline bool is_countable(unsigned device, enum ledger_book book, uint64_t n)
{
	return n && n <= ROWS_LIMIT_MAX && device < LEDGER_DEVICES && (unsigned)book < LEDGER_BOOKS;
}

/* False: no region at all, not even a private one. */
static inline bool rows_find(struct ledger *l, unsigned device, enum ledger_book book, struct rows *b)
{
	struct region *r = ledger_region(l);

	if (__builtin_expect(!r, 0))
		return false;
	*b = (struct rows){
	    .region = r,
	    .row = r->row[device][book],
	    .mine = &r->row[device][book][region_row_index(l->state.slot)],
	    .own = &l->state.own[device][book],
	    .limit = rows_limit(atomic_load_explicit(&r->header.limit[device], memory_order_relaxed)),
	    .own_bound = rows_limit(l->kept.own_bound[device]),
	    .device = device,
	    .book = book,
	    .slot = l->state.slot,
	};
	return true;
}

/* The kernel's lock of a book's queue, or what stands for it where no other process can see the region. One for each
 * book: a call whose requested bytes are in flight needs the driver's, and whoever waits for it must not be in its way.
 */
static int queue_lock(struct ledger *l, enum ledger_book book, uint64_t deadline_ns)
{
	if (!atomic_load(&l->state.is_private))
		return byte_lock_open(&l->state.place, LOCK_QUEUE + book, deadline_ns);
	for (unsigned round = 0;; round++) {
		uint32_t free = 0;

		if (atomic_compare_exchange_strong(&l->state.private_queue[book], &free, 1))
			return INT32_MAX;
		if (ledger_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		ledger_pause(round);
	}
}

static void queue_unlock(struct ledger *l, enum ledger_book book, int lock)
{
	if (lock == INT32_MAX)
		atomic_store(&l->state.private_queue[book], 0);
	else
		byte_unlock_close(lock, LOCK_QUEUE + book);
}

/* Reaps if the region's lock is free just now; true: no row of the dead is left. It is never held while waiting. */
static bool reap_in_queue(const struct rows *b, struct judge *judge, int lock)
{
	if (byte_lock(lock, LOCK_REGION, 0) != 0)
		return false;
	rows_reap_locked(b, judge);
	byte_unlock(lock, LOCK_REGION);
	return true;
}

/* Holds the queue and its announcement until the request is decided: others make room for this one waiter. While
 * nobody can be reaped, rows of the dead are left out. */
static enum ledger_outcome reserve_queued(struct ledger *l, const struct rows *b, uint64_t n, int lock,
					  uint64_t deadline_ns)
{
	bool is_private = lock == INT32_MAX, is_reaped = is_private;
	CLEANUP_JUDGE struct judge judge = judge_init(l->state.space, &l->state.place, is_private ? -1 : lock);
	enum ledger_outcome refusal;
	struct rows_sum sum;

	TESTPOINT(reserve_queued);
	rows_announce(b, n);
	TESTPOINT(reserve_queued_announced);
	for (unsigned round = 0;; round++) {
		if (rows_fit(b, NULL, &sum))
			return LEDGER_GRANTED;
		if (!is_private)
			is_reaped = reap_in_queue(b, &judge, lock);
		if (!is_reaped && rows_fit(b, &judge, &sum))
			return LEDGER_GRANTED;
		refusal = is_reaped || !rows_have_dead(b, &judge) ? rows_refusal(b, n) : LEDGER_GRANTED;
		if (refusal == LEDGER_GRANTED && ledger_now_ns() > deadline_ns)
			refusal = LEDGER_UNSETTLED;
		if (refusal != LEDGER_GRANTED)
			break;
		ledger_pause(round);
	}
	rows_withdraw(b, n);
	if (!is_reaped && refusal == LEDGER_UNSETTLED)
		reason_note(l, LEDGER_REASON_LOCK_TIMEOUT);
	return refusal;
}

/* Without the lock nobody is reaped and nobody has a place in the queue: rows of the dead are left out, and
 * the announcement is not kept up while waiting, or two such waiters would wait for each other. */
static enum ledger_outcome reserve_unlocked(struct ledger *l, const struct rows *b, uint64_t n,
					    uint64_t deadline_ns)
{
	for (unsigned round = 0;; round++) {
		CLEANUP_JUDGE struct judge judge = judge_init(l->state.space, &l->state.place, -1);
		enum ledger_outcome refusal;
		struct rows_sum sum;

		rows_announce(b, n);
		if (rows_fit(b, &judge, &sum))
			return LEDGER_GRANTED;
		rows_withdraw(b, n);
		refusal = rows_have_dead(b, &judge) ? LEDGER_GRANTED : rows_refusal(b, n);
		if (refusal != LEDGER_GRANTED)
			return refusal;
		if (ledger_now_ns() > deadline_ns)
			break;
		ledger_pause(40 + round);
	}
	reason_note(l, LEDGER_REASON_LOCK_TIMEOUT);
	return LEDGER_UNSETTLED;
}

/* It did not fit at first sight. Refused at once where that is certain, without a lock; else in the queue. */
static __attribute__((noinline)) enum ledger_outcome reserve_slowly(struct ledger *l, const struct rows *b,
								    uint64_t n)
{
	CLEANUP_JUDGE struct judge judge = judge_init(l->state.space, &l->state.place, -1);
	enum ledger_outcome out;
	uint64_t deadline;
	int lock;

	if (atomic_load(&l->state.is_private) || !rows_have_dead(b, &judge)) {
		out = rows_refusal(b, n);
		if (out != LEDGER_GRANTED)
			return out;
	}
	deadline = ledger_now_ns() + l->kept.wait_ns;
	lifetime_fd_renew(l);
	lock = queue_lock(l, b->book, deadline);
	if (lock < 0)
		return reserve_unlocked(l, b, n, deadline);
	out = reserve_queued(l, b, n, lock, deadline);
	queue_unlock(l, b->book, lock);
	return out;
}

/* More than one of the limits, or than any card has: such a request is never counted. */
static enum ledger_outcome reserve_outsized(const struct rows *b, uint64_t n)
{
	if (b->limit != ROWS_NO_LIMIT && n > (uint64_t)b->limit)
		return LEDGER_OVER_LIMIT;
	if (b->own_bound != ROWS_NO_LIMIT && n > (uint64_t)b->own_bound)
		return LEDGER_OVER_OWN;
	return LEDGER_GRANTED;
}

/* Claims bytes beyond what is announced, so that this process need not look at the others until they are used: as many as leave
 * half of the room if every slot does the same. Larger shares that are in the way, from when there were fewer slots or more room,
 * are called back; while a fair part of that is left, less is claimed instead, and nothing beyond what is used by whoever has just
 * called others back: two that take turns would do so at every request. None near the limit. It is written first and looked at
 * like an announcement; one thread at a time, so that the share found to fit is the one that was written. */
static void share_raise(struct ledger *l, const struct rows *b, const struct rows_sum *sum)
{
	enum { NEAR_PART = 64, FEW_PART = 16 };
	int64_t room = b->limit - sum->asked, left = b->limit - sum->claimed;
	int64_t part = room / (2 * region_high(b->region) + 1); /* of a spoiled file it may be 0 */
	uint64_t bit = UINT64_C(1) << b->device, share, written;

	if (room < b->limit / NEAR_PART || atomic_fetch_or(&l->state.raising[b->book], bit) & bit)
		return;
	if (sum->is_revoked)
		part = 0;
	else if (left < part / FEW_PART)
		rows_revoke(b);
	else if (left < part)
		part = left;
	share = (uint64_t)row_asked(b->mine) + (uint64_t)part;
	if (share > (uint64_t)b->own_bound)
		share = (uint64_t)b->own_bound;
	written = share | SHARE_UNPROVEN;
	atomic_store(&b->mine->share, written);
	TESTPOINT(share_written);
	if (rows_sum(b, NULL).claimed > b->limit)
		share = 0;
	atomic_compare_exchange_strong(&b->mine->share, &written, share);
	atomic_fetch_and(&l->state.raising[b->book], ~bit);
}

/* Announced, and more than this process has a share for. By value: the common path keeps its rows in registers. */
static __attribute__((noinline)) enum ledger_outcome reserve_beyond_share(struct ledger *l, struct rows b, uint64_t n)
{
	struct rows_sum sum;

	if (__builtin_expect(rows_fit(&b, NULL, &sum), 1)) {
		if (b.limit != ROWS_NO_LIMIT)
			share_raise(l, &b, &sum);
		return LEDGER_GRANTED;
	}
	rows_withdraw(&b, n);
	TESTPOINT(reserve_withdrawn);
	return reserve_slowly(l, &b, n);
}

enum ledger_outcome ledger_reserve(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n)
{
	struct rows b;
	enum ledger_outcome out = LEDGER_GRANTED;

	if (!n || device >= LEDGER_DEVICES)
		return LEDGER_GRANTED;
	if (!rows_find(l, device, book, &b))
		return l->kept.own_bound[device] ? LEDGER_OVER_LIMIT : LEDGER_GRANTED;
	if (__builtin_expect(n > ROWS_LIMIT_MAX || n > (uint64_t)b.limit || n > (uint64_t)b.own_bound, 0))
		return reserve_outsized(&b, n);
	TESTPOINT(reserve_entered);
	rows_announce(&b, n);
	if (__builtin_expect(!rows_share_covers(&b), 0))
		out = reserve_beyond_share(l, b, n);
	if (out == LEDGER_GRANTED)
		TESTPOINT(reserve_granted);
	return out;
}

void ledger_settle(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n)
{
	struct rows b;

	if (is_countable(device, book, n) && rows_find(l, device, book, &b)) {
		atomic_fetch_add(&b.mine->granted, n);
		TESTPOINT(settle_raised);
	}
}

void ledger_withdraw(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n)
{
	struct rows b;

	if (is_countable(device, book, n) && rows_find(l, device, book, &b))
		rows_withdraw(&b, n);
}

void ledger_release(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n)
{
	struct rows b;

	if (is_countable(device, book, n) && rows_find(l, device, book, &b)) {
		atomic_fetch_add(&b.mine->gone, n);
		TESTPOINT(release_raised);
		atomic_fetch_sub(b.own, n);
	}
}

void ledger_charge(struct ledger *l, unsigned device, enum ledger_book book, uint64_t n)
{
	struct rows b;

	if (is_countable(device, book, n) && rows_find(l, device, book, &b)) {
		rows_announce(&b, n);
		TESTPOINT(charge_announced);
		if (b.limit != ROWS_NO_LIMIT && !rows_share_covers(&b) && rows_sum(&b, NULL).claimed > b.limit)
			rows_revoke(&b);
		atomic_fetch_add(&b.mine->granted, n);
	}
}

/* Without pressure: reaps if the lock is free just now, else leaves it to whoever has it. */
static void look_for_the_dead(struct ledger *l, const struct rows *b)
{
	CLEANUP_JUDGE struct judge judge = judge_init(l->state.space, &l->state.place, -1);
	int lock;

	lifetime_fd_renew(l);
	if (!rows_have_dead(b, &judge))
		return;
	lock = byte_lock_open(&l->state.place, LOCK_REGION, 0);
	if (lock < 0)
		return;
	rows_reap_locked(b, &judge);
	byte_unlock_close(lock, LOCK_REGION);
}

/* Is it time to look again? A question of two loads and the time stamp counter, which says when to read the
 * clock; a counter that jumps or stands still costs a look too many or too late. One thread of those that ask
 * is told yes. */
static bool is_time_to_look(struct ledger *l)
{
	uint64_t seen, now;

	if (atomic_load_explicit(&l->state.clock_is_tsc, memory_order_relaxed)) {
		uint64_t ticks = __builtin_ia32_rdtsc();

		if (ticks - atomic_load_explicit(&l->state.look_ticks, memory_order_relaxed) <
		    LEDGER_LOOK_TICKS)
			return false;
		atomic_store_explicit(&l->state.look_ticks, ticks, memory_order_relaxed);
	}
	now = ledger_now_ns();
	seen = atomic_load(&l->state.look_ns);
	return now - seen >= LEDGER_LOOK_NS && atomic_compare_exchange_strong(&l->state.look_ns, &seen, now);
}

static int64_t rows_used(struct ledger *l, const struct rows *b)
{
	if (__builtin_expect(is_time_to_look(l), 0) && !atomic_load(&l->state.is_private))
		look_for_the_dead(l, b);
	return rows_upper(b);
}

uint64_t ledger_used(struct ledger *l, unsigned device, enum ledger_book book)
{
	struct rows b;

	if (!is_countable(device, book, 1) || !rows_find(l, device, book, &b))
		return 0;
	return (uint64_t)rows_used(l, &b);
}

static uint64_t room(int64_t limit, int64_t used)
{
	if (limit == ROWS_NO_LIMIT)
		return UINT64_MAX;
	return used < limit ? (uint64_t)(limit - used) : 0;
}

uint64_t ledger_free(struct ledger *l, unsigned device, enum ledger_book book)
{
	struct rows b;
	uint64_t pod, own;

	if (!is_countable(device, book, 1))
		return UINT64_MAX;
	if (!rows_find(l, device, book, &b))
		return l->kept.own_bound[device] ? 0 : UINT64_MAX;
	pod = b.limit == ROWS_NO_LIMIT ? UINT64_MAX : room(b.limit, rows_used(l, &b));
	own = room(b.own_bound, (int64_t)atomic_load(b.own));
	return pod < own ? pod : own;
}

uint64_t ledger_limit(struct ledger *l, unsigned device)
{
	struct region *r = device < LEDGER_DEVICES ? ledger_region(l) : NULL;
	uint64_t own = device < LEDGER_DEVICES ? l->kept.own_bound[device] : 0;
	uint64_t pod = r ? atomic_load_explicit(&r->header.limit[device], memory_order_relaxed) : 0;

	if (!pod || !own)
		return pod | own;
	return pod < own ? pod : own;
}

size_t ledger_size(void)
{
	return sizeof(struct ledger);
}

static uint64_t lower_of(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a | b;
	return a < b ? a : b;
}

struct ledger *ledger_init(void *storage, const struct ledger_settings *settings)
{
	struct ledger *l = storage;
	struct text path = {l->kept.asked_path, sizeof l->kept.asked_path, 0};

	l->kept.settings = *settings;
	if (settings->path) {
		text_add(&path, settings->path);
		l->kept.settings.path = l->kept.asked_path;
	}
	for (unsigned i = 0; i < LEDGER_DEVICES; i++)
		l->kept.own_bound[i] = lower_of(settings->limit[i], settings->own_limit[i]);
	l->kept.wait_ns = (settings->wait_ms ? settings->wait_ms : LEDGER_WAIT_MS) * 1000000;
	l->kept.lifetime_fd = -1;
	l->kept.is_wiped_on_fork = sys_madvise(&l->state, sizeof l->state, MADV_WIPEONFORK) == 0;
	return l;
}

int ledger_open(struct ledger *l)
{
	ledger_region(l);
	return atomic_load(&l->state.is_private) ? l->state.private_reason : 0;
}

void ledger_close(struct ledger *l)
{
	struct region *r = atomic_load(&l->state.region);

	if (r)
		region_unmap(l, r);
	lifetime_fd_drop(l);
	bytes_clear(&l->state, sizeof l->state);
}

void ledger_note_reason(struct ledger *l, enum ledger_reason reason)
{
	struct region_status *s = status_of(l);

	if ((unsigned)reason >= LEDGER_REASONS)
		return;
	atomic_fetch_or(&l->kept.reasons, UINT64_C(1) << reason);
	if (s)
		atomic_fetch_or(&s->reasons, UINT64_C(1) << reason);
}

void ledger_note_symbols(struct ledger *l, unsigned bound, unsigned wanted)
{
	struct region_status *s = status_of(l);
	uint64_t symbols = (uint64_t)bound << 32 | wanted;

	atomic_store(&l->kept.symbols, symbols);
	if (s)
		atomic_store(&s->symbols, symbols);
}

void ledger_note_allocations(struct ledger *l, int64_t change)
{
	struct region_status *s = status_of(l);

	atomic_fetch_add_explicit(s ? &s->allocations : &l->state.allocations, (uint64_t)change,
				  memory_order_relaxed);
}

void ledger_note_migrated(struct ledger *l, unsigned device, int64_t change)
{
	struct region_status *s = status_of(l);

	if (s && device < LEDGER_DEVICES)
		atomic_fetch_add_explicit(&s->migrated[device], (uint64_t)change, memory_order_relaxed);
}

void ledger_note_refusal(struct ledger *l, const char *api, unsigned device, enum ledger_book book,
			 uint64_t bytes)
{
	struct region_status *s = status_of(l);
	struct ledger_refusal last = {.device = device, .book = (uint32_t)book, .bytes = bytes};
	struct rows b;

	if (!s || !is_countable(device, book, 1) || !rows_find(l, device, book, &b))
		return;
	for (unsigned i = 0; api[i] && i + 1 < sizeof last.api; i++)
		last.api[i] = api[i];
	last.limit = ledger_limit(l, device);
	last.used = (uint64_t)rows_upper(&b);
	last.realtime_ns = sys_clock_ns(CLOCK_REALTIME);
	atomic_fetch_add(&s->refusals, 1);
	status_write_last(s, &last);
}

static const struct {
	const char *name, *text, *remedy;
} reason_table[] = {
#define REASON(name, what, remedy) {#name, what, remedy},
#include "reason.def"
#undef REASON
};

const char *ledger_reason_name(enum ledger_reason reason)
{
	return (unsigned)reason < LEDGER_REASONS ? reason_table[reason].name : "UNKNOWN";
}

const char *ledger_reason_text(enum ledger_reason reason)
{
	return (unsigned)reason < LEDGER_REASONS ? reason_table[reason].text : "unknown to this version";
}

const char *ledger_reason_remedy(enum ledger_reason reason)
{
	return (unsigned)reason < LEDGER_REASONS ? reason_table[reason].remedy
						 : "use the version that wrote the region";
}
