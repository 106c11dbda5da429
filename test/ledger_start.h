/* Three hundred processes that call first at the same moment. */
#ifndef AMVGPU_LEDGER_START_H
#define AMVGPU_LEDGER_START_H

#include "ledger_root.h"

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

/* ns until the last of them has had its first byte (path NULL: has done nothing); -1 if one was not granted.
 */
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

#endif
