/* Eight workers, killed and stopped at random, judged by one pipe.
 *
 *	test_ledger_storm [seconds [seed]]		default: 3 seconds each of three storms
 *
 * A pipe is totally ordered and small writes are atomic. 'G n' is written after a grant, 'R n' before a
 * release and 'K w' by the killer before it kills, so at every point of the pipe the bytes of those not yet
 * doomed are really held at once: their sum must not exceed the limit. The oracle cannot raise a false alarm;
 * that it raises a right one is shown by workers that check first and charge afterwards.
 */
#include "../ledger_test.h"

#include <poll.h>

enum { WORKERS = 8, LIMIT = 1000000, KILLS = 30 }; /* KILLS: at least so many, however busy the machine */

struct message {
	char what;
	unsigned char worker;
	unsigned short generation;
	uint32_t bytes;
};

struct storm {
	bool is_stopping, is_checking_first, is_always_fitting;
	/* shared with the workers */
	struct counters {
		_Atomic uint64_t operations, granted, over, unsettled, worst_ns, latency[40];
	} * count;
	/* the judge's */
	int pipe[2], mark; /* mark: the killer's own description, which alone does not block */
	pid_t pid[WORKERS];
	unsigned short generation[WORKERS];
	bool is_doomed[WORKERS], is_stopped[WORKERS];
	uint64_t held[WORKERS], total, peak, messages, violations, deserted, kills, stops, random;
};

static unsigned seconds = 3;
static uint64_t seed;
static const char *region_path;

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static void tell(struct storm *s, char what, unsigned worker, uint64_t bytes)
{
	struct message m = {what, (unsigned char)worker, s->generation[worker], (uint32_t)bytes};

	if (write(s->pipe[1], &m, sizeof m) != sizeof m)
		_exit(97);
}

static enum ledger_outcome worker_reserve(struct storm *s, struct ledger *l, uint64_t n)
{
	if (!s->is_checking_first)
		return test_take(l, n);
	if (test_used(l) + n > LIMIT)
		return LEDGER_OVER_LIMIT;
	sched_yield();
	ledger_charge(l, 0, LEDGER_REQUESTED, n);
	return LEDGER_GRANTED;
}

static enum ledger_outcome worker_timed_reserve(struct storm *s, struct ledger *l, uint64_t n)
{
	uint64_t begin = test_now_ns(), took, worst = s->count->worst_ns;
	enum ledger_outcome out = worker_reserve(s, l, n);
	unsigned bucket = 0;

	took = test_now_ns() - begin;
	while (bucket < 39 && took >> bucket)
		bucket++;
	s->count->latency[bucket]++;
	s->count->operations++;
	while (took > worst && !atomic_compare_exchange_weak(&s->count->worst_ns, &worst, took)) {
	}
	return out;
}

static void worker(struct storm *s, unsigned me)
{
	struct ledger *l = test_ledger(region_path, LIMIT);
	uint64_t random = seed * 31 + me * 7919 + s->generation[me] * 104729u + 1, held[4] = {0};

	for (;;) {
		uint64_t *slot = &held[s->is_always_fitting ? 0 : next_random(&random) & 3];
		uint64_t n = s->is_always_fitting ? LIMIT / WORKERS : 1 + next_random(&random) % (LIMIT / 6);

		if (*slot) {
			tell(s, 'R', me, *slot);
			test_give(l, *slot);
			*slot = 0;
			continue;
		}
		switch (worker_timed_reserve(s, l, n)) {
		case LEDGER_GRANTED:
			tell(s, 'G', me, n);
			*slot = n;
			s->count->granted++;
			break;
		case LEDGER_UNSETTLED:
			s->count->unsettled++;
			break;
		default:
			s->count->over++;
		}
	}
}

static void judge(struct storm *s, const struct message *m)
{
	unsigned w = m->worker;

	s->messages++;
	if (m->what == 'K') {
		s->total -= s->held[w];
		s->held[w] = 0;
		s->is_doomed[w] = true;
	} else if (m->generation == s->generation[w] && !s->is_doomed[w]) {
		uint64_t change = m->what == 'G' ? m->bytes : -(uint64_t)m->bytes;

		s->held[w] += change;
		s->total += change;
	}
	if (s->total > s->peak)
		s->peak = s->total;
	s->violations += s->total > LIMIT;
}

/* Reads what is there, waiting at most a millisecond. */
static void listen_to_workers(struct storm *s)
{
	static struct message m[512];
	struct pollfd p = {s->pipe[0], POLLIN, 0};
	ssize_t got;

	if (poll(&p, 1, 1) <= 0)
		return;
	got = read(s->pipe[0], m, sizeof m);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof m[0]; i++)
		judge(s, &m[i]);
}

/* A worker that ended by itself would be the test's fault. */
static void worker_end(struct storm *s, unsigned w)
{
	kill(s->pid[w], SIGKILL);
	s->deserted += test_wait(s->pid[w]) != 128 + SIGKILL;
}

/* Everything before the mark is judged with the victim alive. */
static void kill_one(struct storm *s, unsigned w)
{
	struct message mark = {'K', (unsigned char)w, s->generation[w], 0};

	while (write(s->mark, &mark, sizeof mark) != sizeof mark)
		listen_to_workers(s);
	while (!s->is_doomed[w])
		listen_to_workers(s);
	worker_end(s, w);
	s->kills++;
	s->is_stopped[w] = s->is_doomed[w] = false;
	s->generation[w]++;
	CHILD(s->pid[w], worker(s, w));
}

static void stop_or_continue(struct storm *s, unsigned w)
{
	kill(s->pid[w], s->is_stopped[w] ? SIGCONT : SIGSTOP);
	s->is_stopped[w] = !s->is_stopped[w];
	s->stops += s->is_stopped[w];
}

static void rage(struct storm *s)
{
	uint64_t end = test_now_ns() + seconds * 1000000000u, next = 0;

	for (unsigned w = 0; w < WORKERS; w++)
		CHILD(s->pid[w], worker(s, w));
	while (test_now_ns() < end || s->kills < KILLS) {
		unsigned w = next_random(&s->random) % WORKERS;

		listen_to_workers(s);
		if (test_now_ns() < next)
			continue;
		if (s->is_stopping && next_random(&s->random) % 2)
			stop_or_continue(s, w);
		else
			kill_one(s, w);
		next = test_now_ns() + next_random(&s->random) % 4000000;
	}
	for (unsigned w = 0; w < WORKERS; w++)
		worker_end(s, w);
}

static void report(const struct storm *s)
{
	const uint64_t total = s->count->operations;
	uint64_t seen = 0;

	printf(
	    "    seed %llu: %llu kills, %llu stops, %llu requests: %llu granted, %llu over, %llu unsettled; "
	    "peak %.4f of the limit; longest wait %.1f ms\n    latency:",
	    (unsigned long long)seed, (unsigned long long)s->kills, (unsigned long long)s->stops,
	    (unsigned long long)total, (unsigned long long)s->count->granted,
	    (unsigned long long)s->count->over, (unsigned long long)s->count->unsettled,
	    (double)s->peak / LIMIT, (double)s->count->worst_ns / 1e6);
	for (unsigned b = 0, q = 0; b < 40 && q < 3; b++) {
		static const double quantile[] = {.5, .99, .999};

		seen += s->count->latency[b];
		for (; q < 3 && (double)seen >= quantile[q] * (double)total; q++)
			printf(" p%g < %.1f us", quantile[q] * 100, (double)(UINT64_C(1) << b) / 1e3);
	}
	printf("\n");
}

static void storm_run(struct storm *s, const char *path)
{
	char name[40];

	region_path = path;
	s->random = seed * 2 + 1;
	s->count = test_shared(sizeof *s->count);
	MUST(pipe(s->pipe) == 0);
	snprintf(name, sizeof name, "/proc/self/fd/%d", s->pipe[1]);
	s->mark = open(name, O_WRONLY | O_NONBLOCK);
	MUST(s->mark >= 0);
	rage(s);
	report(s);
	MUST(s->deserted == 0);
}

static void check_exact(const char *path)
{
	struct ledger *l = test_ledger(path, LIMIT);

	CHECK_EQ(test_take(l, LIMIT), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
	ledger_close(l);
}

TEST(under_SIGKILL_at_random_the_limit_is_never_exceeded_and_nothing_is_lost)
{
	static struct storm s;

	storm_run(&s, test_path("storm"));
	CHECK_EQ(s.violations, 0);
	CHECK_EQ(s.count->unsettled, 0);
	CHECK(s.count->granted > 1000 && s.count->over > 100);
	check_exact(region_path);
}

TEST(under_SIGKILL_and_SIGSTOP_the_limit_is_never_exceeded_and_nothing_is_lost)
{
	static struct storm s = {.is_stopping = true};

	storm_run(&s, test_path("storm-stops"));
	CHECK_EQ(s.violations, 0);
	CHECK(s.stops > 0 && s.count->granted > 1000);
	check_exact(region_path);
}

TEST(under_SIGKILL_nobody_is_refused_what_fits)
{
	static struct storm s = {.is_always_fitting = true};

	storm_run(&s, test_path("storm-fits"));
	CHECK_EQ(s.violations, 0);
	CHECK_EQ(s.count->over, 0);
	CHECK_EQ(s.count->unsettled, 0);
	CHECK(s.count->granted > 1000);
	check_exact(region_path);
}

TEST(the_oracle_sees_a_ledger_that_checks_first_and_charges_afterwards)
{
	static struct storm s = {.is_checking_first = true};

	storm_run(&s, test_path("storm-wrong"));
	CHECK(s.violations > 0);
}

int main(int count, char **argument)
{
	seconds = count > 1 ? (unsigned)atoi(argument[1]) : 3;
	seed = count > 2 ? strtoull(argument[2], NULL, 10) : test_now_ns();
	return test_main();
}
