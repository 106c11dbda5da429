/* Every allocator and every way of giving back, at random. See soldier.h.
 *
 * All sizes are whole pages and those from pools powers of two, so that the card takes exactly what was asked for.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "../../src/hip/hip_abi.h"
#include "soldier.h"

#define FUNCTIONS(F)                                                                                                   \
	F(hipSetDevice, (int))                                                                                         \
	F(hipMemGetInfo, (size_t *, size_t *))                                                                         \
	F(hipDeviceReset, (void))                                                                                      \
	F(hipDeviceSynchronize, (void))                                                                                \
	F(hipDeviceGetDefaultMemPool, (void **, int))                                                                  \
	F(hipMemPoolTrimTo, (void *, size_t))                                                                          \
	F(hipMalloc, (void **, size_t))                                                                                \
	F(hipExtMallocWithFlags, (void **, size_t, unsigned))                                                          \
	F(hipMallocManaged, (void **, size_t, unsigned))                                                               \
	F(hipMallocPitch, (void **, size_t *, size_t, size_t))                                                         \
	F(hipMemAllocPitch, (void **, size_t *, size_t, size_t, unsigned))                                             \
	F(hipMalloc3D, (hipPitchedPtr *, hipExtent))                                                                   \
	F(hipMallocArray, (void **, const hipChannelFormatDesc *, size_t, size_t, unsigned))                           \
	F(hipMalloc3DArray, (void **, const hipChannelFormatDesc *, hipExtent, unsigned))                              \
	F(hipArrayCreate, (void **, const HIP_ARRAY_DESCRIPTOR *))                                                     \
	F(hipMemCreate, (void **, size_t, const void *, unsigned long long))                                           \
	F(hipMemAddressReserve, (void **, size_t, size_t, void *, unsigned long long))                                 \
	F(hipMemAddressFree, (void *, size_t))                                                                         \
	F(hipMemMap, (void *, size_t, size_t, void *, unsigned long long))                                             \
	F(hipMemUnmap, (void *, size_t))                                                                               \
	F(hipMallocAsync, (void **, size_t, void *))                                                                   \
	F(hipMallocFromPoolAsync, (void **, size_t, void *, void *))                                                   \
	F(hipFree, (void *))                                                                                           \
	F(hipFreeAsync, (void *, void *))                                                                              \
	F(hipHostFree, (void *))                                                                                       \
	F(hipFreeArray, (void *))                                                                                      \
	F(hipArrayDestroy, (void *))                                                                                   \
	F(hipMemRelease, (void *))

#define F(name, params) static int(*name) params;
FUNCTIONS(F)
#undef F

static uint64_t limits[DEVICES];
static bool is_5; /* which cannot map handles */
static bool is_7; /* whose hipDeviceReset takes handles too */

/* ---- taking: each answers the runtime's error, and *size is what the card takes ---- */

static int take_malloc(struct slot *s)
{
	return hipMalloc(&s->key, s->size);
}

static int take_ext(struct slot *s)
{
	return hipExtMallocWithFlags(&s->key, s->size, 1);
}

static int take_managed(struct slot *s)
{
	return hipMallocManaged(&s->key, s->size, 1);
}

static int take_pitch(struct slot *s)
{
	size_t pitch;

	return hipMallocPitch(&s->key, &pitch, PAGE, s->size / PAGE);
}

static int take_mem_pitch(struct slot *s)
{
	size_t pitch;

	return hipMemAllocPitch(&s->key, &pitch, PAGE, s->size / PAGE, 4);
}

static int take_3d(struct slot *s)
{
	hipPitchedPtr pitched = { 0 };
	int error = hipMalloc3D(&pitched, (hipExtent){ PAGE, s->size / PAGE, 1 });

	s->key = pitched.ptr;
	return error;
}

static const hipChannelFormatDesc float_texel = { 32, 0, 0, 0, 2 };

static int take_array(struct slot *s)
{
	return hipMallocArray(&s->key, &float_texel, PAGE / 4, s->size / PAGE, 0);
}

static int take_array_3d(struct slot *s)
{
	return hipMalloc3DArray(&s->key, &float_texel, (hipExtent){ PAGE / 4, s->size / PAGE, 1 }, 0);
}

static int take_array_create(struct slot *s)
{
	HIP_ARRAY_DESCRIPTOR d = { PAGE / 4, s->size / PAGE, 0x20, 1 };

	return hipArrayCreate(&s->key, &d);
}

static int take_handle(struct slot *s)
{
	hipMemAllocationProp prop = { .type = 1, .location = { 1, s->device } };

	return hipMemCreate(&s->key, s->size, &prop, 0);
}

static int take_mapped(struct slot *s)
{
	int error = take_handle(s);

	if (error)
		return error;
	if (!hipMemAddressReserve(&s->address, s->size, 0, NULL, 0) && !hipMemMap(s->address, s->size, 0, s->key, 0))
		return 0;
	hipMemRelease(s->key);
	return -1;
}

static int take_async(struct slot *s)
{
	return hipMallocAsync(&s->key, s->size, NULL);
}

static int take_from_pool(struct slot *s)
{
	void *pool;
	int error = hipDeviceGetDefaultMemPool(&pool, s->device);

	return error ? error : hipMallocFromPoolAsync(&s->key, s->size, pool, NULL);
}

/* ---- giving back ---- */

static int give_linear(struct slot *s, unsigned way)
{
	switch (way % 4) {
	case 0:
		return hipHostFree(s->key);
	case 1:
		return hipFree((char *)s->key + s->size / 2); /* an interior pointer frees its block */
	case 2:
		return s->device == POOLED ? hipFreeAsync(s->key, NULL) : hipFree(s->key);
	default:
		return hipFree(s->key);
	}
}

static int give_managed(struct slot *s, unsigned way)
{
	(void)way;
	return hipFree(s->key);
}

static int give_pooled(struct slot *s, unsigned way)
{
	return way % 2 ? hipFree(s->key) : hipFreeAsync(s->key, NULL);
}

static int give_array(struct slot *s, unsigned way)
{
	return way % 2 ? hipFreeArray(s->key) : hipArrayDestroy(s->key);
}

static int give_handle(struct slot *s, unsigned way)
{
	(void)way;
	return hipMemRelease(s->key);
}

/* The memory goes with the last of the two, in either order. */
static int give_mapped(struct slot *s, unsigned way)
{
	int error = way % 2 ? hipMemRelease(s->key) : 0;

	if (!error)
		error = hipMemUnmap(s->address, s->size);
	if (!error && way % 2 == 0)
		error = hipMemRelease(s->key);
	hipMemAddressFree(s->address, s->size);
	return error;
}

static const struct allocator {
	int (*take)(struct slot *);
	int (*give)(struct slot *, unsigned way);
	bool is_pooled, is_managed, goes_at_reset, goes_at_reset_of_7;
} allocators[] = {
	{ take_malloc, give_linear, .goes_at_reset = true },
	{ take_ext, give_linear, .goes_at_reset = true },
	{ take_pitch, give_linear, .goes_at_reset = true },
	{ take_mem_pitch, give_linear, .goes_at_reset = true },
	{ take_3d, give_linear, .goes_at_reset = true },
	{ take_managed, give_managed, .is_managed = true },
	{ take_array, give_array },
	{ take_array_3d, give_array },
	{ take_array_create, give_array },
	{ take_handle, give_handle, .goes_at_reset_of_7 = true },
	{ take_mapped, give_mapped, .goes_at_reset_of_7 = true },
	{ take_async, give_pooled, .is_pooled = true, .goes_at_reset = true },
	{ take_from_pool, give_pooled, .is_pooled = true, .goes_at_reset = true },
};

enum { ALLOCATORS = sizeof allocators / sizeof *allocators };

const char *allocator_init(const char *runtime, const uint64_t limit[DEVICES])
{
	void *handle = dlopen(runtime, RTLD_NOW);

	if (!handle)
		return dlerror();
#define F(name, params)                                                                                                \
	if (!(name = (int(*) params)dlsym(handle, #name)))                                                             \
		return #name;
	FUNCTIONS(F)
#undef F
	is_5 = !dlsym(handle, "hipGetProcAddress");
	is_7 = dlsym(handle, "hipMemPrefetchAsync_v2");
	for (int i = 0; i < DEVICES; i++)
		limits[i] = limit[i];
	return NULL;
}

unsigned random_below(uint64_t *random, unsigned n)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (unsigned)((*random >> 11) % n);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void note_time(struct counts *counts, uint64_t begin)
{
	uint64_t took = now_us() - begin;

	counts->operations++;
	if (took > counts->longest_us)
		counts->longest_us = took;
}

static void complain(struct counts *counts, const char *what, int value)
{
	counts->wrong++;
	fprintf(stderr, "soldier: %s: %d\n", what, value);
}

static void take(struct slot *s, struct counts *counts, uint64_t *random)
{
	const struct allocator *a;
	uint64_t begin;
	int error;

	s->device = (int)random_below(random, DEVICES);
	do
		a = &allocators[random_below(random, ALLOCATORS)];
	while ((a->is_pooled && s->device != POOLED) || (a->take == take_mapped && is_5));
	s->allocator = a;
	s->size = (size_t)PAGE << random_below(random, 11);
	if (!a->is_pooled)
		s->size += PAGE * random_below(random, 8);
	hipSetDevice(s->device);
	begin = now_us();
	error = a->take(s);
	note_time(counts, begin);
	counts->granted += !error;
	counts->refused += error == OUT_OF_MEMORY;
	counts->injected += error == INJECTED;
	if (error && error != OUT_OF_MEMORY && error != INJECTED)
		complain(counts, "an allocation says", error);
	atomic_store(&s->state, error ? SLOT_EMPTY : SLOT_FULL);
}

static void give(struct slot *s, struct counts *counts, uint64_t *random)
{
	uint64_t begin = now_us();
	int error = s->allocator->give(s, random_below(random, 16));

	note_time(counts, begin);
	counts->injected += error == INJECTED;
	if (error && error != INJECTED)
		complain(counts, "a free says", error);
	atomic_store(&s->state, error ? SLOT_FULL : SLOT_EMPTY);
}

static void look(struct counts *counts, uint64_t *random)
{
	int device = (int)random_below(random, DEVICES);
	size_t left = 0, total = 0;
	uint64_t begin;
	int error;

	hipSetDevice(device);
	begin = now_us();
	error = hipMemGetInfo(&left, &total);
	note_time(counts, begin);
	if (error || total != limits[device] || left > total)
		complain(counts, "hipMemGetInfo is wrong", error);
}

static void free_nothing(struct counts *counts)
{
	static char mine;

	counts->operations++;
	if (!hipFree(&mine))
		complain(counts, "memory that is not the card's was freed", 0);
}

void allocator_step(struct slot *slots, struct counts *counts, uint64_t *random)
{
	unsigned what = random_below(random, 32);
	struct slot *s = &slots[random_below(random, SLOTS)];
	int empty = SLOT_EMPTY, full = SLOT_FULL;

	if (what == 0)
		look(counts, random);
	else if (what == 1)
		free_nothing(counts);
	else if (atomic_compare_exchange_strong(&s->state, &empty, SLOT_BUSY))
		take(s, counts, random);
	else if (atomic_compare_exchange_strong(&s->state, &full, SLOT_BUSY))
		give(s, counts, random);
}

void allocator_free_stranger(const struct slot *slots, struct counts *counts)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		if (slots[i].state == SLOT_FULL && slots[i].allocator->give == give_linear) {
			if (!hipFree(slots[i].key))
				complain(counts, "a child freed what is its parent's", 0);
			return;
		}
	}
}

void allocator_probe(int device, uint64_t size, struct counts *counts, int result[2])
{
	void *rest = NULL, *more = NULL;

	hipSetDevice(device);
	result[0] = size ? hipExtMallocWithFlags(&rest, size, 1) : 0;
	result[1] = hipExtMallocWithFlags(&more, PAGE, 1);
	counts->refused += (result[0] == OUT_OF_MEMORY) + (result[1] == OUT_OF_MEMORY);
	if (!result[1])
		hipFree(more);
	if (rest && !result[0])
		hipFree(rest);
}

void allocator_trim(void)
{
	void *pool;

	hipSetDevice(POOLED);
	hipDeviceSynchronize();
	if (!hipDeviceGetDefaultMemPool(&pool, POOLED))
		hipMemPoolTrimTo(pool, 0);
}

void allocator_reset(struct slot *slots, struct counts *counts, int device)
{
	int error;

	hipSetDevice(device);
	if ((error = hipDeviceReset()))
		complain(counts, "hipDeviceReset says", error);
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct allocator *a = slots[i].allocator;

		if (slots[i].state == SLOT_FULL && slots[i].device == device &&
		    (a->goes_at_reset || (is_7 && a->goes_at_reset_of_7)))
			slots[i].state = SLOT_EMPTY;
	}
}

void allocator_held(const struct slot *slots, uint64_t held[DEVICES], uint64_t managed[DEVICES])
{
	for (unsigned i = 0; i < SLOTS; i++) {
		if (slots[i].state != SLOT_FULL)
			continue;
		held[slots[i].device] += slots[i].size;
		managed[slots[i].device] += slots[i].allocator->is_managed ? slots[i].size : 0;
	}
}
