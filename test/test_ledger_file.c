/* Paths that cannot be used, users, and file systems: needs root for its mounts.
 *
 * What the region's file can be without that is in test_shrreg.c.
 */
#include "ledger_file.h"

#include <sys/resource.h>

#include "../src/multiprocess/region_layout.h"

TEST(a_region_of_a_future_version_is_left_alone_and_the_next_path_is_used)
{
	IN_OWN_ROOT({
		struct region_stamp stamp = {.magic = REGION_MAGIC, .version = REGION_VERSION + 1}, after;
		struct ledger *l = test_ledger("/tmp/future", 1000);
		int fd;

		test_write_file("/tmp/future", &stamp, sizeof stamp);
		CHECK_EQ(ledger_open(l), 0);
		check_enforces(l);
		CHECK(test_reasons(LEDGER_DEFAULT_PATH, getpid()) & REASON_BIT(REGION_MOVED));
		fd = open("/tmp/future", O_RDONLY);
		CHECK(read(fd, &after, sizeof after) == sizeof after &&
		      !memcmp(&stamp, &after, sizeof after));
		CHECK_EQ(file_size("/tmp/future"), sizeof stamp);
	});
}

/* ---- the search goes on: the default path is used, and all of its users share it */

static void check_moved(const char *path)
{
	struct ledger *l = test_ledger(path, 1000);

	CHECK_EQ(ledger_open(l), 0);
	check_enforces(l);
	CHECK(test_reasons(LEDGER_DEFAULT_PATH, getpid()) & REASON_BIT(REGION_MOVED));
	CHECK(is_shared(path));
	ledger_close(l);
}

TEST(a_symbolic_link_is_not_followed)
{
	IN_OWN_ROOT({
		test_write_file("/tmp/victim", "precious", 8);
		MUST(symlink("/tmp/victim", "/tmp/link") == 0);
		check_moved("/tmp/link");
		CHECK_EQ(file_size("/tmp/victim"), 8);
	});
}

TEST(a_directory_in_its_place_is_left_alone)
{
	IN_OWN_ROOT({
		MUST(mkdir("/tmp/dir", 0777) == 0);
		check_moved("/tmp/dir");
	});
}

TEST(a_pipe_in_its_place_neither_blocks_nor_is_used)
{
	IN_OWN_ROOT({
		MUST(mkfifo("/tmp/pipe", 0666) == 0);
		check_moved("/tmp/pipe");
	});
}

TEST(a_missing_directory_is_not_made)
{
	IN_OWN_ROOT({
		check_moved("/tmp/no/such/file");
		CHECK_EQ(file_size("/tmp/no"), -1);
	});
}

TEST(a_path_that_is_too_long_is_not_cut)
{
	IN_OWN_ROOT({
		char path[5000] = "/tmp/";

		memset(path + 5, 'x', sizeof path - 6);
		check_moved(path);
	});
}

TEST(a_read_only_directory_sends_the_search_on)
{
	IN_OWN_ROOT({
		MUST(mkdir("/tmp/ro", 0777) == 0 && mount("tmpfs", "/tmp/ro", "tmpfs", MS_RDONLY, NULL) == 0);
		check_moved("/tmp/ro/region");
	});
}

TEST(a_full_file_system_sends_the_search_on_and_never_raises_SIGBUS)
{
	IN_OWN_ROOT({
		MUST(mkdir("/tmp/full", 0777) == 0 &&
		     mount("tmpfs", "/tmp/full", "tmpfs", 0, "size=1m") == 0);
		check_moved("/tmp/full/region");
		CHECK_EQ(file_size("/tmp/full/region"), -1);
		CHECK_EQ(file_size("/tmp/full/.region.region"), -1);
	});
}

TEST(a_file_system_without_fallocate_is_filled_with_zeros)
{
	IN_OWN_ROOT({
		MUST(mkdir("/tmp/ram", 0777) == 0 && mount("ramfs", "/tmp/ram", "ramfs", 0, NULL) == 0);
		CHECK(is_shared("/tmp/ram/region"));
		CHECK_EQ(file_size("/tmp/ram/region"), sizeof(struct region));
	});
}

TEST(shared_memory_is_used_when_tmp_is_read_only)
{
	IN_OWN_ROOT({
		struct ledger *l = test_ledger(NULL, 1000);

		test_make_read_only("/tmp");
		CHECK_EQ(ledger_open(l), 0);
		check_enforces(l);
		CHECK(test_reasons("/dev/shm/hipdevshr.cache", getpid()) & REASON_BIT(REGION_MOVED));
		CHECK(is_shared(NULL));
	});
}

TEST(with_no_place_for_a_file_the_process_is_limited_on_its_own_and_says_so)
{
	IN_OWN_ROOT({
		struct ledger *l = test_ledger(NULL, 1000);

		test_make_read_only("/tmp");
		test_make_read_only("/dev/shm");
		CHECK_EQ(ledger_open(l), LEDGER_REASON_REGION_PRIVATE);
		check_enforces(l);
		CHECK_EQ(ledger_limit(l, 0), 1000);
		CHECK(!is_shared(NULL));
	});
}

static void as_another_user(void)
{
	MUST(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
}

TEST(a_file_that_another_user_keeps_to_himself_sends_the_search_on)
{
	IN_OWN_ROOT({
		test_write_file("/tmp/theirs", "", 0);
		MUST(chmod("/tmp/theirs", 0) == 0);
		as_another_user();
		check_moved("/tmp/theirs");
	});
}

TEST(a_second_user_of_the_container_shares_the_first_ones_region)
{
	IN_OWN_ROOT({
		struct ledger *root = test_ledger(NULL, 1000);
		pid_t pid;

		test_take(root, 700);
		CHILD(pid, {
			as_another_user();
			struct ledger *other = test_ledger(NULL, 1000);

			status = ledger_open(other) || test_used(other) != 700 ||
				 test_take(other, 301) != LEDGER_OVER_LIMIT ||
				 test_take(other, 300) != LEDGER_GRANTED;
		});
		CHECK_EQ(test_wait(pid), 0);
	});
}

TEST(the_superuser_shares_a_region_that_a_user_made)
{
	IN_OWN_ROOT({
		struct test_gate made = test_gate();
		pid_t pid;

		CHILD(pid, {
			as_another_user();
			test_take(test_ledger(NULL, 1000), 700);
			test_gate_open(&made);
			pause();
		});
		test_gate_pass(&made);
		CHECK_EQ(test_used(test_ledger(NULL, 1000)), 700);
		test_kill(pid);
	});
}

TEST(a_relative_path_means_the_directory_at_the_first_call)
{
	IN_OWN_ROOT({
		struct ledger *a;
		struct ledger *b;

		MUST(chdir("/tmp") == 0);
		a = test_ledger("here", 1000);
		test_take(a, 600);
		MUST(chdir("/") == 0);
		b = test_ledger("/tmp/here", 1000);
		CHECK_EQ(test_used(b), 600);
		CHECK_EQ(test_take(a, 401), LEDGER_OVER_LIMIT);
	});
}

TEST(a_process_without_a_free_descriptor_is_limited_on_its_own)
{
	IN_OWN_ROOT({
		struct ledger *l = test_ledger(NULL, 1000);

		while (open("/dev/null", O_RDONLY) >= 0) {
		}
		CHECK_EQ(ledger_open(l), LEDGER_REASON_REGION_PRIVATE);
		check_enforces(l);
	});
}

/* Leaves room for what a sanitizer needs, and none for a region. */
static void forbid_large_mappings(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages;
	struct rlimit limit;

	MUST(f && fscanf(f, "%lu", &pages) == 1 && fclose(f) == 0);
	limit.rlim_cur = limit.rlim_max = (pages << 12) + sizeof(struct region) / 2;
	MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

TEST(with_no_memory_even_for_a_region_of_its_own_a_limited_device_gives_nothing)
{
	IN_OWN_ROOT({
		struct ledger *l = test_ledger("/tmp/region", 1000);
		struct ledger *unlimited = test_ledger("/tmp/other", 0);

		forbid_large_mappings();
		CHECK_EQ(test_take(l, 1), LEDGER_OVER_LIMIT);
		CHECK_EQ(test_take(unlimited, 1), LEDGER_GRANTED);
		CHECK_EQ(ledger_free(l, 0, LEDGER_REQUESTED), 0);
	});
}

/* A known hole: docs/failure-policy.md. */
TEST(both_names_deleted_split_the_pod)
{
	IN_OWN_ROOT({
		struct ledger *a = test_ledger("/tmp/region", 1000);
		struct ledger *b = test_ledger("/tmp/region", 1000);

		test_take(a, 600);
		MUST(unlink("/tmp/region") == 0 && unlink("/tmp/.region.region") == 0);
		CHECK_EQ(test_take(b, 1000), LEDGER_GRANTED);
		CHECK_EQ(test_take(a, 401), LEDGER_OVER_LIMIT);
		CHECK_EQ(test_take(a, 400), LEDGER_GRANTED);
	});
}

TEST_MAIN()
