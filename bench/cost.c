/* What the library adds to a call: measured with and without it, in one process image, in turns.
 *
 *	cost calls ROUNDS [OPERATION]...    each operation; one JSON object a line
 *	cost live ROUNDS COUNT...           the pair while COUNT allocations live
 *	cost crowd PROCESSES THREADS PAIRS ROUNDS
 *	cost memory COUNT                   resident memory with COUNT live allocations; "none": HIP is not even loaded
 *	cost once CALLS OPERATION           ns a call as the process is, without any of the above
 *	cost floor                          what the machine itself takes
 *
 * Environment: BENCH_RUNTIME (libamdhip64.so), BENCH_LIBRARY (the same as LD_AUDIT), BENCH_LIMIT (bytes).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <x86intrin.h>

#include "calls.h"
#include "clock.h"
#include "crowd.h"
#include "floor.h"

enum {
	BATCH_NS = 15000, /* short, so that most batches are not interrupted */
	WARM = 8,
	MAX_ROUNDS = 5000,
	MAX_SAMPLES = 400000,
	SAMPLES_AT_ONCE = 100,
	ENOUGH_NS = 1500000000, /* for the batches of one figure, and again for its single calls */
	FEWEST_ROUNDS = 5,
};

static struct calls calls[FLIP_MODES];

/* ---- One figure: batches with, without, and without again ---- */

struct job {
	bool (*once)(const struct calls *calls);
	unsigned per_batch;
	bool has_failed;
};

static double batch(struct job *job, enum flip_mode mode, unsigned count)
{
	const struct calls *c = &calls[mode];
	bool is_good = true;
	double start;

	flip(mode);
	for (unsigned i = 0; i < WARM; i++)
		is_good &= job->once(c);
	start = now_ns();
	for (unsigned i = 0; i < count; i++)
		is_good &= job->once(c);
	start = now_ns() - start;
	job->has_failed |= !is_good;
	return start / count;
}

static void calibrate(struct job *job)
{
	double ns = batch(job, FLIP_WITH, 16), again = batch(job, FLIP_WITH, 16);

	ns = again < ns ? again : ns;
	job->per_batch = ns > BATCH_NS ? 1 : (unsigned)(BATCH_NS / ns);
}

static double ticks_per_ns(void)
{
	static double known;
	double start = now_ns();
	uint64_t ticks = __rdtsc();

	while (!known && now_ns() - start < 2e7) {
	}
	if (!known)
		known = (double)(__rdtsc() - ticks) / (now_ns() - start);
	return known;
}

/* Single calls, for the tail that batches hide. The cost of reading the clock is in both and cancels out. */
static void sample(struct job *job, enum flip_mode mode, double *out, unsigned count)
{
	const struct calls *c = &calls[mode];
	double scale = ticks_per_ns();
	unsigned unused;

	flip(mode);
	for (unsigned i = 0; i < WARM; i++)
		job->once(c);
	for (unsigned i = 0; i < count; i++) {
		uint64_t start = __rdtsc();

		job->has_failed |= !job->once(c);
		out[i] = (double)(__rdtscp(&unused) - start) / scale;
	}
}

static void report_tail(struct job *job, unsigned rounds)
{
	static double samples[FLIP_MODES][MAX_SAMPLES];
	double deadline = now_ns() + ENOUGH_NS;
	unsigned count = 0;

	for (; rounds && count + SAMPLES_AT_ONCE <= MAX_SAMPLES; rounds--, count += SAMPLES_AT_ONCE) {
		if (count > FEWEST_ROUNDS * SAMPLES_AT_ONCE && now_ns() > deadline)
			break;
		sample(job, FLIP_WITHOUT, &samples[FLIP_WITHOUT][count], SAMPLES_AT_ONCE);
		sample(job, FLIP_WITH, &samples[FLIP_WITH][count], SAMPLES_AT_ONCE);
	}
	printf("\"p99_without\": %.1f, \"p99_with\": %.1f, \"p99_added\": %.1f, \"samples\": %u}\n",
	       quantile(samples[FLIP_WITHOUT], count, 0.99), quantile(samples[FLIP_WITH], count, 0.99),
	       quantile(samples[FLIP_WITH], count, 0.99) - quantile(samples[FLIP_WITHOUT], count, 0.99), count);
}

/* Prints {"name": ..., the figures}. The second batch without the library is the noise: it should differ by nothing. */
static bool measure(const char *name, bool (*once)(const struct calls *), unsigned rounds)
{
	static double with[MAX_ROUNDS], without[MAX_ROUNDS], again[MAX_ROUNDS], added[MAX_ROUNDS], noise[MAX_ROUNDS];
	struct job job = { .once = once };
	double deadline = now_ns() + ENOUGH_NS;

	calibrate(&job);
	rounds = rounds < MAX_ROUNDS ? rounds : MAX_ROUNDS;
	for (unsigned i = 0; i < rounds; i++) {
		if (i > FEWEST_ROUNDS && now_ns() > deadline)
			rounds = i + 1;
		without[i] = batch(&job, FLIP_WITHOUT, job.per_batch);
		with[i] = batch(&job, FLIP_WITH, job.per_batch);
		again[i] = batch(&job, FLIP_WITHOUT, job.per_batch);
		added[i] = with[i] - (without[i] + again[i]) / 2;
		noise[i] = again[i] - without[i];
	}
	printf("{\"name\": \"%s\", \"without\": %.1f, \"with\": %.1f, \"added\": %.1f, \"added_low\": %.1f, "
	       "\"added_high\": %.1f, \"noise\": %.1f, \"noise_low\": %.1f, \"noise_high\": %.1f, \"rounds\": %u, "
	       "\"per_batch\": %u, ",
	       name, median(without, rounds), median(with, rounds), median(added, rounds), quantile(added, rounds, 0.1),
	       quantile(added, rounds, 0.9), median(noise, rounds), quantile(noise, rounds, 0.1),
	       quantile(noise, rounds, 0.9), rounds, job.per_batch);
	report_tail(&job, rounds);
	fflush(stdout);
	if (job.has_failed)
		fprintf(stderr, "cost: a call of %s did not do what it should\n", name);
	return !job.has_failed;
}

static int load(void)
{
	void *kept;

	if (!calls_load(calls, getenv("BENCH_RUNTIME"), getenv("BENCH_LIBRARY")))
		return 1;
	return calls[FLIP_WITH].hipMalloc(&kept, bench_size); /* something is live, so that the limit itself is refused */
}

static const struct operation *operation_find(const char *name)
{
	for (const struct operation *o = operations; o->name; o++) {
		if (!strcmp(o->name, name))
			return o;
	}
	fprintf(stderr, "cost: no operation '%s'\n", name);
	exit(2);
}

static int run_calls(unsigned rounds, char **names)
{
	bool is_good = true;

	for (const struct operation *o = operations; !*names && o->name; o++)
		is_good &= measure(o->name, o->once, rounds);
	for (; *names; names++)
		is_good &= measure(*names, operation_find(*names)->once, rounds);
	return !is_good;
}

/* ---- Live allocations ---- */

static struct {
	void **blocks[FLIP_MODES];
	size_t count;
	uint64_t random;
} live;

static size_t any_of(size_t count)
{
	live.random = live.random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((live.random >> 32) * count >> 32);
}

/* What a long-lived program does: gives one back that it has had for long, and takes another. */
static bool replace(const struct calls *c)
{
	void **block = &live.blocks[c - calls][any_of(live.count)];

	return c->hipFree(*block) == hipSuccess && c->hipMalloc(block, bench_size) == hipSuccess;
}

/* In both halves, each allocated by its own side: what is freed without the library it has never seen. */
static bool grow(size_t count)
{
	for (enum flip_mode mode = FLIP_WITHOUT; mode < FLIP_MODES; mode++) {
		live.blocks[mode] = realloc(live.blocks[mode], count * sizeof(void *));
		flip(mode);
		for (size_t i = live.count; i < count; i++) {
			if (!live.blocks[mode] || calls[mode].hipMalloc(&live.blocks[mode][i], bench_size))
				return false;
		}
	}
	live.count = count;
	return true;
}

static int run_live(unsigned rounds, char **counts)
{
	bool is_good = true;

	for (; *counts && is_good; counts++) {
		size_t count = strtoull(*counts, NULL, 0);
		char name[64];

		if (!grow(count)) {
			fprintf(stderr, "cost: no room for %zu allocations\n", count);
			return 1;
		}
		snprintf(name, sizeof name, "%zu pair", count);
		is_good = measure(name, operations[0].once, rounds);
		snprintf(name, sizeof name, "%zu replace", count);
		if (count)
			is_good &= measure(name, replace, rounds);
	}
	return !is_good;
}

/* ---- Memory and single runs ---- */

static int print_memory(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long rss = 0, dirty = 0, clean = 0, pss = 0, kib;
	char line[200];

	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "Rss: %lu", &kib) == 1)
			rss = kib;
		else if (sscanf(line, "Pss: %lu", &kib) == 1)
			pss = kib;
		else if (sscanf(line, "Private_Dirty: %lu", &kib) == 1)
			dirty = kib;
		else if (sscanf(line, "Private_Clean: %lu", &kib) == 1)
			clean = kib;
	}
	printf("{\"rss_kib\": %lu, \"pss_kib\": %lu, \"private_dirty_kib\": %lu, \"private_clean_kib\": %lu}\n", rss, pss,
	       dirty, clean);
	return !rss;
}

static int run_memory(const char *count)
{
	hipError_t (*allocate)(void **, size_t);
	void *handle, *block;

	if (!strcmp(count, "none"))
		return print_memory();
	handle = dlopen(getenv("BENCH_RUNTIME"), RTLD_NOW);
	allocate = handle ? (hipError_t(*)(void **, size_t))dlsym(handle, "hipMalloc") : NULL;
	for (unsigned long i = strtoul(count, NULL, 0); i; i--) {
		if (!allocate || allocate(&block, bench_size))
			return 1;
	}
	return print_memory();
}

/* Through dlsym alone: this runs without the library too. */
static int run_once(unsigned count, const char *name)
{
	void *handle = dlopen(getenv("BENCH_RUNTIME"), RTLD_NOW);
	const struct operation *o = operation_find(name);
	struct calls *c = &calls[FLIP_WITH];
	double best = 0;

	if (!handle)
		return 1;
#define CALL(name, params) c->name = (hipError_t(*) params)dlsym(handle, #name);
	CALLS(CALL)
#undef CALL
	for (unsigned i = 0; i < 20; i++) {
		double start = now_ns(), ns;

		for (unsigned k = 0; k < count / 20; k++) {
			if (!o->once(c))
				return 1;
		}
		ns = (now_ns() - start) / (count / 20);
		best = !best || ns < best ? ns : best;
	}
	printf("%.2f\n", best);
	return 0;
}

static unsigned number(const char *text)
{
	return (unsigned)strtoul(text, NULL, 0);
}

int main(int argc, char **argv)
{
	if (argc >= 3 && !strcmp(argv[1], "calls"))
		return load() || run_calls(number(argv[2]), argv + 3);
	if (argc >= 4 && !strcmp(argv[1], "live"))
		return load() || run_live(number(argv[2]), argv + 3);
	if (argc == 6 && !strcmp(argv[1], "crowd"))
		return crowd(number(argv[2]), number(argv[3]), number(argv[4]), number(argv[5]));
	if (argc == 3 && !strcmp(argv[1], "memory"))
		return run_memory(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "floor"))
		return floor_print();
	if (argc == 4 && !strcmp(argv[1], "once"))
		return run_once(number(argv[2]), argv[3]);
	fputs("usage: see the head of bench/cost.c\n", stderr);
	return 2;
}
