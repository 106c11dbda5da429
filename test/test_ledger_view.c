/* What is shown of a region from outside. */
#include "ledger_root.h"

#include "../src/multiprocess/region_layout.h"

static struct ledger_view *view_open(const char *path)
{
	struct ledger_view *view = calloc(1, ledger_view_size());

	MUST(ledger_view_open(view, path) == 0);
	return view;
}

static void view_close(struct ledger_view *view)
{
	ledger_view_close(view);
	free(view);
}

static bool view_find(const char *path, pid_t pid, struct ledger_process *process)
{
	struct ledger_view *view = view_open(path);
	unsigned slot = 0;
	bool is_found = false;

	while (!is_found && ledger_view_next(view, &slot, process))
		is_found = process->pid == (uint32_t)pid;
	view_close(view);
	return is_found;
}

TEST(a_process_shows_what_it_holds_and_what_was_noted_of_it)
{
	const char *path = test_path("shown");
	struct ledger *l = test_ledger(path, 1000);
	static struct ledger_process p;

	ledger_note_symbols(l, 18, 19);
	ledger_note_reason(l, LEDGER_REASON_SYMBOLS_PARTIAL);
	test_take(l, 300);
	ledger_charge(l, 5, LEDGER_PHYSICAL, 70);
	ledger_note_allocations(l, 2);
	ledger_note_allocations(l, -1);
	ledger_note_migrated(l, 3, 44);
	ledger_note_refusal(l, "hipMalloc", 0, LEDGER_REQUESTED, 900);
	CHECK(view_find(path, getpid(), &p));
	CHECK(p.alive && !p.foreign_namespace && p.start_time);
	CHECK_EQ(p.bytes[LEDGER_REQUESTED][0], 300);
	CHECK_EQ(p.bytes[LEDGER_PHYSICAL][5], 70);
	CHECK_EQ(p.bytes[LEDGER_PHYSICAL][0], 0);
	CHECK(p.symbols_bound == 18 && p.symbols_wanted == 19);
	CHECK_EQ(p.reasons, REASON_BIT(SYMBOLS_PARTIAL));
	CHECK_EQ(p.allocations, 1);
	CHECK_EQ(p.migrated[3], 44);
	CHECK_EQ(p.refusals, 1);
	CHECK_TEXT(p.last.api, "hipMalloc");
	CHECK(p.last.bytes == 900 && p.last.limit == 1000 && p.last.used == 300 && p.last.device == 0);
	CHECK(p.last.realtime_ns > UINT64_C(1600000000000000000));
	CHECK(!strncmp(p.command, program_invocation_short_name, 15));
	ledger_close(l);
}

TEST(limits_are_shown_and_a_missing_device_has_none)
{
	const char *path = test_path("limits");
	struct ledger *l = test_ledger(path, 1000);
	struct ledger_view *view;

	ledger_open(l);
	view = view_open(path);
	CHECK_EQ(ledger_view_limit(view, 63), 1000);
	CHECK_EQ(ledger_view_limit(view, 64), 0);
	view_close(view);
	ledger_close(l);
}

TEST(looking_takes_no_slot_and_changes_nothing)
{
	const char *path = test_path("looking");
	struct ledger *l = test_ledger(path, 1000);
	static struct ledger_process p;
	struct stat before, after;

	test_take(l, 10);
	MUST(stat(path, &before) == 0);
	for (int i = 0; i < 10; i++)
		view_find(path, getpid(), &p);
	MUST(stat(path, &after) == 0);
	CHECK(before.st_mtim.tv_nsec == after.st_mtim.tv_nsec &&
	      before.st_mtim.tv_sec == after.st_mtim.tv_sec);
	CHECK_EQ(test_take(l, 990), LEDGER_GRANTED);
	ledger_close(l);
}

TEST(the_dead_are_shown_as_dead_until_they_are_reaped)
{
	const char *path = test_path("dead");
	struct ledger *l = test_ledger(path, 1000);
	static struct ledger_process p;
	pid_t pid;

	ledger_open(l);
	CHILD(pid, test_take(test_ledger(path, 1000), 300));
	test_wait(pid);
	CHECK(view_find(path, pid, &p));
	CHECK(!p.alive && p.bytes[LEDGER_REQUESTED][0] == 300);
	CHECK_EQ(ledger_view_reap(path), 1);
	CHECK(!view_find(path, pid, &p));
	CHECK_EQ(ledger_view_reap(path), 0);
	CHECK_EQ(test_used(l), 0);
	ledger_close(l);
}

TEST(a_slots_next_owner_shows_nothing_of_its_last)
{
	const char *path = test_path("next");
	static struct ledger_process p;
	pid_t pid;

	CHILD(pid, {
		struct ledger *l = test_ledger(path, 1000);

		ledger_note_reason(l, LEDGER_REASON_TRACKER_FULL);
		test_take(l, 300);
		ledger_note_refusal(l, "hipMalloc", 0, LEDGER_REQUESTED, 900);
		ledger_note_migrated(l, 0, 5);
	});
	test_wait(pid);
	struct ledger *l = test_ledger(path, 1000);
	ledger_open(l);
	CHECK(view_find(path, getpid(), &p));
	CHECK(!p.reasons && !p.refusals && !p.last.api[0] && !p.migrated[0] && !p.bytes[0][0]);
	ledger_close(l);
}

TEST(a_forked_child_shows_the_notes_that_are_true_of_it_too)
{
	const char *path = test_path("inherited");
	struct ledger *l = test_ledger(path, 1000);
	static struct ledger_process p;
	pid_t pid;

	ledger_note_symbols(l, 7, 9);
	ledger_note_reason(l, LEDGER_REASON_LIMIT_INVALID);
	ledger_open(l);
	CHILD(pid, {
		ledger_open(l);
		status = !view_find(path, getpid(), &p) || p.symbols_bound != 7 || p.symbols_wanted != 9 ||
			 p.reasons != REASON_BIT(LIMIT_INVALID);
	});
	CHECK_EQ(test_wait(pid), 0);
	ledger_close(l);
}

TEST(what_is_no_region_cannot_be_looked_at)
{
	const char *path = test_path("not-a-region");
	struct ledger_view *view = calloc(1, ledger_view_size());

	CHECK_EQ(-ledger_view_open(view, path), ENOENT);
	CHECK_EQ(-ledger_view_reap(path), ENOENT);
	test_write_file(path, "garbage", 7);
	CHECK_EQ(-ledger_view_open(view, path), EPROTO);
	CHECK_EQ(-ledger_view_reap(path), EPROTO);
	CHECK_EQ(-ledger_view_open(view, "/tmp"), EPROTO);
	free(view);
}

TEST(nonsense_in_a_region_is_shown_terminated_and_within_bounds)
{
	const char *path = test_path("nonsense");
	struct ledger *l = test_ledger(path, 1000);
	unsigned char *nonsense = malloc(sizeof(struct region));
	static struct ledger_process p;
	struct ledger_view *view;
	unsigned slot = 0, shown = 0;
	int fd;

	ledger_open(l);
	for (size_t i = 0; i < sizeof(struct region); i++)
		nonsense[i] = (unsigned char)((i + 1) * 2654435761u >> 9);
	fd = open(path, O_RDWR);
	MUST(pwrite(fd, nonsense, sizeof(struct region) - 128, 128) == sizeof(struct region) - 128 &&
	     !close(fd));
	view = view_open(path);
	while (ledger_view_next(view, &slot, &p)) {
		shown++;
		CHECK(memchr(p.command, 0, sizeof p.command) && memchr(p.last.api, 0, sizeof p.last.api));
		for (const char *c = p.command; *c; c++)
			CHECK(*c >= ' ' && *c <= '~');
	}
	CHECK(shown > 0 && shown <= LEDGER_SLOTS);
	view_close(view);
	free(nonsense);
	ledger_close(l);
}

TEST(a_note_of_a_refusal_that_is_half_written_is_not_shown)
{
	const char *path = test_path("half");
	struct ledger *l = test_ledger(path, 1000);
	static struct ledger_process p;
	uint64_t odd = 1;
	int fd;

	ledger_open(l);
	ledger_note_refusal(l, "hipMalloc", 0, LEDGER_REQUESTED, 900);
	fd = open(path, O_RDWR);
	MUST(pwrite(fd, &odd, 8, offsetof(struct region, status) + offsetof(struct region_status, writing)) ==
	     8);
	close(fd);
	CHECK(view_find(path, getpid(), &p));
	CHECK(!p.last.api[0] && !p.last.bytes && p.refusals == 1);
	ledger_close(l);
}

TEST(every_reason_has_a_name_a_text_and_a_remedy)
{
	for (unsigned i = 0; i < LEDGER_REASONS; i++)
		CHECK(*ledger_reason_name(i) && *ledger_reason_text(i) && *ledger_reason_remedy(i));
	CHECK_TEXT(ledger_reason_name(LEDGER_REASON_SLOTS_FULL), "SLOTS_FULL");
	CHECK_TEXT(ledger_reason_name(LEDGER_REASONS), "UNKNOWN");
}

TEST_MAIN()
