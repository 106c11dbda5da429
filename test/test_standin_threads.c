/* Six threads that take and give of every kind, for the thread sanitizer: the stand-in must not be what races
 * in a test. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int hipMalloc(void **ptr, size_t size);
int hipFree(void *ptr);
int hipMallocAsync(void **ptr, size_t size, void *stream);
int hipFreeAsync(void *ptr, void *stream);
int hipDeviceSynchronize(void);
int hipStreamCreate(void **stream);
int hipStreamDestroy(void *stream);

enum { THREADS = 6, ROUNDS = 100, BLOCKS = 32 };

static void take_and_give(void *stream, unsigned *seed)
{
	void *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		size_t size = ((size_t)1 << (rand_r(seed) % 24)) + 1;

		if (i & 1 ? hipMalloc(&blocks[i], size) : hipMallocAsync(&blocks[i], size, stream))
			abort();
		*(volatile char *)blocks[i] = 1;
	}
	for (int i = 0; i < BLOCKS; i++)
		if (i & 2 ? hipFree(blocks[i]) : hipFreeAsync(blocks[i], stream))
			abort();
}

static void *work(void *data)
{
	unsigned seed = (unsigned)(size_t)data;
	void *stream;

	for (int round = 0; round < ROUNDS; round++) {
		if (hipStreamCreate(&stream))
			abort();
		take_and_give(stream, &seed);
		if (round % 8 == 0)
			hipDeviceSynchronize();
		hipStreamDestroy(stream);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("1 passed, 0 failed");
	return 0;
}
