/* Does the limit hold on this machine? Runs on a GPU, on the stand-in, on the real runtime over softgpu.
 *
 *	LD_AUDIT=dist/libamvgpu.so HIP_DEVICE_MEMORY_LIMIT_0=1G dist/test_memory_limit [WANTED_MIB]
 *
 * Takes whichever libamdhip64 the machine has. Exit status: 0 the limit holds (or there is none), 1 it does not, 2 no
 * runtime or no device.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WITH_ROCM_HEADERS
#include <hip/hip_runtime_api.h>
#else
#include "../src/hip/hip_abi.h"
#endif

enum { CHUNKS_MAX = 65536 };
#define MIB ((size_t)1 << 20)

static int (*count_devices)(int *), (*mem_get_info)(size_t *, size_t *), (*mem_alloc)(void **, size_t), (*mem_free)(void *),
	(*last_error)(void), (*total_mem)(size_t *, int);
static int failures;

static void *open_runtime(void)
{
	static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
					     "/opt/rocm/lib/libamdhip64.so" };

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		void *handle = dlopen(names[i], RTLD_NOW);

		if (handle) {
			printf("runtime: %s\n", names[i]);
			return handle;
		}
	}
	return NULL;
}

static void *function(void *runtime, const char *name)
{
	void *address = dlsym(runtime, name);

	if (!address) {
		printf("the runtime has no %s\n", name);
		exit(2);
	}
	return address;
}

static void check(int holds, const char *claim)
{
	printf("%s: %s\n", holds ? "ok  " : "FAIL", claim);
	failures += !holds;
}

/* Allocates chunk after chunk until one is refused; returns the bytes. */
static size_t fill(void **blocks, size_t chunk, size_t most, unsigned *count)
{
	for (*count = 0; *count < CHUNKS_MAX && *count * chunk < most; ++*count) {
		int error = mem_alloc(&blocks[*count], chunk);

		if (error) {
			printf("      hipMalloc(%zu MiB) returned %d\n", chunk / MIB, error);
			check(error == hipErrorOutOfMemory, "a refusal is hipErrorOutOfMemory");
			check(last_error() == hipErrorOutOfMemory, "hipGetLastError says so too");
			break;
		}
	}
	return *count * chunk;
}

static void test_limit(size_t limit, size_t wanted)
{
	static void *blocks[CHUNKS_MAX];
	size_t free_bytes, total, device_total, chunk = 64 * MIB, got;
	unsigned count;

	mem_get_info(&free_bytes, &total);
	total_mem(&device_total, 0);
	printf("hipMemGetInfo: free %zu MiB of %zu MiB\n", free_bytes / MIB, total / MIB);
	check(total == device_total, "hipDeviceTotalMem agrees with hipMemGetInfo");
	check(free_bytes <= total, "free is not more than total");
	if (limit)
		check(total <= limit, "the total is not above the limit");
	if (chunk > total / 4)
		chunk = total / 4;
	got = fill(blocks, chunk, wanted ? wanted : 2 * total, &count);
	printf("got %zu MiB in %u pieces\n", got / MIB, count);
	if (limit)
		check(got <= limit, "no more than the limit was given");
	mem_get_info(&free_bytes, &total);
	printf("hipMemGetInfo: free %zu MiB of %zu MiB\n", free_bytes / MIB, total / MIB);
	while (count)
		mem_free(blocks[--count]);
	got = fill(blocks, chunk, chunk, &count);
	check(got == chunk, "what was freed can be had again");
	while (count)
		mem_free(blocks[--count]);
}

static size_t limit_of_device_0(void)
{
	const char *text = getenv("HIP_DEVICE_MEMORY_LIMIT_0");
	char *end;
	size_t limit;

	if (!text && !(text = getenv("HIP_DEVICE_MEMORY_LIMIT")))
		return 0;
	limit = strtoull(text, &end, 10);
	switch (*end | 0x20) {
	case 't':
		limit <<= 10; /* fall through */
	case 'g':
		limit <<= 10; /* fall through */
	case 'm':
		limit <<= 10; /* fall through */
	case 'k':
		limit <<= 10;
	}
	return limit;
}

int main(int argc, char **argv)
{
	void *runtime = open_runtime();
	size_t limit = limit_of_device_0();
	int devices = 0;

	if (!runtime) {
		printf("no libamdhip64 on this machine: install ROCm, or use the stand-in (LD_LIBRARY_PATH=softgpu's folder; "
		       "see ./demo)\n");
		return 2;
	}
	*(void **)&count_devices = function(runtime, "hipGetDeviceCount");
	*(void **)&mem_get_info = function(runtime, "hipMemGetInfo");
	*(void **)&mem_alloc = function(runtime, "hipMalloc");
	*(void **)&mem_free = function(runtime, "hipFree");
	*(void **)&last_error = function(runtime, "hipGetLastError");
	*(void **)&total_mem = function(runtime, "hipDeviceTotalMem");
	if (count_devices(&devices) || !devices) {
		printf("the runtime sees no device\n");
		return 2;
	}
	printf("%d device(s); limit of device 0: %zu MiB%s\n", devices, limit / MIB, limit ? "" : " (none set)");
	test_limit(limit, argc > 1 ? strtoull(argv[1], NULL, 10) * MIB : 0);
	printf("%s\n", failures ? "the limit does NOT hold" : "the limit holds");
	return failures != 0;
}
