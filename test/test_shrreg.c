/* The region's file in every state in which it can be found: never a crash, a hang or an unlimited process.
 */
#include "ledger_file.h"

#include "../src/multiprocess/region_layout.h"

TEST(a_new_region_has_its_whole_size_and_mode_0666_whatever_the_umask)
{
	const char *path = test_path("new");
	mode_t old = umask(077);
	struct ledger *l = test_ledger(path, 1000);
	struct stat st;

	ledger_open(l);
	umask(old);
	MUST(stat(path, &st) == 0);
	CHECK_EQ(st.st_mode & 07777, 0666);
	CHECK_EQ(st.st_size, sizeof(struct region));
	CHECK(st.st_blocks * 512 >= st.st_size);
	ledger_close(l);
}

TEST(no_file_is_made_before_the_first_call_that_needs_it)
{
	const char *path = test_path("lazy");
	struct ledger *l = test_ledger(path, 1000);

	CHECK_EQ(file_size(path), -1);
	ledger_note_reason(l, LEDGER_REASON_LIMIT_INVALID);
	ledger_note_symbols(l, 1, 2);
	CHECK_EQ(file_size(path), -1);
	ledger_limit(l, 0);
	CHECK(file_size(path) > 0);
	ledger_close(l);
}

TEST(the_words_of_a_region_stand_where_the_layout_says)
{
	const char *path = test_path("golden");
	struct ledger *l = test_ledger(path, 1000);
	uint64_t word[4];
	int fd;

	test_take(l, 5);
	fd = open(path, O_RDONLY);
	MUST(pread(fd, word, 8, 0) == 8);
	CHECK(!memcmp(word, "amgpdmuR", 8));
	MUST(pread(fd, word, 8, 256 + 8) == 8);
	CHECK_EQ(word[0], 1000);
	MUST(pread(fd, word, 8, 4096) == 8);
	CHECK_EQ(word[0] >> 42, getpid());
	MUST(pread(fd, word, 24, 36864) == 24);
	CHECK(word[0] == 5 && word[1] == 5 && word[2] == 0);
	close(fd);
	ledger_close(l);
}

/* ---- what stood there before */

static void check_replaced(const char *path, bool is_foreign)
{
	struct ledger *l = test_ledger(path, 1000);
	char aside[160];

	CHECK_EQ(ledger_open(l), 0);
	check_enforces(l);
	CHECK(test_reasons(path, getpid()) & REASON_BIT(REGION_REPLACED));
	ledger_close(l);
	CHECK(is_shared(path));
	snprintf(aside, sizeof aside, "%s.unusable", path);
	CHECK_EQ(file_size(aside) >= 0, is_foreign);
}

TEST(an_empty_file_is_replaced)
{
	const char *path = test_path("empty");

	test_write_file(path, "", 0);
	check_replaced(path, false);
}

TEST(foreign_content_is_moved_aside_and_not_destroyed)
{
	const char *path = test_path("garbage");
	char aside[160], content[5] = "";
	int fd;

	test_write_file(path, "data", 4);
	check_replaced(path, true);
	snprintf(aside, sizeof aside, "%s.unusable", path);
	fd = open(aside, O_RDONLY);
	CHECK(fd >= 0 && read(fd, content, 4) == 4);
	CHECK_TEXT(content, "data");
	close(fd);
}

TEST(garbage_of_the_right_size_is_replaced)
{
	const char *path = test_path("large-garbage");
	char *garbage = malloc(sizeof(struct region));

	for (size_t i = 0; i < sizeof(struct region); i++)
		garbage[i] = (char)(i * 2654435761u >> 13);
	test_write_file(path, garbage, sizeof(struct region));
	free(garbage);
	check_replaced(path, true);
}

static void check_stamp_replaced(const char *path, void (*spoil)(struct region_stamp *), size_t size)
{
	struct ledger *l = test_ledger(path, 77);
	struct region_stamp stamp;
	int fd;

	test_take(l, 77);
	ledger_close(l);
	fd = open(path, O_RDWR);
	MUST(pread(fd, &stamp, sizeof stamp, 0) == sizeof stamp);
	spoil(&stamp);
	MUST(pwrite(fd, &stamp, sizeof stamp, 0) == sizeof stamp && ftruncate(fd, (off_t)size) == 0 &&
	     !close(fd));
	check_replaced(path, size < sizeof(struct region));
}

static void spoil_nothing(struct region_stamp *s)
{
	(void)s;
}

static void spoil_version(struct region_stamp *s)
{
	s->version = 0;
}

static void spoil_word(struct region_stamp *s)
{
	s->word_size = 4;
}

static void spoil_boot(struct region_stamp *s)
{
	s->boot[1]++;
}

static void spoil_slots(struct region_stamp *s)
{
	s->slots = 16;
}

TEST(a_region_that_was_cut_short_is_replaced)
{
	check_stamp_replaced(test_path("short"), spoil_nothing, 100000);
}

TEST(a_region_of_an_older_version_is_replaced)
{
	check_stamp_replaced(test_path("version"), spoil_version, sizeof(struct region));
}

TEST(a_region_of_another_word_size_is_replaced)
{
	check_stamp_replaced(test_path("word"), spoil_word, sizeof(struct region));
}

TEST(a_region_of_another_boot_is_replaced)
{
	check_stamp_replaced(test_path("boot"), spoil_boot, sizeof(struct region));
}

TEST(a_region_of_other_proportions_is_replaced)
{
	check_stamp_replaced(test_path("slots"), spoil_slots, sizeof(struct region));
}

/* ---- what happens to it while it is in use */

TEST(a_newcomer_finds_the_living_region_after_its_name_was_deleted)
{
	const char *path = test_path("deleted");
	struct ledger *a = test_ledger(path, 1000), *b;

	test_take(a, 600);
	MUST(unlink(path) == 0);
	b = test_ledger(path, 1000);
	CHECK_EQ(test_used(b), 600);
	CHECK_EQ(test_take(b, 401), LEDGER_OVER_LIMIT);
	CHECK_EQ(file_size(path), sizeof(struct region));
	ledger_close(a);
	ledger_close(b);
}

TEST(a_newcomer_finds_the_living_region_after_garbage_was_moved_over_it)
{
	const char *path = test_path("overwritten"), *other = test_path("other");
	struct ledger *a = test_ledger(path, 1000), *b;

	test_take(a, 600);
	test_write_file(other, "garbage", 7);
	MUST(rename(other, path) == 0);
	b = test_ledger(path, 1000);
	CHECK_EQ(test_used(b), 600);
	CHECK_EQ(test_take(b, 401), LEDGER_OVER_LIMIT);
	ledger_close(a);
	ledger_close(b);
}

TEST(a_holder_refuses_and_reaps_after_the_name_was_deleted)
{
	const char *path = test_path("deleted-holder");
	struct ledger *a = test_ledger(path, 1000);
	pid_t pid;

	test_take(a, 100);
	CHILD(pid, test_take(test_ledger(path, 1000), 800));
	test_wait(pid);
	MUST(unlink(path) == 0);
	CHECK_EQ(test_take(a, 901), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(a, 900), LEDGER_GRANTED);
	CHECK_EQ(test_take(a, 1), LEDGER_OVER_LIMIT);
	ledger_close(a);
}

TEST(a_region_cut_off_while_mapped_goes_on_in_private_with_what_is_held)
{
	const char *path = test_path("cut");
	struct ledger *a = test_ledger(path, 1000), *b;

	test_take(a, 600);
	MUST(truncate(path, 0) == 0);
	CHECK_EQ(test_take(a, 401), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(a, 400), LEDGER_GRANTED);
	CHECK_EQ(ledger_open(a), LEDGER_REASON_REGION_PRIVATE);
	test_give(a, 1000);
	CHECK_EQ(test_used(a), 0);
	check_enforces(a);
	b = test_ledger(path, 1000);
	check_enforces(b);
	ledger_close(a);
	ledger_close(b);
}

TEST(a_reservation_in_flight_survives_the_cut)
{
	const char *path = test_path("cut-in-flight");
	struct ledger *a = test_ledger(path, 1000);

	CHECK_EQ(ledger_reserve(a, 0, LEDGER_REQUESTED, 600), LEDGER_GRANTED);
	MUST(truncate(path, 0) == 0);
	ledger_settle(a, 0, LEDGER_REQUESTED, 600);
	CHECK_EQ(test_used(a), 600);
	CHECK_EQ(test_take(a, 401), LEDGER_OVER_LIMIT);
	test_give(a, 600);
	CHECK_EQ(test_used(a), 0);
	ledger_close(a);
}

TEST(a_region_cut_off_and_grown_again_by_a_newcomer_is_not_confused_with_the_new_one)
{
	const char *path = test_path("cut-regrown");
	struct ledger *a = test_ledger(path, 1000), *b;

	test_take(a, 600);
	MUST(truncate(path, 0) == 0);
	b = test_ledger(path, 1000);
	test_take(b, 500);
	CHECK_EQ(test_used(a), 600);
	test_give(a, 600);
	CHECK_EQ(test_used(b), 500);
	ledger_close(a);
	ledger_close(b);
}

static volatile sig_atomic_t program_sigbus;
static char *program_page;

static void program_handler(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)context;
	program_sigbus += info->si_addr == program_page;
	mmap(program_page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* In a process image of its own: this one has had our handler since its first region. */
static int program_with_handler(const char *path, const char *own_file)
{
	struct sigaction act = {.sa_sigaction = program_handler, .sa_flags = SA_SIGINFO};
	struct ledger *l = test_ledger(path, 1000);
	int fd = open(own_file, O_RDWR | O_CREAT, 0600), status = 0;

	sigaction(SIGBUS, &act, NULL);
	program_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	test_take(l, 600);
	*(volatile char *)program_page = 1;
	status |= program_sigbus != 1;
	MUST(truncate(path, 0) == 0);
	status |= test_take(l, 401) != LEDGER_OVER_LIMIT;
	return status | (program_sigbus != 1);
}

TEST(a_program_that_handles_SIGBUS_still_gets_its_own)
{
	const char *path = test_path("chain"), *mine = test_path("mine");
	pid_t pid;

	CHILD(pid, execl("/proc/self/exe", "test_shrreg", path, mine, NULL));
	CHECK_EQ(test_wait(pid), 0);
}

static void exit_handler(int signal)
{
	(void)signal;
	_exit(42);
}

/* A known hole: docs/failure-policy.md. */
TEST(a_program_that_replaces_our_handler_gets_the_fault_of_a_cut_region)
{
	const char *path = test_path("replaced-handler");
	pid_t pid;

	CHILD(pid, {
		struct ledger *l = test_ledger(path, 1000);

		ledger_open(l);
		signal(SIGBUS, exit_handler);
		MUST(truncate(path, 0) == 0);
		test_take(l, 1);
	});
	CHECK_EQ(test_wait(pid), 42);
}

TEST(a_program_that_does_not_handle_SIGBUS_still_dies_of_its_own)
{
	pid_t pid;

	CHILD(pid, {
		int fd = open(test_path("deadly"), O_RDWR | O_CREAT, 0600);

		test_take(test_ledger(test_path("chain-default"), 1000), 600);
		*(volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) = 1;
	});
	CHECK_EQ(test_wait(pid), 128 + SIGBUS);
	CHILD(pid, {
		test_take(test_ledger(test_path("chain-default"), 1000), 600);
		raise(SIGBUS);
	});
	CHECK_EQ(test_wait(pid), 128 + SIGBUS);
}

TEST(every_byte_of_the_file_may_turn_to_nonsense_while_mapped)
{
	const char *path = test_path("nonsense");
	struct ledger *l = test_ledger(path, 1000);
	char *nonsense = malloc(sizeof(struct region));
	int fd = open(path, O_RDWR);

	for (int seed = 0; seed < 20; seed++) {
		for (size_t i = 0; i < sizeof(struct region); i++)
			nonsense[i] = (char)((i + 1) * 2654435761u * (unsigned)(seed + 1) >> 11);
		test_take(l, 100);
		fd = open(path, O_RDWR);
		MUST(pwrite(fd, nonsense, sizeof(struct region), 0) == sizeof(struct region));
		close(fd);
		ledger_used(l, 0, LEDGER_REQUESTED);
		ledger_free(l, 0, LEDGER_REQUESTED);
		CHECK(test_take(l, 2000) != LEDGER_GRANTED);
		test_give(l, 100);
		ledger_close(l);
		l = test_ledger(path, 1000);
		check_enforces(l);
	}
	free(nonsense);
	ledger_close(l);
}

TEST(whatever_share_is_written_into_the_file_a_process_does_not_pass_the_limit_by_itself)
{
	const char *path = test_path("share");
	struct ledger *first = test_ledger(path, 1000), *l = test_ledger(path, 2000);
	uint64_t share[] = {1000, 1001, UINT64_C(1) << 50, INT64_MAX, UINT64_MAX};
	int fd;

	ledger_open(first);
	ledger_open(l);
	fd = open(path, O_RDWR);
	for (unsigned i = 0; i < sizeof share / sizeof share[0]; i++) {
		MUST(pwrite(fd, &share[i], sizeof share[i],
			    offsetof(struct region, row[0][LEDGER_REQUESTED]) + region_row_index(1) * sizeof(struct region_row) +
				offsetof(struct region_row, share)) == sizeof share[i]);
		check_enforces(l);
	}
	close(fd);
	ledger_close(first);
	ledger_close(l);
}

int main(int count, char **argument)
{
	return count == 3 ? program_with_handler(argument[1], argument[2]) : test_main();
}
