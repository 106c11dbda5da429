/* Fills slots of a pod's region: N processes that hold one allocation each and do nothing.
 *
 *	slots REGION N      prints "ready", ends when its input does
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../src/multiprocess/hip_multiprocess_memory_limit.h"

static void hold(const char *path, int ready)
{
	struct ledger_settings settings = { .path = path, .limit = { UINT64_C(64) << 30 } };
	void *storage = mmap(NULL, ledger_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ledger *l = ledger_init(storage, &settings);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ledger_open(l) || ledger_reserve(l, 0, LEDGER_REQUESTED, 4096) != LEDGER_GRANTED)
		_exit(1);
	ledger_settle(l, 0, LEDGER_REQUESTED, 4096);
	if (write(ready, "", 1) == 1)
		pause();
	_exit(1);
}

int main(int argc, char **argv)
{
	int count = argc == 3 ? atoi(argv[2]) : 0, ready[2];
	char byte;

	if (!count || pipe(ready))
		return 2;
	for (int i = 0; i < count; i++) {
		if (fork() == 0)
			hold(argv[1], ready[1]);
	}
	close(ready[1]);
	for (int i = 0; i < count; i++) {
		if (read(ready[0], &byte, 1) != 1)
			return 1;
	}
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) != 0;
}
