/* What the tests of the stand-in runtime share: HIP's functions, declared from the table, and what the oracle
 * says.
 *
 * Each program is linked with one libamdhip64; TEST_RELEASE says which release it is to be: 52, 57, 64 or 72.
 * It needs SOFTGPU_STATE and two devices.
 */
#ifndef TEST_STANDIN_H
#define TEST_STANDIN_H

#include "../softgpu/hip/state.h"
#include "../src/hip/hip_abi.h"
#include "test.h"

#define ALLOC(name, node, since, params, ...) hipError_t name params;
#define FREE(name, node, since, params, ...) hipError_t name params;
#define HAND(name, node, since, params, ...) hipError_t name params;
#define PASS(...)
#pragma weak hipGraphLaunch_spt
#pragma weak hipGetDevicePropertiesR0000
#pragma weak hipGetDevicePropertiesR0600
#pragma weak hipGraphInstantiateWithParams
#include "../src/hip/hip_api.def"

hipError_t hipGetLastError(void);
hipError_t hipPeekAtLastError(void);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipStreamCreate(hipStream_t *stream);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipDeviceSynchronize(void);

static const size_t MIB = 1 << 20, GIB = 1 << 30;

static int release(void)
{
	return atoi(getenv("TEST_RELEASE"));
}

static const struct state *oracle(void)
{
	static const struct state *s;

	if (!s) {
		hipFree(NULL);
		s = state_map(getenv("SOFTGPU_STATE"), false);
		if (!s)
			abort();
	}
	return s;
}

/* Really held on a device by all processes; here that is this one. */
static uint64_t held_on(int row)
{
	return state_sum_held(oracle(), row);
}

static inline uint64_t held(void)
{
	return held_on(0);
}

static inline uint64_t free_memory(void)
{
	size_t free_bytes = 0, total = 0;

	if (hipMemGetInfo(&free_bytes, &total))
		abort();
	return free_bytes;
}

#define OK(call) CHECK_EQ(call, hipSuccess)

#endif
