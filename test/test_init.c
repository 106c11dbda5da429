/* Many that start at once: one region, one slot each, and no waiting for one another. */
#include "ledger_root.h"

#include "../src/multiprocess/region_layout.h"

enum { STARTERS = 300 };

struct start {
	_Atomic unsigned ready, go, failed;
	_Atomic unsigned done;
};

static void starter(struct start *start, const char *path)
{
	struct ledger *l = path ? test_ledger(path, STARTERS) : NULL;

	start->ready++;
	while (!start->go)
		usleep(1000);
	if (l && (ledger_open(l) != 0 || test_take(l, 1) != LEDGER_GRANTED))
		start->failed++;
	start->done++;
	while (start->go == 1)
		usleep(10000);
}

/* ns until the last of them has had its first byte (path NULL: has done nothing); -1 if one was not granted. */
static int64_t start_many(const char *path, uint64_t *used)
{
	struct start *start = test_shared(sizeof *start);
	pid_t pid[STARTERS];
	uint64_t begin, end;
	bool has_failed;

	for (unsigned i = 0; i < STARTERS; i++)
		CHILD(pid[i], starter(start, path));
	while (start->ready < STARTERS)
		usleep(1000);
	begin = test_now_ns();
	start->go = 1;
	while (start->done < STARTERS)
		usleep(1000);
	end = test_now_ns();
	if (used)
		*used = test_used(test_ledger(path, STARTERS));
	start->go = 2;
	for (unsigned i = 0; i < STARTERS; i++)
		test_wait(pid[i]);
	has_failed = start->failed != 0;
	munmap(start, sizeof *start);
	return has_failed ? -1 : (int64_t)(end - begin);
}

TEST(of_300_processes_that_start_at_once_all_have_their_first_byte_within_a_second)
{
	const char *path = test_path("start");
	int64_t bare = start_many(NULL, NULL), with;
	uint64_t used;

	with = start_many(path, &used);
	CHECK(with >= 0);
	CHECK_EQ(used, STARTERS);
	CHECK(with - bare < 1000000000);
	printf("    300 first bytes in %.1f ms, the same without a ledger in %.1f ms\n", (double)with / 1e6,
	       (double)bare / 1e6);
}

TEST(they_do_so_too_where_they_find_garbage)
{
	const char *path = test_path("start-garbage");
	uint64_t used;

	test_write_file(path, "garbage", 7);
	CHECK(start_many(path, &used) >= 0);
	CHECK_EQ(used, STARTERS);
}

TEST(they_do_so_too_on_an_overlay_file_system)
{
	IN_OWN_ROOT({
		uint64_t used;

		CHECK(start_many(test_overlay_path(), &used) >= 0);
		CHECK_EQ(used, STARTERS);
	});
}

TEST(slots_are_taken_from_the_lowest_so_that_scans_stay_short)
{
	const char *path = test_path("low");
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;
	uint64_t high;
	int fd;

	ledger_open(l);
	for (int i = 0; i < 200; i++) {
		CHILD(pid, test_take(test_ledger(path, 1000), 1));
		test_wait(pid);
	}
	fd = open(path, O_RDONLY);
	MUST(pread(fd, &high, 8, offsetof(struct region, header.high)) == 8);
	CHECK_EQ(high, 2);
	close(fd);
	ledger_close(l);
}

static struct ledger *shared_ledger;
static pthread_barrier_t together;

static void *first_caller(void *unused)
{
	pthread_barrier_wait(&together);
	test_take(shared_ledger, 1);
	return unused;
}

TEST(sixteen_threads_that_call_first_at_once_take_one_slot)
{
	for (int round = 0; round < 20; round++) {
		const char *path = test_path("threads");
		pthread_t id[16];
		uint64_t high;
		int fd;

		shared_ledger = test_ledger(path, 1000);
		MUST(pthread_barrier_init(&together, NULL, 16) == 0);
		for (int i = 0; i < 16; i++)
			MUST(pthread_create(&id[i], NULL, first_caller, NULL) == 0);
		for (int i = 0; i < 16; i++)
			pthread_join(id[i], NULL);
		CHECK_EQ(test_used(shared_ledger), 16);
		fd = open(path, O_RDONLY);
		MUST(pread(fd, &high, 8, offsetof(struct region, header.high)) == 8);
		CHECK_EQ(high, 1);
		close(fd);
		ledger_close(shared_ledger);
	}
}

TEST(of_1025_processes_the_last_is_limited_on_its_own_and_says_why)
{
	const char *path = test_path("full");
	struct test_gate ready = test_gate();
	struct ledger *last;
	static pid_t pid[LEDGER_SLOTS];

	for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
		CHILD(pid[i], {
			struct ledger *l = test_ledger(path, LEDGER_SLOTS);

			if (ledger_open(l) == 0 && test_take(l, 1) == LEDGER_GRANTED)
				test_gate_open(&ready);
			pause();
		});
	}
	for (unsigned i = 0; i < LEDGER_SLOTS; i++)
		test_gate_pass(&ready);
	last = test_ledger(path, LEDGER_SLOTS);
	CHECK_EQ(ledger_open(last), LEDGER_REASON_SLOTS_FULL);
	CHECK_EQ(test_take(last, LEDGER_SLOTS + 1), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(last, LEDGER_SLOTS), LEDGER_GRANTED);
	CHECK_EQ(test_take(last, 1), LEDGER_OVER_LIMIT);
	test_kill(pid[700]);
	ledger_close(last);
	last = test_ledger(path, LEDGER_SLOTS);
	CHECK_EQ(ledger_open(last), 0);
	CHECK_EQ(test_used(last), LEDGER_SLOTS - 1);
	for (unsigned i = 0; i < LEDGER_SLOTS; i++) {
		if (i != 700)
			test_kill(pid[i]);
	}
	CHECK_EQ(test_take(last, LEDGER_SLOTS), LEDGER_GRANTED);
	ledger_close(last);
}

TEST_MAIN()
