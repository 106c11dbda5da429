/* What a request gets: within the limit, never beyond it, whoever asks beside it. */
#include "ledger_test.h"

#include "../src/multiprocess/testpoint.h"

static _Atomic unsigned shares_revoked;

void testpoint_reached(enum testpoint point)
{
	shares_revoked += point == TESTPOINT_shares_revoked;
}

TEST(a_request_within_the_limit_is_granted_to_the_last_byte)
{
	struct ledger *l = test_ledger(test_path("last-byte"), GIB);

	CHECK_EQ(test_take(l, GIB - 1), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 2), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, 1), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_used(l), GIB);
	ledger_close(l);
}

TEST(a_refusal_leaves_the_books_as_they_were)
{
	struct ledger *l = test_ledger(test_path("refusal"), 1000);

	test_take(l, 600);
	CHECK_EQ(test_take(l, 401), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_used(l), 600);
	CHECK_EQ(ledger_free(l, 0, LEDGER_REQUESTED), 400);
	ledger_close(l);
}

TEST(a_released_byte_can_be_had_again)
{
	struct ledger *l = test_ledger(test_path("released"), 1000);

	for (int i = 0; i < 1000; i++) {
		CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
		test_give(l, 1000);
	}
	CHECK_EQ(test_used(l), 0);
	ledger_close(l);
}

TEST(a_withdrawn_reservation_leaves_nothing_behind)
{
	struct ledger *l = test_ledger(test_path("withdrawn"), 1000);

	CHECK_EQ(ledger_reserve(l, 0, LEDGER_REQUESTED, 1000), LEDGER_GRANTED);
	CHECK_EQ(test_used(l), 1000);
	ledger_withdraw(l, 0, LEDGER_REQUESTED, 1000);
	CHECK_EQ(test_used(l), 0);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	ledger_close(l);
}

TEST(devices_and_books_do_not_count_for_each_other)
{
	struct ledger *l = test_ledger(test_path("apart"), 1000);

	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		CHECK_EQ(ledger_reserve(l, d, LEDGER_REQUESTED, 1000), LEDGER_GRANTED);
		CHECK_EQ(ledger_reserve(l, d, LEDGER_PHYSICAL, 1000), LEDGER_GRANTED);
	}
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		CHECK_EQ(ledger_used(l, d, LEDGER_REQUESTED), 1000);
		CHECK_EQ(ledger_used(l, d, LEDGER_PHYSICAL), 1000);
	}
	ledger_close(l);
}

TEST(nothing_is_always_granted_and_too_much_never_wraps_around)
{
	struct ledger *l = test_ledger(test_path("extremes"), 1000);

	test_take(l, 1000);
	CHECK_EQ(test_take(l, 0), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, UINT64_MAX), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, UINT64_MAX - 999), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, UINT64_C(1) << 63), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, INT64_MAX), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_used(l), 1000);
	ledger_close(l);
}

TEST(a_device_without_a_limit_refuses_nothing_but_counts)
{
	struct ledger *l = test_ledger(test_path("unlimited"), 0);

	CHECK_EQ(test_take(l, 3 * GIB), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, UINT64_MAX), LEDGER_GRANTED);
	CHECK_EQ(test_used(l), 3 * GIB);
	CHECK_EQ(ledger_free(l, 0, LEDGER_REQUESTED), UINT64_MAX);
	CHECK_EQ(ledger_limit(l, 0), 0);
	ledger_close(l);
}

TEST(a_device_that_does_not_exist_has_no_limit_and_no_bytes)
{
	struct ledger *l = test_ledger(test_path("no-device"), 1000);

	CHECK_EQ(ledger_reserve(l, LEDGER_DEVICES, LEDGER_REQUESTED, 2000), LEDGER_GRANTED);
	ledger_settle(l, LEDGER_DEVICES, LEDGER_REQUESTED, 2000);
	CHECK_EQ(ledger_used(l, LEDGER_DEVICES, LEDGER_REQUESTED), 0);
	CHECK_EQ(ledger_limit(l, LEDGER_DEVICES), 0);
	ledger_close(l);
}

TEST(an_overdraft_is_charged_and_what_follows_is_refused)
{
	struct ledger *l = test_ledger(test_path("overdraft"), 1000);

	ledger_charge(l, 0, LEDGER_REQUESTED, 1500);
	CHECK_EQ(test_used(l), 1500);
	CHECK_EQ(ledger_free(l, 0, LEDGER_REQUESTED), 0);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
	test_give(l, 1500);
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	ledger_close(l);
}

static struct ledger_settings lower_for_itself(const char *path)
{
	struct ledger_settings s = {.path = path, .wait_ms = 500};

	s.limit[0] = 1000;
	s.own_limit[0] = 300;
	return s;
}

TEST(a_process_may_bound_itself_below_its_pod)
{
	const char *path = test_path("own");
	struct ledger_settings s = lower_for_itself(path);
	struct ledger *pod = test_ledger(path, 1000), *l = test_ledger_with(&s);

	CHECK_EQ(test_take(pod, 600), LEDGER_GRANTED);
	CHECK_EQ(ledger_limit(l, 0), 300);
	CHECK_EQ(ledger_free(l, 0, LEDGER_REQUESTED), 300);
	CHECK_EQ(test_take(l, 301), LEDGER_OVER_OWN);
	CHECK_EQ(test_take(l, 200), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 101), LEDGER_OVER_OWN);
	CHECK_EQ(test_take(l, 100), LEDGER_GRANTED);
	CHECK_EQ(test_take(pod, 101), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(pod, 100), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 1001), LEDGER_OVER_LIMIT);
	ledger_close(l);
	ledger_close(pod);
}

TEST(a_process_cannot_raise_its_pods_limit)
{
	const char *path = test_path("raise");
	struct ledger *pod = test_ledger(path, 1000), *greedy;

	test_take(pod, 1);
	greedy = test_ledger(path, 5000);
	CHECK_EQ(ledger_limit(greedy, 0), 1000);
	CHECK_EQ(test_take(greedy, 1000), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(greedy, 999), LEDGER_GRANTED);
	ledger_close(greedy);
	ledger_close(pod);
}

/* ---- many at once */

/* Two ledgers in one process are two processes to each other. The first is left with a share of a third. */
static void two_of_whom_one_has_a_share(const char *name, struct ledger *l[2])
{
	const char *path = test_path(name);

	l[0] = test_ledger(path, 1000);
	l[1] = test_ledger(path, 1000);
	CHECK_EQ(test_take(l[0], 1), LEDGER_GRANTED);
}

TEST(what_one_has_claimed_and_does_not_use_is_the_others_to_the_last_byte)
{
	struct ledger *l[2];

	two_of_whom_one_has_a_share("claimed", l);
	CHECK_EQ(ledger_free(l[1], 0, LEDGER_REQUESTED), 999);
	CHECK_EQ(test_take(l[1], 999), LEDGER_GRANTED);
	CHECK_EQ(test_take(l[0], 1), LEDGER_OVER_LIMIT);
	test_give(l[1], 999);
	CHECK_EQ(test_take(l[0], 999), LEDGER_GRANTED);
	CHECK_EQ(test_take(l[1], 1), LEDGER_OVER_LIMIT);
	ledger_close(l[0]);
	ledger_close(l[1]);
}

TEST(what_another_is_charged_for_without_being_asked_ends_a_share)
{
	struct ledger *l[2];

	two_of_whom_one_has_a_share("charged", l);
	ledger_charge(l[1], 0, LEDGER_REQUESTED, 999);
	CHECK_EQ(test_take(l[0], 1), LEDGER_OVER_LIMIT);
	ledger_release(l[1], 0, LEDGER_REQUESTED, 1);
	CHECK_EQ(test_take(l[0], 1), LEDGER_GRANTED);
	ledger_close(l[0]);
	ledger_close(l[1]);
}

TEST(a_request_that_cannot_be_granted_costs_nobody_his_share)
{
	struct ledger *l[2];

	two_of_whom_one_has_a_share("kept", l);
	shares_revoked = 0;
	CHECK_EQ(test_take(l[1], 500), LEDGER_GRANTED);
	CHECK_EQ(test_take(l[1], 500), LEDGER_OVER_LIMIT);
	CHECK_EQ(shares_revoked, 0);
	CHECK_EQ(test_take(l[1], 450), LEDGER_GRANTED);
	CHECK_EQ(shares_revoked, 1);
	ledger_close(l[0]);
	ledger_close(l[1]);
}

TEST(shares_stay_where_many_have_one)
{
	enum { MANY = 40, TURNS = 100 };
	const char *path = test_path("many");
	struct ledger *l[MANY];

	for (unsigned i = 0; i < MANY; i++)
		l[i] = test_ledger(path, GIB);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		if (turn == TURNS / 2)
			shares_revoked = 0;
		for (unsigned i = 0; i < MANY; i++) {
			CHECK_EQ(test_take(l[i], MIB), LEDGER_GRANTED);
			test_give(l[i], MIB);
		}
	}
	CHECK_EQ(shares_revoked, 0);
	for (unsigned i = 0; i < MANY; i++)
		ledger_close(l[i]);
}

TEST(two_that_take_turns_at_what_fits_for_both_do_not_take_each_others_shares)
{
	static const struct {
		uint64_t kept, taken;
	} turn[] = {{0, 400}, {300, 180}, {450, 40}};

	for (unsigned i = 0; i < sizeof turn / sizeof turn[0]; i++) {
		struct ledger *l[2];

		two_of_whom_one_has_a_share("turns", l);
		test_give(l[0], 1);
		for (unsigned k = 0; k < 2; k++)
			CHECK_EQ(test_take(l[k], turn[i].kept), LEDGER_GRANTED);
		for (unsigned round = 0; round < 20; round++) {
			if (round == 10)
				shares_revoked = 0;
			CHECK_EQ(test_take(l[round % 2], turn[i].taken), LEDGER_GRANTED);
			test_give(l[round % 2], turn[i].taken);
		}
		CHECK_EQ(shares_revoked, 0);
		for (unsigned k = 0; k < 2; k++) {
			test_give(l[k], turn[i].kept);
			ledger_close(l[k]);
		}
	}
}

TEST(a_share_is_never_more_than_the_process_may_have_by_itself)
{
	struct ledger_settings settings = {.path = test_path("own-share"), .limit[0] = 1000, .own_limit[0] = 100};
	struct ledger *l = test_ledger_with(&settings), *other = test_ledger(settings.path, 1000);

	CHECK_EQ(test_take(l, 1), LEDGER_GRANTED);
	shares_revoked = 0;
	CHECK_EQ(test_take(other, 880), LEDGER_GRANTED);
	CHECK_EQ(shares_revoked, 0);
	CHECK_EQ(test_take(l, 99), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 1), LEDGER_OVER_OWN);
	ledger_close(l);
	ledger_close(other);
}

static struct ledger *crowd;
static pthread_barrier_t crowd_start;
static _Atomic unsigned crowd_granted;

static void *crowd_member(void *bytes)
{
	pthread_barrier_wait(&crowd_start);
	if (test_take(crowd, (uintptr_t)bytes) == LEDGER_GRANTED)
		atomic_fetch_add(&crowd_granted, 1);
	return NULL;
}

static unsigned crowd_run(unsigned threads, uint64_t bytes)
{
	pthread_t id[64];

	crowd_granted = 0;
	MUST(pthread_barrier_init(&crowd_start, NULL, threads) == 0);
	for (unsigned i = 0; i < threads; i++)
		MUST(pthread_create(&id[i], NULL, crowd_member, (void *)(uintptr_t)bytes) == 0);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	pthread_barrier_destroy(&crowd_start);
	return crowd_granted;
}

TEST(of_8_threads_that_want_300_MiB_under_1_GiB_exactly_3_get_it)
{
	for (int round = 0; round < 50; round++) {
		crowd = test_ledger(test_path("crowd"), GIB);
		CHECK_EQ(crowd_run(8, 300 * MIB), 3);
		CHECK_EQ(test_used(crowd), 900 * MIB);
		for (int i = 0; i < 3; i++)
			test_give(crowd, 300 * MIB);
		ledger_close(crowd);
	}
}

enum { CLIENTS = 32, PLACES = 10, ROUNDS = 1000 };

struct race {
	_Atomic unsigned round, ready, done, granted;
};

static void race_client(struct race *race, const char *path)
{
	struct ledger *l = test_ledger(path, PLACES);

	ledger_open(l);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		bool is_granted;

		race->ready++;
		while (race->round < round)
			sched_yield();
		is_granted = test_take(l, 1) == LEDGER_GRANTED;
		race->granted += is_granted;
		race->done++;
		while (race->done < round * CLIENTS)
			sched_yield();
		if (is_granted)
			test_give(l, 1);
	}
}

TEST(of_32_clients_that_race_for_10_places_exactly_10_get_one_in_each_of_1000_rounds)
{
	struct race *race = test_shared(sizeof *race);
	const char *path = test_path("race");
	pid_t pid[CLIENTS];
	unsigned wrong = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		CHILD(pid[i], race_client(race, path));
	for (unsigned round = 1; round <= ROUNDS; round++) {
		while (race->ready < round * CLIENTS)
			usleep(20);
		race->granted = 0;
		race->round = round;
		while (race->done < round * CLIENTS)
			usleep(20);
		wrong += race->granted != PLACES;
	}
	CHECK_EQ(wrong, 0);
	for (unsigned i = 0; i < CLIENTS; i++)
		CHECK_EQ(test_wait(pid[i]), 0);
}

TEST(two_processes_together_get_the_limit_and_not_more)
{
	const char *path = test_path("two");
	struct ledger *a = test_ledger(path, 1000);
	pid_t pid;

	CHECK_EQ(test_take(a, 600), LEDGER_GRANTED);
	CHILD(pid, {
		struct ledger *b = test_ledger(path, 1000);

		status = test_used(b) != 600 || test_take(b, 500) != LEDGER_OVER_LIMIT ||
			 test_take(b, 400) != LEDGER_GRANTED || test_used(b) != 1000;
	});
	CHECK_EQ(test_wait(pid), 0);
	ledger_close(a);
}

TEST_MAIN()
