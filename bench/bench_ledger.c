/* What the ledger costs: ns per reserve + settle + release, and per question, with so many processes in the
 *region.
 *
 *	gcc -O2 -ffreestanding -c -o /tmp/ledger.o src/multiprocess/hip_multiprocess_memory_limit.c
 *	gcc -O2 -pthread -o /tmp/bench_ledger bench/bench_ledger.c /tmp/ledger.o && /tmp/bench_ledger
 *[slots...]
 *
 * Batches of 64 calls between two readings of the clock; median and p99 over batches. Built freestanding, as
 *in the library, the ledger has no testpoints.
 */
#include "../test/ledger_test.h"

enum { BATCHES = 20000, BATCH = 64, LEAST = 4096 };

static void pair(struct ledger *l)
{
	ledger_reserve(l, 0, LEDGER_REQUESTED, LEAST);
	ledger_settle(l, 0, LEDGER_REQUESTED, LEAST);
	ledger_release(l, 0, LEDGER_REQUESTED, LEAST);
}

static void used(struct ledger *l)
{
	ledger_used(l, 0, LEDGER_REQUESTED);
}

static void room(struct ledger *l)
{
	ledger_free(l, 0, LEDGER_REQUESTED);
}

static void refused(struct ledger *l)
{
	ledger_reserve(l, 0, LEDGER_REQUESTED, GIB);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void measure(const char *what, struct ledger *l, void (*call)(struct ledger *l), int batches)
{
	static double ns[BATCHES];

	for (int i = 0; i < batches; i++) {
		uint64_t begin = test_now_ns();

		for (int j = 0; j < BATCH; j++)
			call(l);
		ns[i] = (double)(test_now_ns() - begin) / BATCH;
	}
	qsort(ns, (size_t)batches, sizeof ns[0], compare);
	printf("  %-28s median %8.1f   p99 %8.1f ns\n", what, ns[batches / 2], ns[batches * 99 / 100]);
}

static void bench(int slots)
{
	const char *path = test_path("bench");
	struct test_gate ready = test_gate();
	struct ledger *l = test_ledger(path, GIB);
	pid_t pid[LEDGER_SLOTS];

	for (int i = 1; i < slots; i++) {
		CHILD(pid[i], {
			test_take(test_ledger(path, GIB), LEAST);
			test_gate_open(&ready);
			pause();
		});
	}
	for (int i = 1; i < slots; i++)
		test_gate_pass(&ready);
	test_take(l, LEAST);
	printf("%d processes\n", slots);
	measure("reserve + settle + release", l, pair, BATCHES);
	measure("used", l, used, BATCHES);
	measure("free", l, room, BATCHES);
	measure("refused: does not fit", l, refused, 50);
	for (int i = 1; i < slots; i++)
		test_kill(pid[i]);
	ledger_close(l);
}

int main(int count, char **argument)
{
	static const int usual[] = {1, 16, 64};

	for (int i = 1; i < count; i++)
		bench(atoi(argument[i]));
	for (int i = 0; count == 1 && i < 3; i++)
		bench(usual[i]);
	return 0;
}
