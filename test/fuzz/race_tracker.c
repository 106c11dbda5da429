/* Threads that put, find, count and take in one tracker: for the thread sanitizer.
 *
 *	gcc -O1 -g -fsanitize=thread -pthread test/fuzz/race_tracker.c -o race && ./race
 */
#include <pthread.h>
#include <stdio.h>

#include "../../src/sys/mem.c"
#include "../../src/hip/alloc_tracker.c"

enum { THREADS = 8, ROUNDS = 20000, OWN = 64 };

static struct tracker *tracker;
static int wrong[THREADS];

static void *run(void *argument)
{
	unsigned me = (unsigned)(uintptr_t)argument;

	for (unsigned i = 0; i < ROUNDS; i++) {
		const void *key = (const void *)(uintptr_t)(((i % OWN) * THREADS + me + 1) << 12);
		struct tracked value = { .size = i + 1, .device = (uint8_t)me, .class = TRACK_POINTER }, found;

		wrong[me] += !tracker_put(tracker, key, value);
		wrong[me] += !tracker_find(tracker, key, TRACK_FREEABLE, &found) || found.size != i + 1;
		wrong[me] += !tracker_count(tracker);
		wrong[me] += !tracker_take(tracker, key, TRACK_FREEABLE, &found) || found.device != me;
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	int sum = 0;

	tracker = tracker_new();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		sum += wrong[i];
	}
	printf("%d wrong\n", sum);
	return sum || tracker_count(tracker);
}
