/* Calls the HIP API's memory, copy, stream and pool functions once each and compares the data; a line each:
 * "name result". A line "name BAD" means wrong data. Ends with "end". */
#include <hip/hip_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static hipError_t say(const char *name, hipError_t result)
{
	printf("%s %s\n", name, hipGetErrorName(result));
	fflush(stdout);
	return result;
}

static void check(const char *name, int is_right)
{
	printf("%s %s\n", name, is_right ? "right" : "BAD");
	fflush(stdout);
}

static void allocations(void)
{
	hipPitchedPtr pitched;
	hipExtent extent = {1000, 100, 10}, cube = {64, 64, 64};
	hipChannelFormatDesc format = {32, 0, 0, 0, hipChannelFormatKindFloat};
	hipArray_t array = NULL;
	size_t pitch = 0;
	void *p = NULL;

	if (!say("hipMalloc", hipMalloc(&p, 64 * MIB + 1)))
		say("hipFree", hipFree(p));
	if (!say("hipMallocPitch", hipMallocPitch(&p, &pitch, 1000, 1000)))
		hipFree(p);
	if (!say("hipMalloc3D", hipMalloc3D(&pitched, extent)))
		hipFree(pitched.ptr);
	if (!say("hipMallocManaged", hipMallocManaged(&p, 4 * MIB, hipMemAttachGlobal))) {
		memset(p, 1, 4 * MIB);
		hipFree(p);
	}
	if (!say("hipHostMalloc", hipHostMalloc(&p, MIB, 0)))
		hipHostFree(p);
	if (!say("hipMallocArray", hipMallocArray(&array, &format, 1024, 1024, 0)))
		hipFreeArray(array);
	if (!say("hipMalloc3DArray", hipMalloc3DArray(&array, &format, cube, 0)))
		hipFreeArray(array);
}

/* Host to device, device to device, back. */
static void copies(size_t size)
{
	unsigned char *from = malloc(size), *to = calloc(1, size);
	char name[32];
	void *p = NULL, *q = NULL;
	int is_right = 1;

	for (size_t i = 0; i < size; i++)
		from[i] = (unsigned char)(i * 31 + 7);
	hipMalloc(&p, size);
	hipMalloc(&q, size);
	hipMemcpy(p, from, size, hipMemcpyHostToDevice);
	hipMemcpy(q, p, size, hipMemcpyDeviceToDevice);
	hipMemcpy(to, q, size, hipMemcpyDeviceToHost);
	snprintf(name, sizeof name, "copy-%zu", size);
	check(name, !memcmp(from, to, size));
	hipMemset(p, 0x5a, size);
	hipMemcpy(to, p, size, hipMemcpyDeviceToHost);
	for (size_t i = 0; i < size; i++)
		is_right = is_right && to[i] == 0x5a;
	snprintf(name, sizeof name, "memset-%zu", size);
	check(name, is_right);
	hipFree(p);
	hipFree(q);
	free(from);
	free(to);
}

static void rectangles(void)
{
	static int from[64 * 64], to[64 * 64];
	size_t pitch;
	void *p;

	for (int i = 0; i < 64 * 64; i++)
		from[i] = i;
	hipMallocPitch(&p, &pitch, 256, 64);
	hipMemcpy2D(p, pitch, from, 256, 256, 64, hipMemcpyHostToDevice);
	hipMemcpy2D(to, 256, p, pitch, 256, 64, hipMemcpyDeviceToHost);
	check("copy2D", !memcmp(from, to, sizeof from));
	hipMemset2D(p, pitch, 3, 256, 64);
	hipMemcpy2D(to, 256, p, pitch, 256, 64, hipMemcpyDeviceToHost);
	check("memset2D", to[0] == 0x03030303 && to[64 * 64 - 1] == 0x03030303);
	hipMemsetD32(p, 0x01020304, 64);
	hipMemcpy(to, p, 256, hipMemcpyDeviceToHost);
	check("memsetD32", to[0] == 0x01020304 && to[63] == 0x01020304);
	hipFree(p);
}

static void streams(void)
{
	hipStream_t low, high, plain;
	hipEvent_t first, last;
	int least, greatest;
	float ms = -1;
	void *p;

	hipMalloc(&p, MIB);
	say("hipDeviceGetStreamPriorityRange", hipDeviceGetStreamPriorityRange(&least, &greatest));
	say("hipStreamCreate", hipStreamCreate(&plain));
	say("hipStreamCreateWithPriority-high",
	    hipStreamCreateWithPriority(&high, hipStreamNonBlocking, greatest));
	say("hipStreamCreateWithPriority-low",
	    hipStreamCreateWithPriority(&low, hipStreamNonBlocking, least));
	hipEventCreate(&first);
	hipEventCreate(&last);
	hipEventRecord(first, plain);
	hipMemsetAsync(p, 9, MIB, plain);
	hipEventRecord(last, plain);
	say("hipStreamWaitEvent", hipStreamWaitEvent(high, first, 0));
	hipMemsetAsync(p, 1, MIB, high);
	hipMemsetAsync(p, 2, MIB, low);
	say("hipEventSynchronize", hipEventSynchronize(last));
	hipEventElapsedTime(&ms, first, last);
	check("elapsed", ms >= 0);
	say("hipDeviceSynchronize", hipDeviceSynchronize());
	hipStreamDestroy(plain);
	hipStreamDestroy(high);
	hipStreamDestroy(low);
	hipFree(p);
}

static void pools(void)
{
	hipStream_t stream;
	hipMemPoolProps properties;
	hipMemPool_t pool;
	void *p = NULL;

	memset(&properties, 0, sizeof properties);
	properties.allocType = hipMemAllocationTypePinned;
	properties.location.type = hipMemLocationTypeDevice;
	hipStreamCreate(&stream);
	say("hipMallocAsync", hipMallocAsync(&p, 40 * MIB + 5, stream));
	say("hipFreeAsync", hipFreeAsync(p, stream));
	say("hipStreamSynchronize", hipStreamSynchronize(stream));
	say("hipMemPoolCreate", hipMemPoolCreate(&pool, &properties));
	say("hipMallocFromPoolAsync", hipMallocFromPoolAsync(&p, 5 * MIB, pool, stream));
	hipFreeAsync(p, stream);
	hipStreamSynchronize(stream);
	say("hipMemPoolTrimTo", hipMemPoolTrimTo(pool, 0));
	say("hipMemPoolDestroy", hipMemPoolDestroy(pool));
	/* The stream is left: HIP 5.2.3 never returns from destroying one that used a pool. */
}

static void virtual_memory(void)
{
	hipMemAllocationProp properties;
	hipMemGenericAllocationHandle_t handle;
	hipMemAccessDesc access;
	size_t size = 8 * MIB;
	char *from = malloc(size), *to = calloc(1, size);
	void *p = NULL;

	memset(&properties, 0, sizeof properties);
	properties.type = hipMemAllocationTypePinned;
	properties.location.type = hipMemLocationTypeDevice;
	access.location = properties.location;
	access.flags = hipMemAccessFlagsProtReadWrite;
	memset(from, 7, size);
	if (say("hipMemCreate", hipMemCreate(&handle, size, &properties, 0)))
		return;
	hipMemAddressReserve(&p, size, 0, NULL, 0);
	if (!say("hipMemMap", hipMemMap(p, size, 0, handle, 0))) {
		say("hipMemSetAccess", hipMemSetAccess(p, size, &access, 1));
		hipMemcpy(p, from, size, hipMemcpyHostToDevice);
		hipMemcpy(to, p, size, hipMemcpyDeviceToHost);
		check("copy-mapped", !memcmp(from, to, size));
		say("hipMemUnmap", hipMemUnmap(p, size));
	}
	say("hipMemRelease", hipMemRelease(handle));
	hipMemAddressFree(p, size);
	free(from);
	free(to);
}

static void full_card(void)
{
	static void *held[4096];
	size_t free_bytes, total;
	int count = 0;
	void *p;

	hipMemGetInfo(&free_bytes, &total);
	say("hipMalloc-more-than-the-card", hipMalloc(&p, total + 4096));
	while (count < 4096 && !hipMalloc(&held[count], 48 * MIB))
		count++;
	say("hipMalloc-full", hipMalloc(&p, 48 * MIB));
	check("count", (size_t)count <= total / (48 * MIB) && (size_t)count + 8 >= total / (48 * MIB));
	for (int i = 0; i < count; i++)
		hipFree(held[i]);
	if (!say("hipMalloc-after", hipMalloc(&p, 48 * MIB)))
		hipFree(p);
}

static void peers(void)
{
	char *from = malloc(16 * MIB), *to = calloc(1, 16 * MIB);
	int can = 0;
	void *p, *q;

	memset(from, 3, 16 * MIB);
	hipDeviceCanAccessPeer(&can, 1, 0);
	check(can ? "peer-access" : "no-peer-access", 1);
	hipSetDevice(1);
	hipMalloc(&p, 16 * MIB);
	hipSetDevice(0);
	hipMalloc(&q, 16 * MIB);
	hipMemcpy(q, from, 16 * MIB, hipMemcpyHostToDevice);
	hipMemcpyPeer(p, 1, q, 0, 16 * MIB);
	hipDeviceSynchronize();
	hipMemcpy(to, p, 16 * MIB, hipMemcpyDeviceToHost);
	check("copy-peer", !memcmp(from, to, 16 * MIB));
	hipFree(p);
	hipFree(q);
	free(from);
	free(to);
}

int main(void)
{
	int count = 0;

	say("hipInit", hipInit(0));
	say("hipGetDeviceCount", hipGetDeviceCount(&count));
	allocations();
	for (size_t size = 64; size <= 16 * MIB; size *= 64)
		copies(size);
	rectangles();
	streams();
	pools();
	virtual_memory();
	full_card();
	if (count > 1)
		peers();
	puts("end");
	return 0;
}
