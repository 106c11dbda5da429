/* As many processes as a region has slots, and one more; many on overlayfs. Needs root for its mounts. */
#include "ledger_start.h"

TEST(of_300_processes_that_start_at_once_on_an_overlay_file_system_all_have_their_first_byte)
{
	IN_OWN_ROOT({
		uint64_t used;

		CHECK(start_many(test_overlay_path(), &used) >= 0);
		CHECK_EQ(used, STARTERS);
	});
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
