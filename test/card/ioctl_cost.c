/* What the wrapper adds to an ioctl that is none of ours, and to close(): "name same=0 added_ns bare_ns", medians of interleaved
 * batches. Arguments: where libc's file has ioctl and close, since every lookup at run time finds the wrapper. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 301, CALLS = 2000 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double batch(int (*f)(int, unsigned long, void *), unsigned long command)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		f(-1, command, NULL);
	return (now() - start) / CALLS;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *name, const char *offset, unsigned long command)
{
	int (*wrapped)(int, unsigned long, void *) = (int (*)(int, unsigned long, void *))dlsym(RTLD_DEFAULT, name);
	int (*bare)(int, unsigned long, void *);
	static double added[BATCHES], cost[BATCHES];

	Dl_info libc;

	dladdr(dlsym(RTLD_DEFAULT, "printf"), &libc);
	bare = (int (*)(int, unsigned long, void *))((char *)libc.dli_fbase + strtoull(offset, NULL, 16));
	for (int i = 0; i < BATCHES; i++) {
		double first = batch(i % 2 ? bare : wrapped, command), second = batch(i % 2 ? wrapped : bare, command);

		cost[i] = i % 2 ? first : second;
		added[i] = (i % 2 ? second : first) - cost[i];
	}
	qsort(added, BATCHES, sizeof *added, by_value);
	qsort(cost, BATCHES, sizeof *cost, by_value);
	printf("%s:%#lx same=%d %.2f %.2f\n", name, command, wrapped == bare, added[BATCHES / 2], cost[BATCHES / 2]);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	measure("ioctl", argv[1], 0x541b);	 /* FIONREAD */
	measure("ioctl", argv[1], 0x4b33);	 /* KDGKBTYPE: KFD's letter */
	measure("ioctl", argv[1], 0xc0086401); /* DRM's letter, none that is counted */
	measure("close", argv[2], 0);
	return 0;
}
