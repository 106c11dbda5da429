/* The stand-in's linear memory, arrays, errors and reports, against what was found out about the real
 * releases. */
#include <pthread.h>

#include "test_standin.h"

hipError_t hipHostMalloc(void **ptr, size_t size, unsigned flags);
hipError_t hipMemAllocHost(void **ptr, size_t size);
hipError_t hipMemPtrGetInfo(void *ptr, size_t *size);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t ptr);
hipError_t hipMemset(void *to, int value, size_t size);
hipError_t hipMemcpy(void *to, const void *from, size_t size, int kind);
hipError_t hipDevicePrimaryCtxReset(hipDevice_t device);
hipError_t hipCtxPopCurrent(void **context);
hipError_t hipCtxPushCurrent(void *context);
hipError_t hipDevicePrimaryCtxRetain(void **context, hipDevice_t device);

#define UNTOUCHED ((void *)0x77)

TEST(an_allocation_takes_its_size_rounded_to_pages_and_its_free_gives_them_back)
{
	uint64_t before = held(), free_before = free_memory();
	void *p;

	OK(hipMalloc(&p, 5000));
	CHECK_EQ(held() - before, 8192);
	CHECK_EQ(free_before - free_memory(), 8192);
	memset(p, 1, 5000);
	OK(hipFree(p));
	CHECK_EQ(held(), before);
	CHECK_EQ(free_memory(), free_before);
}

TEST(twelve_gibibytes_can_be_had_and_touched_in_places)
{
	char *p;

	OK(hipMalloc((void **)&p, 12 * GIB));
	CHECK_EQ(held(), 12 * GIB);
	p[0] = 1;
	p[12 * GIB - 1] = 2;
	CHECK_EQ(p[0] + p[12 * GIB - 1], 3);
	OK(hipFree(p));
}

TEST(nothing_is_asked_for_and_nothing_is_given)
{
	void *p = UNTOUCHED;

	OK(hipMalloc(&p, 0));
	CHECK(!p);
	CHECK_EQ(hipMalloc(NULL, 1), hipErrorInvalidValue);
	OK(hipFree(NULL));
}

TEST(a_size_beyond_the_whole_device_is_refused_and_the_pointer_left_alone)
{
	void *p = UNTOUCHED;

	CHECK_EQ(hipMalloc(&p, 17 * GIB), hipErrorOutOfMemory);
	CHECK(p == UNTOUCHED);
	CHECK_EQ(hipGetLastError(), hipErrorOutOfMemory);
	CHECK_EQ(hipGetLastError(), hipSuccess);
}

TEST(memory_that_ran_out_is_refused_and_the_pointer_becomes_null)
{
	void *p, *q = UNTOUCHED;
	uint64_t before;

	OK(hipMalloc(&p, 10 * GIB));
	before = held();
	CHECK_EQ(hipMalloc(&q, 7 * GIB), hipErrorOutOfMemory);
	CHECK(!q);
	CHECK_EQ(held(), before);
	OK(hipFree(p));
}

TEST(the_impossible_size_provokes_the_last_error_with_no_side_effect)
{
	uint64_t before = held();
	void *p = UNTOUCHED;

	CHECK_EQ(hipExtMallocWithFlags(&p, 1ULL << 62, 0), hipErrorOutOfMemory);
	CHECK(p == UNTOUCHED);
	CHECK_EQ(held(), before);
	CHECK_EQ(hipPeekAtLastError(), hipErrorOutOfMemory);
	CHECK_EQ(hipGetLastError(), hipErrorOutOfMemory);
	CHECK_EQ(hipPeekAtLastError(), hipSuccess);
}

TEST(a_success_clears_the_last_error_up_to_6_4_and_not_in_7_2)
{
	void *p;
	int device;

	CHECK_EQ(hipMalloc(&p, 17 * GIB), hipErrorOutOfMemory);
	OK(hipGetDevice(&device));
	CHECK_EQ(hipPeekAtLastError(), release() < 70 ? hipSuccess : hipErrorOutOfMemory);
	hipGetLastError();
}

TEST(an_interior_pointer_frees_the_whole_block)
{
	uint64_t before = held();
	char *p;

	OK(hipMalloc((void **)&p, 8192));
	OK(hipFree(p + 100));
	CHECK_EQ(held(), before);
	OK(hipMalloc((void **)&p, 300 * MIB));
	OK(hipFree(p + 299 * MIB));
	CHECK_EQ(held(), before);
}

TEST(an_unknown_or_freed_pointer_is_refused)
{
	int on_the_stack;
	void *p;

	CHECK_EQ(hipFree(&on_the_stack), hipErrorInvalidValue);
	OK(hipMalloc(&p, 100));
	OK(hipFree(p));
	CHECK_EQ(hipFree(p), hipErrorInvalidValue);
	OK(hipMalloc(&p, 64 * MIB));
	OK(hipFree(p));
	CHECK_EQ(hipFree(p), hipErrorInvalidValue);
	hipGetLastError();
}

TEST(every_free_frees_every_kind_of_linear_memory)
{
	hipError_t (*const frees[])(void *) = {hipFree, hipHostFree, hipFreeHost};

	for (int i = 0; i < 3; i++) {
		uint64_t before = held(), host_before = held_on(STATE_HOST);
		void *device, *host;

		OK(hipMalloc(&device, MIB));
		OK(hipHostMalloc(&host, MIB, 0));
		CHECK_EQ(held() - before, MIB);
		CHECK_EQ(held_on(STATE_HOST) - host_before, MIB);
		OK(frees[i](device));
		OK(frees[i](host));
		CHECK_EQ(held(), before);
		CHECK_EQ(held_on(STATE_HOST), host_before);
	}
}

TEST(memory_is_given_back_to_its_own_device_whatever_the_current_one_is)
{
	uint64_t before[2] = {held_on(0), held_on(1)};
	void *p;

	OK(hipSetDevice(1));
	OK(hipMalloc(&p, MIB));
	CHECK_EQ(held_on(1) - before[1], MIB);
	OK(hipSetDevice(0));
	OK(hipFree(p));
	CHECK_EQ(held_on(0), before[0]);
	CHECK_EQ(held_on(1), before[1]);
}

static void *device_of_a_thread(void *device)
{
	hipGetDevice(device);
	return NULL;
}

TEST(a_new_thread_starts_on_device_0)
{
	pthread_t thread;
	int device = -1;

	OK(hipSetDevice(1));
	pthread_create(&thread, NULL, device_of_a_thread, &device);
	pthread_join(thread, NULL);
	CHECK_EQ(device, 0);
	OK(hipSetDevice(0));
	CHECK_EQ(hipSetDevice(2), hipErrorInvalidDevice);
}

TEST(popping_a_context_does_not_bring_the_device_back)
{
	void *context;
	int device;

	OK(hipSetDevice(0));
	OK(hipDevicePrimaryCtxRetain(&context, 1));
	OK(hipCtxPushCurrent(context));
	OK(hipCtxPopCurrent(NULL));
	OK(hipGetDevice(&device));
	CHECK_EQ(device, 1);
	OK(hipSetDevice(0));
}

TEST(a_pitch_is_a_multiple_of_256)
{
	uint64_t before = held();
	hipPitchedPtr pitched;
	size_t pitch;
	void *p;

	OK(hipMallocPitch(&p, &pitch, 1000, 10));
	CHECK_EQ(pitch, 1024);
	CHECK_EQ(held() - before, 12288); /* 10240 */
	OK(hipFree(p));
	OK(hipMemAllocPitch(&p, &pitch, 100, 10, 4));
	CHECK_EQ(pitch, 256);
	CHECK_EQ(held() - before, 4096); /* 2560 */
	OK(hipFree(p));
	CHECK_EQ(hipMemAllocPitch(&p, &pitch, 100, 10, 5), hipErrorInvalidValue);
	OK(hipMalloc3D(&pitched, (hipExtent){300, 7, 5}));
	CHECK_EQ(pitched.pitch, 512);
	CHECK_EQ(held() - before, 20480); /* 17920 */
	OK(hipFree(pitched.ptr));
	CHECK_EQ(held(), before);
}

TEST(flags_of_extended_allocations_are_those_of_the_release)
{
	uint64_t before = held();
	void *p;

	CHECK_EQ(hipExtMallocWithFlags(&p, 4096, 2), hipErrorInvalidValue);
	OK(hipExtMallocWithFlags(&p, 8, 2));
	CHECK_EQ(held(), before);
	OK(hipFree(p));
	OK(hipExtMallocWithFlags(&p, 4096, 1));
	CHECK_EQ(held() - before, 4096);
	OK(hipFree(p));
	CHECK_EQ(hipExtMallocWithFlags(&p, 4096, 3), release() >= 57 ? hipSuccess : hipErrorInvalidValue);
	if (release() >= 57)
		OK(hipFree(p));
	CHECK_EQ(hipExtMallocWithFlags(&p, 4096, 4), release() >= 60 ? hipSuccess : hipErrorInvalidValue);
	if (release() >= 60)
		OK(hipFree(p));
	CHECK_EQ(hipExtMallocWithFlags(&p, 4096, 5), hipErrorInvalidValue);
	hipGetLastError();
}

TEST(managed_memory_is_no_device_memory)
{
	uint64_t before = held(), managed_before = held_on(STATE_MANAGED);
	void *p;

	CHECK_EQ(hipMallocManaged(&p, 0, 1), hipErrorInvalidValue);
	CHECK_EQ(hipMallocManaged(&p, 100, 3), hipErrorInvalidValue);
	OK(hipMallocManaged(&p, 30 * GIB, hipMemAttachGlobal));
	CHECK_EQ(held(), before);
	CHECK_EQ(held_on(STATE_MANAGED) - managed_before, 30 * GIB);
	OK(hipFree(p));
	CHECK_EQ(held_on(STATE_MANAGED), managed_before);
	hipGetLastError();
}

TEST(an_array_takes_its_texels_and_falls_back_to_host_memory)
{
	hipChannelFormatDesc floats = {32, 0, 0, 0, 2};
	HIP_ARRAY_DESCRIPTOR halves = {100, 10, 0x10, 4};
	uint64_t before = held(), host_before = held_on(STATE_HOST);
	hipArray_t array, other;
	void *p;

	OK(hipMallocArray(&array, &floats, 1024, 1024, 0));
	CHECK_EQ(held() - before, 4 * MIB);
	OK(hipArrayCreate(&other, &halves));
	CHECK_EQ(held() - before, 4 * MIB + 8192);
	OK(hipFreeArray(array));
	CHECK_EQ(hipFreeArray(array), 709 /* hipErrorContextIsDestroyed */);
	OK(hipArrayDestroy(other));
	CHECK_EQ(held(), before);
	OK(hipMalloc(&p, 16 * GIB - before));
	OK(hipMalloc3DArray(&array, &floats, (hipExtent){64, 64, 64}, 0));
	CHECK_EQ(held_on(STATE_HOST) - host_before, MIB);
	OK(hipFreeArray(array));
	OK(hipFree(p));
	CHECK_EQ(held_on(STATE_HOST), host_before);
	hipGetLastError();
}

TEST(mipmapped_arrays_do_not_exist)
{
	hipChannelFormatDesc floats = {32, 0, 0, 0, 2};
	hipMipmappedArray_t array;

	CHECK_EQ(hipMallocMipmappedArray(&array, &floats, (hipExtent){64, 64, 0}, 4, 0),
		 hipErrorNotSupported);
	hipGetLastError();
}

TEST(a_reset_takes_linear_memory_of_the_current_device_and_nothing_else)
{
	hipChannelFormatDesc floats = {32, 0, 0, 0, 2};
	void *here, *there, *host, *managed;
	uint64_t host_before;
	hipArray_t array;

	OK(hipSetDevice(1));
	OK(hipMalloc(&there, MIB));
	OK(hipSetDevice(0));
	OK(hipMalloc(&here, MIB));
	host_before = held_on(STATE_HOST);
	OK(hipHostMalloc(&host, MIB, 0));
	OK(hipMallocManaged(&managed, MIB, 1));
	OK(hipMallocArray(&array, &floats, 1024, 1024, 0));
	OK(hipDevicePrimaryCtxReset(0));
	CHECK_EQ(held_on(0), 5 * MIB);
	OK(hipDeviceReset());
	CHECK_EQ(held_on(0), 4 * MIB);
	CHECK_EQ(held_on(1), MIB);
	CHECK_EQ(held_on(STATE_HOST) - host_before, MIB);
	CHECK_EQ(held_on(STATE_MANAGED), MIB);
	CHECK_EQ(hipFree(here), hipErrorInvalidValue);
	OK(hipFree(there));
	OK(hipFree(host));
	OK(hipFree(managed));
	OK(hipFreeArray(array));
	hipGetLastError();
}

TEST(a_pointer_is_known_by_its_base_and_its_requested_size)
{
	size_t size = 0;
	void *base;
	char *p;

	OK(hipMalloc((void **)&p, 5000));
	OK(hipMemPtrGetInfo(p, &size));
	CHECK_EQ(size, 5000);
	OK(hipMemGetAddressRange(&base, &size, p + 4999));
	CHECK(base == p);
	CHECK_EQ(size, 5000);
	CHECK_EQ(hipMemGetAddressRange(&base, &size, p + 5000), 500);
	OK(hipFree(p));
	hipGetLastError();
}

TEST(copies_copy_and_fills_fill)
{
	unsigned char host[4096];
	void *p, *q;

	OK(hipMalloc(&p, 4096));
	OK(hipMalloc(&q, 4096));
	OK(hipMemset(p, 0x5a, 4096));
	OK(hipMemcpy(q, p, 4096, 3));
	OK(hipMemcpy(host, q, 4096, 2));
	CHECK_EQ(host[0], 0x5a);
	CHECK_EQ(host[4095], 0x5a);
	OK(hipFree(p));
	OK(hipFree(q));
}

TEST(all_reports_name_the_same_total)
{
	unsigned char prop[1472];
	size_t total, free_bytes, other;
	int attribute;

	OK(hipMemGetInfo(&free_bytes, &total));
	CHECK_EQ(total, 16 * GIB);
	CHECK_EQ(free_bytes % 1024, 0);
	OK(hipMemGetInfo(NULL, NULL));
	OK(hipDeviceTotalMem(&other, 0));
	CHECK_EQ(other, total);
	OK(hipGetDeviceProperties(prop, 0));
	memcpy(&other, prop + HIP_PROP_R0000_TOTAL, sizeof(other));
	CHECK_EQ(other, total);
	if (release() >= 60) {
		OK(hipGetDevicePropertiesR0600(prop, 0));
		memcpy(&other, prop + HIP_PROP_R0600_TOTAL, sizeof(other));
		CHECK_EQ(other, total);
		OK(hipDeviceGetAttribute(&attribute, hipDeviceAttributeTotalGlobalMem, 0));
		CHECK_EQ(attribute, 0x7fffffff);
	} else {
		CHECK_EQ(hipDeviceGetAttribute(&attribute, hipDeviceAttributeTotalGlobalMem, 0),
			 hipErrorInvalidValue);
	}
	CHECK_EQ(hipDeviceTotalMem(&other, 2), hipErrorInvalidDevice);
	hipGetLastError();
}

TEST(properties_write_no_byte_behind_their_layout)
{
	unsigned char prop[1473];

	memset(prop, 0xee, sizeof(prop));
	OK(hipGetDeviceProperties(prop, 0));
	CHECK_EQ(prop[792], 0xee);
	if (release() >= 60) {
		OK(hipGetDevicePropertiesR0600(prop, 0));
		CHECK_EQ(prop[1472], 0xee);
	}
}

static void *take_and_give(void *data)
{
	void *blocks[64];

	(void)data;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 64; i++)
			if (hipMalloc(&blocks[i], (size_t)1 << (i % 24)))
				abort();
		for (int i = 0; i < 64; i++) {
			*(volatile char *)blocks[i] = 1;
			if (hipFree(blocks[i]))
				abort();
		}
	}
	return NULL;
}

TEST(eight_threads_that_give_all_back_leave_nothing)
{
	uint64_t before = held();
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, take_and_give, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(held(), before);
}

static void *take_three(void *taken)
{
	void *p;

	for (int i = 0; i < 100; i++)
		if (!hipMalloc(&p, 100 * MIB))
			__atomic_fetch_add((int *)taken, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

TEST(threads_that_compete_for_the_last_bytes_get_them_all_and_no_more)
{
	pthread_t threads[4];
	int taken = 0;

	OK(hipDeviceReset());
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, take_three, &taken);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(taken, 163); /* of 100 MiB in 16 GiB */
	CHECK_EQ(held(), 16300 * MIB);
	OK(hipDeviceReset());
	CHECK_EQ(held(), 0);
	hipGetLastError();
}

TEST(a_million_allocations_can_live_at_once)
{
	enum { MANY = 1000000 };
	void **blocks = calloc(MANY, sizeof(*blocks));
	int failed = 0;

	for (int i = 0; i < MANY; i++)
		failed += hipMalloc(&blocks[i], 4096) != 0;
	CHECK_EQ(failed, 0);
	CHECK_EQ(held(), MANY * 4096ull);
	for (int i = 0; i < MANY; i++)
		failed += hipFree((char *)blocks[i] + i % 4096) != 0;
	CHECK_EQ(failed, 0);
	CHECK_EQ(held(), 0);
	free(blocks);
}

TEST_MAIN()
