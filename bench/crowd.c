/* See crowd.h.
 *
 * Every round has four phases: one worker without and with the library, then all of them without and with it. So the
 * scaling of the library, that of the stand-in and what the machine does to both come from the same seconds.
 */
#define _GNU_SOURCE
#include "crowd.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "clock.h"

enum { PHASES = 4, MAX_ROUNDS = 1000 };

static struct shared {
	pthread_barrier_t barrier;
	unsigned workers, threads, pairs, rounds;
	double ns[PHASES][MAX_ROUNDS];
	_Atomic bool has_failed;
} * shared;

static struct calls calls[FLIP_MODES];

static bool is_active(unsigned phase, unsigned worker)
{
	return phase >= 2 || worker == 0;
}

static void work(unsigned phase)
{
	const struct calls *c = &calls[phase & 1];
	bool is_good = true;

	for (unsigned i = 0; i < shared->pairs; i++)
		is_good &= operations[0].once(c);
	if (!is_good)
		shared->has_failed = true;
}

/* Between the first two barriers nobody calls anything, so the bindings may change. */
static void phase_run(unsigned phase, unsigned round, unsigned worker)
{
	double start;

	pthread_barrier_wait(&shared->barrier);
	if (worker % shared->threads == 0)
		flip((enum flip_mode)(phase & 1));
	pthread_barrier_wait(&shared->barrier);
	start = now_ns();
	if (is_active(phase, worker))
		work(phase);
	pthread_barrier_wait(&shared->barrier);
	if (worker == 0)
		shared->ns[phase][round] = now_ns() - start;
}

static void *worker_main(void *number)
{
	unsigned worker = (unsigned)(size_t)number;

	for (unsigned round = 0; round < shared->rounds; round++) {
		for (unsigned phase = 0; phase < PHASES; phase++)
			phase_run(round & 1 ? phase ^ 1 : phase, round, worker);
	}
	return NULL;
}

static void process_main(unsigned process)
{
	pthread_t thread[256];
	unsigned first = process * shared->threads;

	if (!calls_load(calls, getenv("BENCH_RUNTIME"), getenv("BENCH_LIBRARY")))
		_exit(1);
	for (unsigned i = 1; i < shared->threads; i++)
		pthread_create(&thread[i], NULL, worker_main, (void *)(size_t)(first + i));
	worker_main((void *)(size_t)first);
	for (unsigned i = 1; i < shared->threads; i++)
		pthread_join(thread[i], NULL);
}

static unsigned processor_count(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) ? 1 : (unsigned)CPU_COUNT(&set);
}

static void report(unsigned processes)
{
	unsigned cores = processor_count(), rounds = shared->rounds, all = shared->workers;
	double scaling_with[MAX_ROUNDS], scaling_without[MAX_ROUNDS], added[MAX_ROUNDS];
	double ns[PHASES], busy = all < cores ? 1 : (double)all / cores; /* pairs one core does after another */

	for (unsigned i = 0; i < rounds; i++) {
		scaling_without[i] = all * shared->ns[0][i] / shared->ns[2][i];
		scaling_with[i] = all * shared->ns[1][i] / shared->ns[3][i];
		added[i] = (shared->ns[3][i] - shared->ns[2][i]) / shared->pairs / busy;
	}
	for (unsigned p = 0; p < PHASES; p++)
		ns[p] = median(shared->ns[p], rounds) / shared->pairs / (p < 2 ? 1 : busy);
	printf("{\"processes\": %u, \"threads\": %u, \"cores\": %u, \"one_without\": %.1f, \"one_with\": %.1f, "
	       "\"all_without\": %.1f, \"all_with\": %.1f, \"added\": %.1f, \"added_low\": %.1f, \"added_high\": %.1f, "
	       "\"scaling_without\": %.3f, \"scaling_with\": %.3f, \"pairs_per_us\": %.3f}\n",
	       processes, shared->threads, cores, ns[0], ns[1], ns[2], ns[3], median(added, rounds),
	       quantile(added, rounds, 0.1), quantile(added, rounds, 0.9), median(scaling_without, rounds),
	       median(scaling_with, rounds), 1000 * all / (ns[3] * busy));
}

static void share(void)
{
	pthread_barrierattr_t attributes;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attributes, shared->workers);
}

int crowd(unsigned processes, unsigned threads, unsigned pairs, unsigned rounds)
{
	unsigned process = 0;
	int status, is_bad;

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || !threads || threads > 256 || rounds > MAX_ROUNDS)
		return 2;
	shared->workers = processes * threads;
	shared->threads = threads;
	shared->pairs = pairs;
	shared->rounds = rounds;
	share();
	while (process + 1 < processes) {
		if (fork() == 0) { /* before the runtime is loaded: each is a HIP process of its own */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			process_main(process + 1);
			_exit(0);
		}
		process++;
	}
	process_main(0);
	is_bad = shared->has_failed;
	while (wait(&status) > 0)
		is_bad |= status;
	if (!is_bad)
		report(processes);
	return is_bad != 0;
}
