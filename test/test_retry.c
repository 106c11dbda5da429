/* Asking again: after others died, stood still or left, and after the pod ended and began anew. */
#include "ledger_root.h"

#include <sys/time.h>

/* A child that holds n bytes until it is killed. */
static pid_t holder(const char *path, uint64_t limit, uint64_t n)
{
	struct test_gate holds = test_gate();
	pid_t pid;

	CHILD(pid, {
		if (test_take(test_ledger(path, limit), n) == LEDGER_GRANTED)
			test_gate_open(&holds);
		pause();
	});
	test_gate_pass(&holds);
	return pid;
}

TEST(a_killed_owner_returns_its_bytes_to_the_next_caller)
{
	const char *path = test_path("killed");
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid = holder(path, 1000, 800);

	CHECK_EQ(test_take(l, 201), LEDGER_OVER_LIMIT);
	test_kill(pid);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
	ledger_close(l);
}

TEST(an_owner_that_nobody_waited_for_returns_its_bytes_all_the_same)
{
	const char *path = test_path("zombie");
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid = holder(path, 1000, 800);
	siginfo_t info;

	kill(pid, SIGKILL);
	MUST(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	test_wait(pid);
	ledger_close(l);
}

TEST(a_thousand_short_lives_leave_nothing_behind)
{
	const char *path = test_path("lives");
	struct ledger *l = test_ledger(path, 1000);
	unsigned refused = 0;
	pid_t pid;

	ledger_open(l);
	for (int i = 0; i < 1000; i++) {
		CHILD(pid, status = test_take(test_ledger(path, 1000), 1000));
		refused += test_wait(pid) != 0;
	}
	CHECK_EQ(refused, 0);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	ledger_close(l);
}

TEST(reported_use_forgets_the_dead_within_50_ms_of_polling)
{
	const char *path = test_path("poll");
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid = holder(path, 1000, 800);
	uint64_t begin;

	CHECK_EQ(test_used(l), 800);
	test_kill(pid);
	begin = test_now_ns();
	while (test_used(l) && test_now_ns() - begin < 1000000000)
		usleep(1000);
	CHECK(test_now_ns() - begin < 200000000);
	CHECK_EQ(ledger_free(l, 0, LEDGER_REQUESTED), 1000);
	ledger_close(l);
}

TEST(a_new_run_has_its_own_limit_and_not_the_last_ones)
{
	const char *path = test_path("stale");
	pid_t pid;

	CHILD(pid, {
		struct ledger *l = test_ledger(path, 1000);

		status = test_take(l, 1001) != LEDGER_OVER_LIMIT || test_take(l, 900) != LEDGER_GRANTED;
	});
	CHECK_EQ(test_wait(pid), 0);
	CHILD(pid, {
		struct ledger *l = test_ledger(path, 5000);

		status =
		    ledger_limit(l, 0) != 5000 || test_used(l) != 0 || test_take(l, 5000) != LEDGER_GRANTED;
	});
	CHECK_EQ(test_wait(pid), 0);
	CHILD(pid, status = ledger_limit(test_ledger(path, 70), 0) != 70);
	CHECK_EQ(test_wait(pid), 0);
}

TEST(a_new_run_has_its_own_limit_also_while_the_last_one_is_a_zombie)
{
	const char *path = test_path("stale-zombie");
	pid_t pid = holder(path, 1000, 900);
	siginfo_t info;
	struct ledger *l;

	kill(pid, SIGKILL);
	MUST(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	l = test_ledger(path, 5000);
	CHECK_EQ(ledger_limit(l, 0), 5000);
	CHECK_EQ(test_take(l, 5000), LEDGER_GRANTED);
	test_wait(pid);
	ledger_close(l);
}

TEST(limits_hold_as_long_as_anybody_lives_and_a_larger_wish_is_noted)
{
	const char *path = test_path("wish");
	pid_t pid = holder(path, 1000, 100);
	struct ledger *l = test_ledger(path, 5000);

	CHECK_EQ(ledger_limit(l, 0), 1000);
	CHECK_EQ(test_take(l, 901), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, 900), LEDGER_GRANTED);
	CHECK(test_reasons(path, getpid()) & REASON_BIT(LIMIT_RAISE_IGNORED));
	test_kill(pid);
	ledger_close(l);
}

TEST(a_smaller_wish_bounds_only_the_process_that_has_it)
{
	const char *path = test_path("modest");
	struct ledger *pod = test_ledger(path, 1000), *modest;

	ledger_open(pod);
	modest = test_ledger(path, 400);
	CHECK_EQ(ledger_limit(modest, 0), 400);
	CHECK_EQ(test_take(pod, 500), LEDGER_GRANTED);
	CHECK_EQ(test_take(modest, 400), LEDGER_GRANTED);
	CHECK_EQ(test_take(modest, 1), LEDGER_OVER_OWN);
	CHECK_EQ(test_take(pod, 100), LEDGER_GRANTED);
	ledger_close(modest);
	ledger_close(pod);
}

/* ---- somebody stands still */

/* A child that has announced n bytes (reserved, not settled) and is stopped. */
static pid_t stopped_announcer(const char *path, uint64_t n)
{
	pid_t pid;
	int status;

	CHILD(pid, {
		struct ledger *l = test_ledger(path, 1000);

		if (ledger_reserve(l, 0, LEDGER_REQUESTED, n) == LEDGER_GRANTED)
			raise(SIGSTOP);
		ledger_withdraw(l, 0, LEDGER_REQUESTED, n);
		pause();
	});
	MUST(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	return pid;
}

TEST(a_stopped_call_delays_only_what_conflicts_with_it)
{
	const char *path = test_path("stopped");
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid = stopped_announcer(path, 600);
	uint64_t begin = test_now_ns(), waited;

	CHECK_EQ(test_take(l, 400), LEDGER_GRANTED);
	CHECK(test_now_ns() - begin < 100000000);
	begin = test_now_ns();
	CHECK_EQ(test_take(l, 100), LEDGER_UNSETTLED);
	waited = test_now_ns() - begin;
	CHECK(waited >= 500000000 && waited < 900000000);
	begin = test_now_ns();
	CHECK_EQ(test_take(l, 601), LEDGER_OVER_LIMIT);
	CHECK(test_now_ns() - begin < 100000000);
	kill(pid, SIGCONT);
	CHECK_EQ(test_take(l, 600), LEDGER_GRANTED);
	test_kill(pid);
	ledger_close(l);
}

TEST(a_request_waits_for_a_call_in_flight_and_gets_what_it_did_not_use)
{
	const char *path = test_path("in-flight");
	struct ledger *l = test_ledger(path, 1000);
	struct test_gate reserved = test_gate();
	pid_t pid;

	CHILD(pid, {
		struct ledger *k = test_ledger(path, 1000);

		ledger_reserve(k, 0, LEDGER_REQUESTED, 1000);
		test_gate_open(&reserved);
		usleep(50000);
		ledger_withdraw(k, 0, LEDGER_REQUESTED, 1000);
		pause();
	});
	test_gate_pass(&reserved);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	test_kill(pid);
	ledger_close(l);
}

TEST(a_request_waits_for_a_call_in_flight_and_is_refused_when_that_succeeds)
{
	const char *path = test_path("in-flight-settled");
	struct ledger *l = test_ledger(path, 1000);
	struct test_gate reserved = test_gate();
	uint64_t begin;
	pid_t pid;

	CHILD(pid, {
		struct ledger *k = test_ledger(path, 1000);

		ledger_reserve(k, 0, LEDGER_REQUESTED, 1000);
		test_gate_open(&reserved);
		usleep(50000);
		ledger_settle(k, 0, LEDGER_REQUESTED, 1000);
		pause();
	});
	test_gate_pass(&reserved);
	begin = test_now_ns();
	CHECK_EQ(test_take(l, 1000), LEDGER_OVER_LIMIT);
	CHECK(test_now_ns() - begin < 400000000);
	test_kill(pid);
	ledger_close(l);
}

/* A child that is stopped with the region's lock: the same byte that the ledger locks. */
static pid_t stopped_lock_holder(const char *path)
{
	pid_t pid;
	int status;

	CHILD(pid, {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
		int fd = open(path, O_RDWR);

		fcntl(fd, F_OFD_SETLK, &lock);
		raise(SIGSTOP);
		pause();
	});
	MUST(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	return pid;
}

TEST(a_stopped_lock_holder_delays_neither_what_fits_nor_what_cannot)
{
	const char *path = test_path("lock");
	struct ledger *l = test_ledger(path, 1000);
	uint64_t begin;
	pid_t pid;

	test_take(l, 500);
	pid = stopped_lock_holder(path);
	begin = test_now_ns();
	CHECK_EQ(test_take(l, 300), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 300), LEDGER_OVER_LIMIT);
	CHECK(test_now_ns() - begin < 100000000);
	test_kill(pid);
	ledger_close(l);
}

TEST(bytes_of_the_dead_are_had_even_while_the_lock_cannot_be)
{
	const char *path = test_path("lock-dead");
	struct ledger *l = test_ledger(path, 1000);
	pid_t dead = holder(path, 1000, 800), pid;

	ledger_open(l);
	pid = stopped_lock_holder(path);
	test_kill(dead);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	CHECK(test_take(l, 1) != LEDGER_GRANTED);
	test_kill(pid);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
	ledger_close(l);
}

TEST(a_newcomer_takes_a_slot_even_while_the_lock_cannot_be_had)
{
	const char *path = test_path("lock-claim");
	struct ledger *l = test_ledger(path, 1000), *k;
	pid_t pid;

	test_take(l, 600);
	pid = stopped_lock_holder(path);
	k = test_ledger(path, 1000);
	CHECK_EQ(test_used(k), 600);
	CHECK_EQ(test_take(k, 400), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
	test_kill(pid);
	ledger_close(k);
	ledger_close(l);
}

static void interrupt(int signal)
{
	(void)signal;
}

TEST(signals_at_any_time_change_no_outcome)
{
	const char *path = test_path("signals");
	struct ledger *l = test_ledger(path, 1000);
	struct sigaction act = {.sa_handler = interrupt};
	struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	unsigned wrong = 0;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; i < 300; i++) {
		struct ledger *k = test_ledger(path, 1000);

		wrong += ledger_open(k) != 0 || test_take(k, 700) != LEDGER_GRANTED;
		wrong += test_take(l, 301) != LEDGER_OVER_LIMIT || test_take(l, 300) != LEDGER_GRANTED;
		test_give(l, 300);
		test_give(k, 700);
		ledger_close(k);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK_EQ(wrong, 0);
	ledger_close(l);
}

/* A call holds requested bytes in flight while it asks the driver: who waits for the former must not hold what the
 * latter needs. */
TEST(a_call_whose_requested_bytes_are_waited_for_may_wait_for_the_drivers)
{
	const char *path = test_path("books");
	struct ledger *l = test_ledger(path, 1000);
	struct test_gate ready = test_gate();
	pid_t holder, waiter;
	uint64_t began;

	CHILD(holder, {
		struct ledger *other = test_ledger(path, 1000);

		MUST(ledger_reserve(other, 0, LEDGER_PHYSICAL, 500) == LEDGER_GRANTED);
		test_gate_open(&ready);
		usleep(150000);
		ledger_withdraw(other, 0, LEDGER_PHYSICAL, 500);
		pause();
	});
	test_gate_pass(&ready);
	CHECK_EQ(ledger_reserve(l, 0, LEDGER_REQUESTED, 600), LEDGER_GRANTED);
	CHILD(waiter, {
		struct ledger *other = test_ledger(path, 1000);

		ledger_open(other);
		test_gate_open(&ready);
		status = (int)ledger_reserve(other, 0, LEDGER_REQUESTED, 600);
	});
	test_gate_pass(&ready);
	usleep(20000);
	began = test_now_ns();
	CHECK_EQ(ledger_reserve(l, 0, LEDGER_PHYSICAL, 600), LEDGER_GRANTED);
	CHECK(test_now_ns() - began < 400000000);
	ledger_settle(l, 0, LEDGER_REQUESTED, 600);
	CHECK_EQ(test_wait(waiter), LEDGER_OVER_LIMIT);
	test_kill(holder);
	ledger_close(l);
}

TEST_MAIN()
