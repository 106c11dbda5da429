/* Arbitrary bytes as a region: whatever a file holds, and whatever it turns into while it is mapped, nothing
 * crashes, hangs or gives a process more than its own settings allow.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined test/fuzz/fuzz_region.c \
 *		src/multiprocess/hip_multiprocess_memory_limit.c -o fuzz_region && ./fuzz_region
 * test/fuzz/corpus/region
 *
 * Input: the first byte says when it strikes and who looks, the rest is written over the region, run by run:
 * two bytes of offset in units of 8 bytes (the header and the first slots and rows), one of length, then the
 * bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/multiprocess/region_layout.h"

enum { LIMIT = 1000 };

static char path[64], hidden[64], aside[64];
static struct ledger_process process;

static void must(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

static struct ledger *open_ledger(void *storage)
{
	struct ledger_settings s = {.path = path, .wait_ms = 1};

	s.limit[0] = LIMIT;
	return ledger_init(storage, &s);
}

/* A struct region has its rows of device 0 and its first statuses far behind: every fourth run goes there. */
static size_t place(const uint8_t *run)
{
	static const size_t base[] = {0, 0, offsetof(struct region, row), offsetof(struct region, status)};

	return base[run[1] >> 6] + 8 * (size_t)(run[0] | (run[1] & 63) << 8);
}

static void strike(const uint8_t *data, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT, 0666);

	while (size > 3) {
		size_t length = data[2] < size - 3 ? data[2] : size - 3;

		if (pwrite(fd, data + 3, length, (off_t)place(data)) < 0)
			abort();
		data += 3 + length;
		size -= 3 + length;
	}
	if (size && ftruncate(fd, data[0] * 16384L))
		abort();
	close(fd);
}

static void look(void)
{
	static _Alignas(16) char storage[65536];
	struct ledger_view *view = (struct ledger_view *)storage;
	unsigned slot = 0;

	must(ledger_view_size() <= sizeof storage, "a larger view");
	memset(storage, 0, ledger_view_size());
	if (ledger_view_open(view, path) == 0) {
		while (ledger_view_next(view, &slot, &process))
			must(memchr(process.command, 0, sizeof process.command) != NULL,
			     "command is not terminated");
		ledger_view_close(view);
	}
}

static void use(struct ledger *l)
{
	enum ledger_outcome out = ledger_reserve(l, 0, LEDGER_REQUESTED, 600);

	ledger_used(l, 0, LEDGER_REQUESTED);
	must(ledger_free(l, 0, LEDGER_REQUESTED) <= LIMIT, "more is free than the limit");
	must(ledger_limit(l, 0) <= LIMIT, "the limit was raised");
	must(ledger_reserve(l, 0, LEDGER_REQUESTED, LIMIT + 1) != LEDGER_GRANTED,
	     "more than all was granted");
	if (out != LEDGER_GRANTED)
		return;
	must(ledger_reserve(l, 0, LEDGER_REQUESTED, LIMIT - 599) != LEDGER_GRANTED,
	     "more than the rest was granted");
	ledger_settle(l, 0, LEDGER_REQUESTED, 600);
	ledger_note_refusal(l, "hipMalloc", 0, LEDGER_REQUESTED, 1);
	ledger_release(l, 0, LEDGER_REQUESTED, 600);
}

int LLVMFuzzerInitialize(int *count, char ***argument)
{
	(void)count, (void)argument;
	snprintf(path, sizeof path, "/dev/shm/fuzz-region-%d", getpid());
	snprintf(hidden, sizeof hidden, "/dev/shm/.fuzz-region-%d.region", getpid());
	snprintf(aside, sizeof aside, "%s.unusable", path);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *storage;
	struct ledger *l;

	if (size < 1)
		return 0;
	storage = mmap(NULL, ledger_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	l = open_ledger(storage);
	if (data[0] & 1) {
		ledger_open(l);
		ledger_close(l);
	}
	if (data[0] & 2)
		use(l);
	strike(data + 1, size - 1);
	if (data[0] & 8)
		look();
	use(l);
	if (data[0] & 4)
		ledger_view_reap(path);
	use(l);
	ledger_close(l);
	munmap(storage, ledger_size());
	unlink(path);
	unlink(hidden);
	unlink(aside);
	return 0;
}
