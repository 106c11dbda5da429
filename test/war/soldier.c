/* A soldier of the random war: a program whose threads allocate and free at random, and which dies, forks and becomes
 * another program as its seed says. The commander (test/war/war) starts many, kills some and compares books.
 *
 *	soldier RUNTIME SEED THREADS LIMIT_0 LIMIT_1 [quiet ROUND | once STEPS]
 *
 *	go ROUND STEPS      -> "quiet ROUND …": every thread took so many steps and is gone; or the program is
 *	probe DEVICE BYTES  -> "probe ERROR ERROR": of so many bytes, and of a page on top of them
 *
 * quiet: it came by exec out of a round, and says so at once. once: a child that came by exec takes its steps and ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soldier.h"

enum { THREADS = 32, CHILDREN = 8, CHILD_STEPS = 60 };

enum event { NOTHING, FORK, ORPHAN, VFORK_EXEC, EXEC, EXIT, QUICK_EXIT, KILL, THREAD_EXIT, EVENTS };

static char **arguments;
static uint64_t seed;
static unsigned thread_count, round_number, steps;
static struct slot slots[SLOTS];
static struct counts total;
static _Atomic int child_count;
static pid_t children[CHILDREN];

struct thread {
	pthread_t id;
	uint64_t random;
	struct counts counts;
	enum event event;
	unsigned when; /* the step at which the event happens */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ (b + 1) * 0x94d049bb133111ebu;

	x ^= x >> 29;
	return x ? x : 1;
}

/* The same program again, with another purpose. Safe in a child of fork and vfork. */
static void exec_as(const char *purpose, unsigned number)
{
	char text[16];
	char *again[] = { arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5],
			  (char *)purpose, text, NULL };

	snprintf(text, sizeof text, "%u", number);
	execv("/proc/thread-self/exe", again); /* the leader may be a zombie */;
	_exit(96);
}

/* A child owns nothing; what it frees of its parent's is not freed. */
static void child(uint64_t random)
{
	struct counts counts = { 0 };

	allocator_free_stranger(slots, &counts);
	memset(slots, 0, sizeof slots);
	for (unsigned i = 0; i < CHILD_STEPS; i++)
		allocator_step(slots, &counts, &random);
	if (counts.wrong)
		_exit(95);
	switch (random_below(&random, 4)) {
	case 0:
		exit(0);
	case 1:
		_exit(0);
	case 2:
		kill(getpid(), SIGKILL);
	}
	exec_as("once", CHILD_STEPS);
}

static void remember_child(pid_t pid)
{
	int n = atomic_fetch_add(&child_count, 1);

	if (n < CHILDREN)
		children[n] = pid;
}

static void fork_child(uint64_t random, bool is_orphan)
{
	pid_t pid = fork();

	if (!pid && is_orphan && fork())
		_exit(0);
	if (!pid)
		child(random);
	if (pid > 0)
		remember_child(pid);
}

static void happen(struct thread *t)
{
	pid_t pid;

	switch (t->event) {
	case FORK:
	case ORPHAN:
		fork_child(t->random, t->event == ORPHAN);
		break;
	case VFORK_EXEC:
		pid = vfork();
		if (!pid)
			exec_as("once", CHILD_STEPS);
		remember_child(pid);
		break;
	case EXEC:
		exec_as("quiet", round_number);
		break;
	case EXIT:
		exit(0);
	case QUICK_EXIT:
		_exit(0);
	case KILL:
		kill(getpid(), SIGKILL);
		break;
	case THREAD_EXIT:
		pthread_exit(NULL);
	default:
		break;
	}
}

static void *fight(void *argument)
{
	struct thread *t = argument;

	for (unsigned i = 0; i < steps; i++) {
		if (i == t->when)
			happen(t);
		allocator_step(slots, &t->counts, &t->random);
	}
	return NULL;
}

static void add(const struct counts *c)
{
	total.operations += c->operations;
	total.granted += c->granted;
	total.refused += c->refused;
	total.injected += c->injected;
	total.wrong += c->wrong;
	if (c->longest_us > total.longest_us)
		total.longest_us = c->longest_us;
}

static void wait_for_children(void)
{
	int n = atomic_load(&child_count), status;

	for (int i = 0; i < n && i < CHILDREN; i++) {
		while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
			;
		if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) {
			fprintf(stderr, "soldier: a child ended with status 0x%x\n", (unsigned)status);
			total.wrong++;
		}
	}
	atomic_store(&child_count, 0);
}

static void say_quiet(bool is_new)
{
	uint64_t held[DEVICES] = { 0 }, managed[DEVICES] = { 0 };

	allocator_trim();
	allocator_held(slots, held, managed);
	printf("quiet %u %d %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu\n", round_number, is_new, total.operations, total.granted,
	       total.refused, total.injected, total.wrong, total.longest_us, held[0], held[1], managed[0], managed[1]);
}

static void go(void)
{
	static struct thread threads[THREADS];
	uint64_t random = mix(seed, round_number);

	for (unsigned i = 0; i < thread_count; i++) {
		threads[i] = (struct thread){ .random = mix(random, i), .when = steps };
		if (i == 0 && random_below(&random, 2)) {
			threads[i].event = (enum event)random_below(&random, EVENTS);
			threads[i].when = random_below(&random, steps);
		}
	}
	for (unsigned i = 0; i < thread_count; i++)
		pthread_create(&threads[i].id, NULL, fight, &threads[i]);
	for (unsigned i = 0; i < thread_count; i++) {
		pthread_join(threads[i].id, NULL);
		add(&threads[i].counts);
	}
	wait_for_children();
	if (!random_below(&random, 16))
		allocator_reset(slots, &total, (int)random_below(&random, DEVICES));
	say_quiet(false);
}

static void probe(int device, uint64_t size)
{
	int result[2];

	allocator_probe(device, size, &total, result);
	printf("probe %d %d %lu\n", result[0], result[1], total.refused);
}

static void *obey(void *unused)
{
	char line[128];
	uint64_t size;
	int device;

	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "go %u %u", &round_number, &steps) == 2)
			go();
		else if (sscanf(line, "probe %d %lu", &device, &size) == 2)
			probe(device, size);
		fflush(stdout);
	}
	exit(0);
	return unused;
}

static void once(unsigned count)
{
	uint64_t random = mix(seed, (uint64_t)getpid());

	for (unsigned i = 0; i < count; i++)
		allocator_step(slots, &total, &random);
	exit(total.wrong ? 95 : 0);
}

int main(int count, char **argument)
{
	uint64_t limit[DEVICES];
	const char *error;
	pthread_t thread;

	if (count < 6)
		return 94;
	arguments = argument;
	seed = strtoull(argument[2], NULL, 10);
	thread_count = (unsigned)atoi(argument[3]);
	for (int i = 0; i < DEVICES; i++)
		limit[i] = strtoull(argument[4 + i], NULL, 10);
	if ((error = allocator_init(argument[1], limit))) {
		fprintf(stderr, "soldier: no runtime: %s\n", error);
		return 93;
	}
	if (count > 7 && !strcmp(argument[6], "once"))
		once((unsigned)atoi(argument[7]));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (count > 7) {
		round_number = (unsigned)atoi(argument[7]);
		say_quiet(true);
		fflush(stdout);
	}
	if (seed % 4)
		obey(NULL);
	pthread_create(&thread, NULL, obey, NULL); /* a process whose first thread has ended lives on */
	pthread_exit(NULL);
}
