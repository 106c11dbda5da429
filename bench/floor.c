/* What the machine itself takes for the things nobody can do without: the physical floor beside each figure. */
#define _GNU_SOURCE
#include "floor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

enum { ROUNDS = 101, CALLS = 2000, PAGES = 256, PAGE = 4096, CHASE_BYTES = 256 << 20, LINE = 64 };

static _Atomic unsigned long counter __attribute__((aligned(64)));

static double atomic_add(void)
{
	double start = now_ns();

	for (unsigned i = 0; i < CALLS; i++)
		atomic_fetch_add(&counter, 1);
	return (now_ns() - start) / CALLS;
}

static double system_call(void)
{
	double start = now_ns();

	for (unsigned i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return (now_ns() - start) / CALLS;
}

static double page_fault(void)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double start = now_ns();

	for (unsigned i = 0; memory != MAP_FAILED && i < PAGES; i++)
		((volatile char *)memory)[i * PAGE] = 1;
	start = now_ns() - start;
	munmap(memory, PAGES * PAGE);
	return start / PAGES;
}

/* Each step goes to where the last one says: no two misses at once. */
static double cache_miss(void)
{
	static unsigned *next;
	static unsigned at;
	unsigned count = CHASE_BYTES / LINE, step = 40503 * 64 + 1;
	double start;

	if (!next) {
		next = mmap(NULL, CHASE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (next == MAP_FAILED)
			_exit(1);
		for (unsigned i = 0; i < count; i++)
			next[(size_t)i * (LINE / sizeof *next)] = (unsigned)(((unsigned long)i + step) % count);
	}
	start = now_ns();
	for (unsigned i = 0; i < CALLS; i++)
		at = ((volatile unsigned *)next)[(size_t)at * (LINE / sizeof *next)];
	return (now_ns() - start) / CALLS;
}

/* Two words of each of 16 lines that are in the cache. */
static double sixteen_lines(void)
{
	enum { LINES = 16, WORDS = LINE / sizeof(unsigned long) };
	static volatile unsigned long rows[LINES * WORDS] __attribute__((aligned(LINE)));
	double start = now_ns();

	for (unsigned i = 0; i < CALLS; i++) {
		for (unsigned line = 0; line < LINES; line++) {
			(void)rows[line * WORDS];
			(void)rows[line * WORDS + 2];
		}
	}
	return (now_ns() - start) / CALLS;
}

static _Atomic unsigned long ball __attribute__((aligned(64)));
static _Atomic bool is_over;

static void *play(void *unused)
{
	while (!is_over) {
		if (ball & 1)
			atomic_fetch_add(&ball, 1);
	}
	return unused;
}

/* A cache line that another core has just written: there and back are two. */
static double line_transfer(void)
{
	double start = now_ns();

	for (unsigned i = 0; i < CALLS; i++) {
		atomic_fetch_add(&ball, 1);
		while (ball & 1)
			;
	}
	return (now_ns() - start) / CALLS / 2;
}

static double typical(double (*once)(void))
{
	double ns[ROUNDS];

	once();
	for (unsigned i = 0; i < ROUNDS; i++)
		ns[i] = once();
	return median(ns, ROUNDS);
}

static double between_cores(void)
{
	double ns = 0;
	pthread_t other;

	if (sysconf(_SC_NPROCESSORS_ONLN) > 1 && !pthread_create(&other, NULL, play, NULL)) {
		ns = typical(line_transfer);
		is_over = true;
		pthread_join(other, NULL);
	}
	return ns;
}

int floor_print(void)
{
	printf("{\"atomic_add\": %.2f, \"system_call\": %.1f, \"page_fault\": %.1f, \"cache_miss\": %.1f, "
	       "\"sixteen_lines\": %.1f, \"line_transfer\": %.1f}\n",
	       typical(atomic_add), typical(system_call), typical(page_fault), typical(cache_miss), typical(sixteen_lines),
	       between_cores());
	return 0;
}
