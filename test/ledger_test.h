/* What the tests of the ledger share: ledgers on a region in a directory of their own, children, a clock. */
#ifndef AMVGPU_LEDGER_TEST_H
#define AMVGPU_LEDGER_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../src/multiprocess/hip_multiprocess_memory_limit.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Whatever fails here is the test's own fault, not a finding. */
#define MUST(condition)                                                                                      \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			printf("%s:%d: cannot test: %s: %s\n", __FILE__, __LINE__, #condition,               \
			       strerror(errno));                                                             \
			exit(99);                                                                            \
		}                                                                                            \
	} while (0)

static char test_directory[64];

static void test_directory_remove(void)
{
	char command[160];

	snprintf(command, sizeof command, "rm -rf '%s'", test_directory);
	if (system(command)) {
	}
}

/* A path in a directory that is empty at the start of the program and gone at its end. */
__attribute__((unused)) static const char *test_path(const char *name)
{
	static char path[4][128];
	static unsigned next;
	static pid_t owner;
	char *p = path[next++ % 4];

	if (!owner) {
		strcpy(test_directory, "/tmp/ledger-test-XXXXXX");
		MUST(mkdtemp(test_directory));
		owner = getpid();
		atexit(test_directory_remove);
	}
	snprintf(p, sizeof path[0], "%s/%s", test_directory, name);
	return p;
}

__attribute__((unused)) static uint64_t test_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

__attribute__((unused)) static void *test_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	MUST(p != MAP_FAILED);
	return p;
}

__attribute__((unused)) static struct ledger *test_ledger_with(const struct ledger_settings *settings)
{
	void *storage = mmap(NULL, ledger_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(storage != MAP_FAILED);
	return ledger_init(storage, settings);
}

/* All devices have this limit; conflicts are waited for half a second. */
__attribute__((unused)) static struct ledger *test_ledger(const char *path, uint64_t limit)
{
	struct ledger_settings settings = {.path = path, .wait_ms = 500};

	for (unsigned i = 0; i < LEDGER_DEVICES; i++)
		settings.limit[i] = limit;
	return test_ledger_with(&settings);
}

__attribute__((unused)) static enum ledger_outcome test_take(struct ledger *l, uint64_t n)
{
	enum ledger_outcome out = ledger_reserve(l, 0, LEDGER_REQUESTED, n);

	if (out == LEDGER_GRANTED)
		ledger_settle(l, 0, LEDGER_REQUESTED, n);
	return out;
}

__attribute__((unused)) static void test_give(struct ledger *l, uint64_t n)
{
	ledger_release(l, 0, LEDGER_REQUESTED, n);
}

__attribute__((unused)) static uint64_t test_used(struct ledger *l)
{
	return ledger_used(l, 0, LEDGER_REQUESTED);
}

/* A child that must not run the parent's atexit handlers: ends with _exit of what its block leaves in
 * `status`. */
#define CHILD(pid, ...)                                                                                      \
	do {                                                                                                 \
		fflush(stdout);                                                                              \
		pid = fork();                                                                                \
		MUST(pid >= 0);                                                                              \
		if (!pid) {                                                                                  \
			int status = 0;                                                                      \
			__VA_ARGS__;                                                                         \
			_exit(status);                                                                       \
		}                                                                                            \
	} while (0)

/* The child's exit status, or 128 + the signal that ended it. */
__attribute__((unused)) static int test_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		MUST(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

__attribute__((unused)) static void test_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	test_wait(pid);
}

/* A counter between processes: one opens it, the other waits for that. Needs no descriptor. */
struct test_gate {
	_Atomic int *opened;
};

__attribute__((unused)) static struct test_gate test_gate(void)
{
	return (struct test_gate){test_shared(sizeof(int))};
}

__attribute__((unused)) static void test_gate_open(struct test_gate *g)
{
	atomic_fetch_add(g->opened, 1);
}

__attribute__((unused)) static void test_gate_pass(struct test_gate *g)
{
	for (int opened = *g->opened;; opened = *g->opened) {
		if (opened > 0 && atomic_compare_exchange_strong(g->opened, &opened, opened - 1))
			return;
		usleep(200);
	}
}

#endif
