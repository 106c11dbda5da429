/* See calls.h. */
#include "calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

size_t bench_size = 4096;

static bool pair(const struct calls *c)
{
	void *p = NULL;

	return c->hipMalloc(&p, bench_size) == hipSuccess && c->hipFree(p) == hipSuccess;
}

static bool pair_async(const struct calls *c)
{
	void *p = NULL;

	return c->hipMallocAsync(&p, bench_size, NULL) == hipSuccess && c->hipFreeAsync(p, NULL) == hipSuccess;
}

static bool create(const struct calls *c)
{
	enum { PINNED = 1, CHUNK = 2 << 20 };
	static const hipMemAllocationProp prop = { .type = PINNED, .location = { .type = hipMemLocationTypeDevice } };
	hipMemGenericAllocationHandle_t handle = NULL;

	return c->hipMemCreate(&handle, CHUNK, &prop, 0) == hipSuccess && c->hipMemRelease(handle) == hipSuccess;
}

static bool info(const struct calls *c)
{
	size_t left, total;

	return c->hipMemGetInfo(&left, &total) == hipSuccess;
}

static bool refused(const struct calls *c)
{
	void *p = NULL;

	return c->hipMalloc(&p, c->too_much) == hipErrorOutOfMemory;
}

static bool unwrapped(const struct calls *c)
{
	int device;

	return c->hipGetDevice(&device) == hipSuccess;
}

const struct operation operations[] = {
	{ "hipMalloc+hipFree", pair, true },
	{ "hipMallocAsync+hipFreeAsync", pair_async, true },
	{ "hipMemCreate+hipMemRelease", create, false }, /* 5.2.3 wants another structure */
	{ "hipMemGetInfo", info, true },
	{ "refused hipMalloc", refused, true },
	{ "hipGetDevice (un-wrapped)", unwrapped, true },
	{ NULL },
};

bool calls_load(struct calls calls[FLIP_MODES], const char *runtime, const char *library)
{
	void *handle = dlopen(runtime, RTLD_NOW | RTLD_GLOBAL);
	int found;

	if (!handle) {
		fprintf(stderr, "cost: %s\n", dlerror());
		return false;
	}
	found = flip_init(library);
	if (found <= 0)
		fprintf(stderr, "cost: %s %s\n", library, found ? "is not loaded" : "has bound nothing");
#define CALL(name, params)                                                                                             \
	calls[FLIP_WITHOUT].name = (hipError_t(*) params)flip_original(#name);                                        \
	calls[FLIP_WITH].name = (hipError_t(*) params)dlsym(handle, #name);                                           \
	if (!calls[FLIP_WITH].name || !calls[FLIP_WITHOUT].name) {                                                    \
		fprintf(stderr, "cost: no " #name "\n");                                                               \
		return false;                                                                                          \
	}
	CALLS(CALL)
#undef CALL
	calls[FLIP_WITHOUT].too_much = (size_t)1 << 50; /* more than any card: the runtime itself refuses */
	calls[FLIP_WITH].too_much = strtoull(getenv("BENCH_LIMIT"), NULL, 0); /* does not fit: something is live */
	if (calls[FLIP_WITH].hipMalloc == calls[FLIP_WITHOUT].hipMalloc) {
		fprintf(stderr, "cost: hipMalloc is not wrapped; was LD_AUDIT set, and a limit?\n");
		return false;
	}
	return found > 0;
}
