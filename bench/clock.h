/* Time, and what to make of many measurements of it. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts; share 0.5 is the median. */
static inline double quantile(double *values, size_t count, double share)
{
	size_t place = (size_t)(share * (double)(count - 1) + 0.5);

	qsort(values, count, sizeof *values, compare_doubles);
	return count ? values[place] : 0;
}

static inline double median(double *values, size_t count)
{
	return quantile(values, count, 0.5);
}

#endif
