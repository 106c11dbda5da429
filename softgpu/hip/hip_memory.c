/* Linear memory: device, host and managed; what is known of a pointer; how much is left. */
#include <string.h>

#include "hip.h"

enum { PITCH_ALIGNMENT = 256 };

struct block *hip_find(const void *address)
{
	struct block *block = hip_softgpu->find(address);

	return block && block->owner == &hip_self ? block : NULL;
}

/* What real releases do when memory ran out: a question to themselves, through the PLT. */
void hip_query_memory(void)
{
	hipError_t hipMemGetInfo(size_t * free_bytes, size_t * total_bytes);
	size_t free_bytes, total_bytes;

	(void)hipMemGetInfo(&free_bytes, &total_bytes);
}

static hsa_amd_memory_pool_t memory_of(struct device *device, enum hip_kind kind)
{
	return kind == KIND_HOST ? hip_host_memory : device->memory;
}

hipError_t hip_take(struct device *device, size_t size, enum hip_kind kind, void **address)
{
	struct block *block;
	void *at = NULL;
	int status;

	if (kind == KIND_MANAGED)
		status = hip_softgpu->take(STATE_MANAGED, size, &at);
	else
		status = hsa_amd_memory_pool_allocate(memory_of(device, kind), size, 0, &at);
	if (status) {
		*address = NULL;
		hip_query_memory();
		return hipErrorOutOfMemory;
	}
	block = hip_softgpu->find(at);
	block->kind = kind;
	block->device = device->index;
	block->owner = (void *)&hip_self;
	*address = at;
	return hipSuccess;
}

/* What is larger than the whole device leaves *ptr alone; what is merely too large now sets it to NULL. */
static hipError_t take_linear(void **ptr, size_t size, enum hip_kind kind)
{
	struct device *device = hip_device_here();

	if (!ptr)
		return hipErrorInvalidValue;
	if (!size) {
		*ptr = NULL;
		return hipSuccess;
	}
	if (kind == KIND_DEVICE && size > hip_softgpu->capacity(device->row))
		return hipErrorOutOfMemory;
	return hip_take(device, size, kind, ptr);
}

HIP_API hipError_t hipMalloc(void **ptr, size_t size)
{
	HIP_ENTER(hipMalloc);
	if (hip_capture_forbids())
		return HIP_LEAVE(hipErrorStreamCaptureUnsupported);
	return HIP_LEAVE(take_linear(ptr, size, KIND_DEVICE));
}

HIP_API hipError_t hipExtMallocWithFlags(void **ptr, size_t size, unsigned flags)
{
	enum { FINE = 1, SIGNAL = 2, UNCACHED = 3, CONTIGUOUS = 4 };

	HIP_ENTER(hipExtMallocWithFlags);
	if (flags > CONTIGUOUS || (flags == CONTIGUOUS && hip_release < 60) ||
	    (flags == UNCACHED && hip_release < 57))
		return HIP_LEAVE(hipErrorInvalidValue);
	if (flags == SIGNAL)
		return HIP_LEAVE(size == 8 ? take_linear(ptr, size, KIND_HOST) : hipErrorInvalidValue);
	return HIP_LEAVE(take_linear(ptr, size, KIND_DEVICE));
}

HIP_API hipError_t hipMallocManaged(void **ptr, size_t size, unsigned flags)
{
	HIP_ENTER(hipMallocManaged);
	if (!ptr || !size || (flags != 1 && flags != 2))
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!hip_softgpu->settings->managed)
		return HIP_LEAVE(hipErrorNotSupported);
	return HIP_LEAVE(hip_take(hip_device_here(), size, KIND_MANAGED, ptr));
}

/* No check for overflow, as in reality. */
static hipError_t take_pitched(void **ptr, size_t *pitch, size_t width, size_t height, size_t depth)
{
	hipError_t error;

	if (!ptr || !pitch)
		return hipErrorInvalidValue;
	if (!width || !height || !depth) {
		*ptr = NULL;
		return hipSuccess;
	}
	width = (width + PITCH_ALIGNMENT - 1) & -(size_t)PITCH_ALIGNMENT;
	error = take_linear(ptr, width * height * depth, KIND_DEVICE);
	if (!error)
		*pitch = width;
	return error;
}

static hipError_t malloc_pitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	if (hip_capture_forbids())
		return hipErrorStreamCaptureUnsupported;
	return take_pitched(ptr, pitch, width, height, 1);
}

HIP_API hipError_t hipMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	HIP_ENTER(hipMallocPitch);
	return HIP_LEAVE(malloc_pitch(ptr, pitch, width, height));
}

/* 5.x goes through its own PLT. */
HIP_API hipError_t hipMemAllocPitch(hipDeviceptr_t *ptr, size_t *pitch, size_t width, size_t height,
				    unsigned element_bytes)
{
	HIP_ENTER(hipMemAllocPitch);
	if (!width || !height || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
		return HIP_LEAVE(hipErrorInvalidValue);
	if (RELEASE < 60)
		return HIP_LEAVE(hipMallocPitch(ptr, pitch, width, height));
	return HIP_LEAVE(malloc_pitch(ptr, pitch, width, height));
}

HIP_API hipError_t hipMalloc3D(hipPitchedPtr *pitched, hipExtent extent)
{
	hipError_t error;
	size_t pitch = 0;

	HIP_ENTER(hipMalloc3D);
	if (!pitched)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (hip_capture_forbids())
		return HIP_LEAVE(hipErrorStreamCaptureUnsupported);
	error = take_pitched(&pitched->ptr, &pitch, extent.width, extent.height, extent.depth);
	if (!error) {
		pitched->pitch = pitch;
		pitched->xsize = extent.width;
		pitched->ysize = extent.height;
	}
	return HIP_LEAVE(error);
}

static hipError_t malloc_host(void **ptr, size_t size)
{
	if (hip_capture_forbids())
		return hipErrorStreamCaptureUnsupported;
	return take_linear(ptr, size, KIND_HOST);
}

HIP_API hipError_t hipHostMalloc(void **ptr, size_t size, unsigned flags)
{
	HIP_ENTER(hipHostMalloc);
	(void)flags;
	return HIP_LEAVE(malloc_host(ptr, size));
}

HIP_API hipError_t hipHostAlloc(void **ptr, size_t size, unsigned flags)
{
	HIP_ENTER(hipHostAlloc);
	(void)flags;
	return HIP_LEAVE(malloc_host(ptr, size));
}

HIP_API hipError_t hipMallocHost(void **ptr, size_t size)
{
	HIP_ENTER(hipMallocHost);
	return HIP_LEAVE(malloc_host(ptr, size));
}

/* 5.x goes through its own PLT. */
HIP_API hipError_t hipMemAllocHost(void **ptr, size_t size)
{
	HIP_ENTER(hipMemAllocHost);
	return HIP_LEAVE(RELEASE < 60 ? hipHostMalloc(ptr, size, 0) : malloc_host(ptr, size));
}

static hipError_t free_block(struct block *block)
{
	switch (block->kind) {
	case KIND_POOL:
		pool_give(block->detail, block);
		return hipSuccess;
	case KIND_POOL_FREE:
		return hipErrorInvalidValue;
	case KIND_GRAPH:
		return graph_memory_give(block->detail);
	case KIND_MANAGED:
		return hip_softgpu->give(block) ? hipSuccess : hipErrorInvalidValue;
	case KIND_IPC:
		ipc_detach(block);
		return hipSuccess;
	}
	if (block->kind == KIND_DEVICE && block->detail)
		ipc_withdraw(block);
	return hsa_amd_memory_pool_free(block->address) ? hipErrorInvalidValue : hipSuccess;
}

/* Any address inside of a block frees the block, whatever kind of memory it is and whatever the current
 * device. */
hipError_t hip_free(void *address)
{
	struct block *block;

	if (!address)
		return hipSuccess;
	block = hip_find(address);
	if (!block)
		return hipErrorInvalidValue;
	if (hip_release < 70)
		hip_device_settle(&hip_devices[block->device]);
	return free_block(block);
}

HIP_API hipError_t hipFree(void *ptr)
{
	HIP_ENTER(hipFree);
	return HIP_LEAVE(hip_free(ptr));
}

HIP_API hipError_t hipHostFree(void *ptr)
{
	HIP_ENTER(hipHostFree);
	return HIP_LEAVE(hip_free(ptr));
}

HIP_API hipError_t hipFreeHost(void *ptr)
{
	HIP_ENTER(hipFreeHost);
	return HIP_LEAVE(hip_free(ptr));
}

/* 5.2.3 does not see what other processes hold. */
static uint64_t bytes_used(struct device *device)
{
	if (hip_release == 52)
		return hip_softgpu->held_here(device->row);
	return hip_softgpu->held(device->row) + hip_softgpu->others(device->row);
}

HIP_API hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	struct device *device;
	uint64_t total, used;

	HIP_ENTER(hipMemGetInfo);
	device = hip_device_here();
	total = hip_softgpu->capacity(device->row);
	used = bytes_used(device);
	if (free_bytes)
		*free_bytes = total > used ? (total - used) & ~1023ull : 0;
	if (total_bytes)
		*total_bytes = total;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemPtrGetInfo(void *ptr, size_t *size)
{
	struct block *block;

	HIP_ENTER(hipMemPtrGetInfo);
	block = ptr && size ? hip_find(ptr) : NULL;
	if (!block)
		return HIP_LEAVE(hipErrorInvalidValue);
	*size = block->size;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t ptr)
{
	struct block *block;

	HIP_ENTER(hipMemGetAddressRange);
	block = ptr ? hip_find(ptr) : NULL;
	if (!base || !size)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!block)
		return HIP_LEAVE(hipErrorNotFound);
	*base = block->address;
	*size = block->size;
	return HIP_LEAVE(hipSuccess);
}

static void reset_block(struct block *block, void *data)
{
	struct device *device = data;

	if (block->owner == &hip_self && block->kind == KIND_DEVICE && block->device == device->index)
		free_block(block);
}

/* Linear memory, pools and streams of the current device go; arrays, host and managed memory stay. */
HIP_API hipError_t hipDeviceReset(void)
{
	struct device *device;

	HIP_ENTER(hipDeviceReset);
	device = hip_device_here();
	stream_drop_all(device);
	pool_drop_all(device);
	graph_drop_all(device);
	hip_softgpu->walk(reset_block, device);
	vmm_drop_all(device);
	return HIP_LEAVE(pool_start(device));
}
