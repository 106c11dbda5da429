/* Many that start at once: one region, one slot each, and no waiting for one another. */
#include "ledger_start.h"

#include "../src/multiprocess/region_layout.h"

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

TEST_MAIN()
