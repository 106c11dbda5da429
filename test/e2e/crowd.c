/* A program of many devices or many threads. HIPSH_RUNTIME names the runtime.
 *
 *	crowd devices        fills every device with blocks of a MiB; says how many fitted, and what the next call says
 *	crowd threads N      N threads, 16 at a time, allocate a KiB each and end; the main thread frees every second block
 *	crowd ask N          N threads ask hipMemGetInfo 20,000 times each; says how often one of them had to wait
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MIB = 1 << 20, AT_ONCE = 16, MOST = 10240, ASKED = 20000 };

static int (*take)(void **, size_t), (*give)(void *), (*count_devices)(int *), (*set_device)(int), (*ask)(size_t *, size_t *);
static void *blocks[MOST];

static void devices(void)
{
	int count = 0, error;
	void *block;

	count_devices(&count);
	for (int i = 0; i < count; i++) {
		size_t fitted = 0, left, total;

		if (set_device(i))
			printf("device %d: cannot be set\n", i);
		while (!(error = take(&block, MIB)))
			fitted++;
		ask(&left, &total);
		printf("%zu %d %zu %zu\n", fitted, error, left, total);
	}
}

static void *allocate(void *block)
{
	return (void *)(long)take(block, 1024);
}

static void threads(int count)
{
	pthread_t thread[AT_ONCE];
	size_t left, total;
	long failed = 0;

	for (int n = 0; n < count; n += AT_ONCE) {
		void *result;

		for (int i = 0; i < AT_ONCE; i++)
			failed += pthread_create(&thread[i], NULL, allocate, &blocks[n + i]);
		for (int i = 0; i < AT_ONCE; i++) {
			pthread_join(thread[i], &result);
			failed += (long)result;
		}
	}
	for (int n = 0; n < count; n += 2)
		failed += give(blocks[n]);
	ask(&left, &total);
	printf("%ld %zu\n", failed, total - left);
}

static void *ask_often(void *waits)
{
	struct rusage before, after;
	size_t left, total;

	getrusage(RUSAGE_THREAD, &before);
	for (int i = 0; i < ASKED; i++)
		ask(&left, &total);
	getrusage(RUSAGE_THREAD, &after);
	*(long *)waits = after.ru_nvcsw - before.ru_nvcsw;
	return NULL;
}

static void questions(int count)
{
	pthread_t thread[AT_ONCE];
	long waits[AT_ONCE], all = 0;

	for (int i = 0; i < count; i++)
		pthread_create(&thread[i], NULL, ask_often, &waits[i]);
	for (int i = 0; i < count; i++) {
		pthread_join(thread[i], NULL);
		all += waits[i];
	}
	printf("%ld\n", all);
}

int main(int argc, char **argv)
{
	void *runtime = dlopen(getenv("HIPSH_RUNTIME"), RTLD_NOW);
	const char *what = argc > 1 ? argv[1] : "devices";
	int count = argc > 2 ? atoi(argv[2]) : AT_ONCE;

	if (!runtime || count < 1 || count > (strcmp(what, "ask") ? MOST : AT_ONCE) || (!strcmp(what, "threads") && count % AT_ONCE))
		return 2;
	*(void **)&take = dlsym(runtime, "hipMalloc");
	*(void **)&give = dlsym(runtime, "hipFree");
	*(void **)&count_devices = dlsym(runtime, "hipGetDeviceCount");
	*(void **)&set_device = dlsym(runtime, "hipSetDevice");
	*(void **)&ask = dlsym(runtime, "hipMemGetInfo");
	if (!strcmp(what, "devices"))
		devices();
	else if (!strcmp(what, "threads"))
		threads(count);
	else
		questions(count);
	return 0;
}
