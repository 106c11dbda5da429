/* A HIP program, linked as programs are: takes and gives back 1 MiB. "linked calls": ns of an un-wrapped call through the PLT. */
#include <stdio.h>

#include "../../src/hip/hip_abi.h"
#include "../clock.h"

hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipGetDevice(int *);

static int time_calls(void)
{
	enum { BATCHES = 300, CALLS = 1000 };
	double ns[BATCHES];
	int device;

	for (unsigned i = 0; i < BATCHES; i++) {
		double start = now_ns();

		for (unsigned k = 0; k < CALLS; k++)
			hipGetDevice(&device);
		ns[i] = (now_ns() - start) / CALLS;
	}
	printf("%.3f\n", median(ns, BATCHES));
	return 0;
}

int main(int argc, char **argv)
{
	void *p;

	(void)argv;
	if (argc > 1)
		return time_calls();
	return hipMalloc(&p, 1 << 20) != hipSuccess || hipFree(p) != hipSuccess;
}
