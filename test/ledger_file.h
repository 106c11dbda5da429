/* What the tests of the region's file ask of it: does it hold, is it shared, how large is it? */
#ifndef AMVGPU_LEDGER_FILE_H
#define AMVGPU_LEDGER_FILE_H

#include "ledger_root.h"

/* Limited to 1000 bytes with whoever shares the region. */
static void check_enforces(struct ledger *l)
{
	CHECK_EQ(test_take(l, 600), LEDGER_GRANTED);
	CHECK_EQ(test_take(l, 401), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, 400), LEDGER_GRANTED);
	test_give(l, 1000);
	CHECK_EQ(test_used(l), 0);
}

static bool is_shared(const char *path)
{
	struct ledger *a = test_ledger(path, 1000), *b = test_ledger(path, 1000);
	bool seen;

	test_take(a, 700);
	seen = test_used(b) == 700;
	test_give(a, 700);
	ledger_close(a);
	ledger_close(b);
	return seen;
}

static long file_size(const char *path)
{
	struct stat st;

	return lstat(path, &st) ? -1 : (long)st.st_size;
}

#endif
