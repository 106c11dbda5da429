/* The calls that are timed, with the library and without. */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include "../src/hip/hip_abi.h"
#include "flip.h"

#define CALLS(CALL)                                                                                                    \
	CALL(hipMalloc, (void **, size_t))                                                                             \
	CALL(hipFree, (void *))                                                                                        \
	CALL(hipMallocAsync, (void **, size_t, hipStream_t))                                                           \
	CALL(hipFreeAsync, (void *, hipStream_t))                                                                      \
	CALL(hipMemCreate,                                                                                             \
	     (hipMemGenericAllocationHandle_t *, size_t, const hipMemAllocationProp *, unsigned long long))            \
	CALL(hipMemRelease, (hipMemGenericAllocationHandle_t))                                                         \
	CALL(hipMemGetInfo, (size_t *, size_t *))                                                                      \
	CALL(hipGetDevice, (int *))

struct calls {
	size_t too_much; /* what hipMalloc refuses here */
#define CALL(name, params) hipError_t(*name) params;
	CALLS(CALL)
#undef CALL
};

/* One thing a program does. False: it failed, and the figure would be of something else. */
struct operation {
	const char *name;
	bool (*once)(const struct calls *calls);
	bool is_in_all_releases;
};
extern const struct operation operations[];
extern size_t bench_size; /* bytes of one allocation */

/* Loads the runtime at path. Under the limit of BENCH_LIMIT bytes. False with a line on stderr. */
bool calls_load(struct calls calls[FLIP_MODES], const char *runtime, const char *library);

#endif
