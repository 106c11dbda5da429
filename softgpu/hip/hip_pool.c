/* Memory pools. Freed memory stays with its pool until the device is synchronised or the pool trimmed: only
 * then does the hardware have it back. Work is done at once, so every freed block is fit for use again. */
#include <stdlib.h>
#include <string.h>

#include "hip.h"

struct pool {
	pthread_mutex_t lock; /* everything below; HSA is called without it */
	struct device *device;
	bool is_default, is_ended;
	uint64_t threshold, max_size;
	int32_t reuse[3];
	struct block *kept;
	uint64_t busy_bytes, kept_bytes, busy_high, reserved_high;
	struct pool *next; /* of all pools, under hip_lock */
};

enum {
	ATTRIBUTE_REUSE_FIRST = 1,
	ATTRIBUTE_REUSE_LAST = 3,
	ATTRIBUTE_THRESHOLD,
	ATTRIBUTE_RESERVED,
	ATTRIBUTE_RESERVED_HIGH,
	ATTRIBUTE_USED,
	ATTRIBUTE_USED_HIGH
};

static struct pool *pools;

static struct pool *pool_of(hipMemPool_t handle)
{
	return handle_is(handle, HANDLE_POOL) ? (struct pool *)handle : NULL;
}

static struct pool *pool_new(struct device *device)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	pool->device = device;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	pthread_mutex_lock(&hip_lock);
	pool->next = pools;
	pools = pool;
	pthread_mutex_unlock(&hip_lock);
	handle_add(pool, HANDLE_POOL);
	return pool;
}

hipError_t pool_start(struct device *device)
{
	struct pool *pool = pool_new(device);

	if (!pool)
		return hipErrorOutOfMemory;
	pool->is_default = true;
	device->default_pool = device->current_pool = pool;
	return hipSuccess;
}

int pool_handle_device(const struct pool *pool)
{
	return pool->device->index;
}

static void pool_note_locked(struct pool *pool)
{
	if (pool->busy_bytes > pool->busy_high)
		pool->busy_high = pool->busy_bytes;
	if (pool->busy_bytes + pool->kept_bytes > pool->reserved_high)
		pool->reserved_high = pool->busy_bytes + pool->kept_bytes;
}

/* A kept block fits if it is not larger than 9/8 of what is asked. */
static struct block *pool_find_locked(struct pool *pool, size_t size)
{
	struct block **at, *block;

	for (at = &pool->kept; (block = *at); at = &block->next) {
		if (block->size >= size && block->size <= size + size / 8) {
			*at = block->next;
			pool->kept_bytes -= block->size;
			return block;
		}
	}
	return NULL;
}

static void pool_adopt(struct pool *pool, struct block *block)
{
	pthread_mutex_lock(&pool->lock);
	block->kind = KIND_POOL;
	block->detail = pool;
	pool->busy_bytes += block->size;
	pool_note_locked(pool);
	pthread_mutex_unlock(&pool->lock);
}

hipError_t pool_take(struct pool *pool, size_t size, void **address)
{
	struct block *block;
	hipError_t error;
	bool is_full;

	if (size > hip_softgpu->capacity(pool->device->row)) {
		hip_query_memory();
		return hipErrorOutOfMemory;
	}
	pthread_mutex_lock(&pool->lock);
	block = pool_find_locked(pool, size);
	is_full = !block && pool->max_size && pool->busy_bytes + pool->kept_bytes + size > pool->max_size;
	pthread_mutex_unlock(&pool->lock);
	if (is_full)
		return hipErrorOutOfMemory;
	if (block) {
		*address = block->address;
	} else {
		error = hip_take(pool->device, size, KIND_POOL, address);
		if (error)
			return error;
		block = hip_find(*address);
	}
	pool_adopt(pool, block);
	return hipSuccess;
}

void pool_trim(struct pool *pool, uint64_t keep)
{
	struct block *block;

	for (;;) {
		pthread_mutex_lock(&pool->lock);
		block = pool->busy_bytes + pool->kept_bytes > keep ? pool->kept : NULL;
		if (block) {
			pool->kept = block->next;
			pool->kept_bytes -= block->size;
		}
		pthread_mutex_unlock(&pool->lock);
		if (!block)
			return;
		hsa_amd_memory_pool_free(block->address);
	}
}

static void pool_end(struct pool *pool)
{
	struct pool **at;

	pthread_mutex_lock(&hip_lock);
	for (at = &pools; *at && *at != pool; at = &(*at)->next)
		;
	if (*at)
		*at = pool->next;
	pthread_mutex_unlock(&hip_lock);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* From 6.4 on the pool asks how much is left, through the PLT, and keeps nothing when that is less than an
 * eighth. */
static bool is_pressed(void)
{
	hipError_t hipMemGetInfo(size_t * free_bytes, size_t * total_bytes);
	size_t free_bytes, total_bytes;

	return hip_release >= 64 && !hipMemGetInfo(&free_bytes, &total_bytes) && free_bytes < total_bytes / 8;
}

/* Into a destroyed pool nothing goes back; the last of its blocks takes the pool with it. */
static void pool_give_ended(struct pool *pool, struct block *block)
{
	bool is_last;

	pthread_mutex_lock(&pool->lock);
	pool->busy_bytes -= block->size;
	is_last = !pool->busy_bytes;
	pthread_mutex_unlock(&pool->lock);
	hsa_amd_memory_pool_free(block->address);
	if (is_last)
		pool_end(pool);
}

void pool_give(struct pool *pool, struct block *block)
{
	bool is_ended;

	pthread_mutex_lock(&pool->lock);
	is_ended = pool->is_ended;
	if (!is_ended) {
		block->kind = KIND_POOL_FREE;
		block->next = pool->kept;
		pool->kept = block;
		pool->busy_bytes -= block->size;
		pool->kept_bytes += block->size;
	}
	pthread_mutex_unlock(&pool->lock);
	if (is_ended)
		pool_give_ended(pool, block);
	else if (is_pressed())
		pool_trim(pool, 0);
}

void pool_trim_device(struct device *device)
{
	pthread_mutex_lock(&hip_lock);
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->device == device)
			pool_trim(pool, pool->threshold);
	pthread_mutex_unlock(&hip_lock);
}

static void drop_block(struct block *block, void *data)
{
	struct device *device = data;

	if (block->owner == &hip_self && block->device == device->index &&
	    (block->kind == KIND_POOL || block->kind == KIND_POOL_FREE))
		hsa_amd_memory_pool_free(block->address);
}

/* hipDeviceReset: what the pools hold and handed out is gone, their handles dangle. */
void pool_drop_all(struct device *device)
{
	struct pool *pool, *next;

	hip_softgpu->walk(drop_block, device);
	for (pool = pools; pool; pool = next) {
		next = pool->next;
		if (pool->device == device) {
			handle_remove(pool, HANDLE_POOL);
			pool_end(pool);
		}
	}
}

void pool_forget(void)
{
	pools = NULL;
}

/* 5.2.3 answers success and NULL when memory has run out. */
static hipError_t malloc_async(void **ptr, size_t size, struct pool *pool, hipStream_t stream)
{
	struct ihipGraph *graph =
	    hip_release == 52 ? NULL : stream_capture(stream); /* 5.2.3 has no alloc nodes */
	hipError_t error;

	if (!size) {
		*ptr = NULL;
		return hipSuccess;
	}
	if (graph)
		return graph_capture_alloc(graph, size, ptr);
	stream_use(stream);
	error = pool_take(pool, size, ptr);
	if (error == hipErrorOutOfMemory && hip_release == 52) {
		*ptr = NULL;
		return hipSuccess;
	}
	return error;
}

HIP_API hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream)
{
	struct device *device;

	HIP_ENTER(hipMallocAsync);
	if (!ptr)
		return HIP_LEAVE(hipErrorInvalidValue);
	device = stream_device(stream);
	if (!device)
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	return HIP_LEAVE(malloc_async(ptr, size, device->current_pool, stream));
}

HIP_API hipError_t hipMallocFromPoolAsync(void **ptr, size_t size, hipMemPool_t handle, hipStream_t stream)
{
	struct pool *pool;

	HIP_ENTER(hipMallocFromPoolAsync);
	pool = pool_of(handle);
	if (!ptr || !pool)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	return HIP_LEAVE(malloc_async(ptr, size, pool, stream));
}

HIP_API hipError_t hipFreeAsync(void *ptr, hipStream_t stream)
{
	struct ihipGraph *graph;
	struct block *block;

	HIP_ENTER(hipFreeAsync);
	if (!ptr)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!stream_device(stream))
		return HIP_LEAVE(hipErrorContextIsDestroyed);
	graph = hip_release == 52 ? NULL : stream_capture(stream);
	if (graph)
		return HIP_LEAVE(graph_capture_free(graph, ptr));
	block = hip_find(ptr);
	if (!block || block->kind != KIND_POOL)
		return HIP_LEAVE(hip_free(ptr));
	pool_give(block->detail, block);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemPoolCreate(hipMemPool_t *handle, const hipMemPoolProps *props)
{
	struct pool *pool;

	HIP_ENTER(hipMemPoolCreate);
	if (!handle || !props || props->location.id < 0 || props->location.id >= hip_device_count ||
	    props->location.type != hipMemLocationTypeDevice)
		return HIP_LEAVE(hipErrorInvalidValue);
	pool = pool_new(&hip_devices[props->location.id]);
	if (!pool)
		return HIP_LEAVE(hipErrorOutOfMemory);
	if (hip_release >= 60)
		pool->max_size = props->maxSize;
	*handle = (hipMemPool_t)pool;
	return HIP_LEAVE(hipSuccess);
}

/* What is kept goes at once; what is in use keeps the pool alive. */
HIP_API hipError_t hipMemPoolDestroy(hipMemPool_t handle)
{
	struct pool *pool;
	bool is_idle;

	HIP_ENTER(hipMemPoolDestroy);
	pool = pool_of(handle);
	if (!pool || pool->is_default)
		return HIP_LEAVE(hipErrorInvalidValue);
	handle_remove(pool, HANDLE_POOL);
	if (pool->device->current_pool == pool)
		pool->device->current_pool = pool->device->default_pool;
	pool_trim(pool, 0);
	pthread_mutex_lock(&pool->lock);
	pool->is_ended = true;
	is_idle = !pool->busy_bytes;
	pthread_mutex_unlock(&pool->lock);
	if (is_idle)
		pool_end(pool);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemPoolTrimTo(hipMemPool_t handle, size_t keep)
{
	struct pool *pool;

	HIP_ENTER(hipMemPoolTrimTo);
	pool = pool_of(handle);
	if (!pool)
		return HIP_LEAVE(hipErrorInvalidValue);
	pool_trim(pool, keep);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemPoolSetAttribute(hipMemPool_t handle, int attribute, void *value)
{
	struct pool *pool;
	hipError_t error = hipSuccess;

	HIP_ENTER(hipMemPoolSetAttribute);
	pool = pool_of(handle);
	if (!pool || !value)
		return HIP_LEAVE(hipErrorInvalidValue);
	pthread_mutex_lock(&pool->lock);
	if (attribute >= ATTRIBUTE_REUSE_FIRST && attribute <= ATTRIBUTE_REUSE_LAST)
		memcpy(&pool->reuse[attribute - ATTRIBUTE_REUSE_FIRST], value, sizeof(int32_t));
	else if (attribute == ATTRIBUTE_THRESHOLD)
		memcpy(&pool->threshold, value, sizeof(uint64_t));
	else if (attribute == ATTRIBUTE_RESERVED_HIGH)
		pool->reserved_high = pool->busy_bytes + pool->kept_bytes;
	else if (attribute == ATTRIBUTE_USED_HIGH)
		pool->busy_high = pool->busy_bytes;
	else
		error = hipErrorInvalidValue;
	pthread_mutex_unlock(&pool->lock);
	return HIP_LEAVE(error);
}

static uint64_t pool_attribute_locked(const struct pool *pool, int attribute)
{
	switch (attribute) {
	case ATTRIBUTE_THRESHOLD:
		return pool->threshold;
	case ATTRIBUTE_RESERVED:
		return pool->busy_bytes + pool->kept_bytes;
	case ATTRIBUTE_RESERVED_HIGH:
		return pool->reserved_high;
	case ATTRIBUTE_USED:
		return pool->busy_bytes;
	}
	return pool->busy_high;
}

HIP_API hipError_t hipMemPoolGetAttribute(hipMemPool_t handle, int attribute, void *value)
{
	struct pool *pool;
	uint64_t number;

	HIP_ENTER(hipMemPoolGetAttribute);
	pool = pool_of(handle);
	if (!pool || !value || attribute < ATTRIBUTE_REUSE_FIRST || attribute > ATTRIBUTE_USED_HIGH)
		return HIP_LEAVE(hipErrorInvalidValue);
	pthread_mutex_lock(&pool->lock);
	number = pool_attribute_locked(pool, attribute);
	if (attribute <= ATTRIBUTE_REUSE_LAST)
		memcpy(value, &pool->reuse[attribute - ATTRIBUTE_REUSE_FIRST], sizeof(int32_t));
	else
		memcpy(value, &number, sizeof(number));
	pthread_mutex_unlock(&pool->lock);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemPoolSetAccess(hipMemPool_t handle, const void *access, size_t count)
{
	HIP_ENTER(hipMemPoolSetAccess);
	return HIP_LEAVE(pool_of(handle) && access && count ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemPoolGetAccess(int *flags, hipMemPool_t handle, const hipMemLocation *location)
{
	enum { READ_WRITE = 3 };

	HIP_ENTER(hipMemPoolGetAccess);
	if (!flags || !location || !pool_of(handle))
		return HIP_LEAVE(hipErrorInvalidValue);
	*flags = location->id == pool_of(handle)->device->index ? READ_WRITE : 0;
	return HIP_LEAVE(hipSuccess);
}

static hipError_t get_pool(hipMemPool_t *handle, int index, bool current)
{
	if (!handle)
		return hipErrorInvalidValue;
	if (index < 0 || index >= hip_device_count)
		return hipErrorInvalidDevice;
	*handle = (hipMemPool_t)(current ? hip_devices[index].current_pool : hip_devices[index].default_pool);
	return hipSuccess;
}

HIP_API hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *handle, int device)
{
	HIP_ENTER(hipDeviceGetDefaultMemPool);
	return HIP_LEAVE(get_pool(handle, device, false));
}

HIP_API hipError_t hipDeviceGetMemPool(hipMemPool_t *handle, int device)
{
	HIP_ENTER(hipDeviceGetMemPool);
	return HIP_LEAVE(get_pool(handle, device, true));
}

HIP_API hipError_t hipDeviceSetMemPool(int device, hipMemPool_t handle)
{
	struct pool *pool;

	HIP_ENTER(hipDeviceSetMemPool);
	pool = pool_of(handle);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!pool || pool->device != &hip_devices[device])
		return HIP_LEAVE(hipErrorInvalidValue);
	hip_devices[device].current_pool = pool;
	return HIP_LEAVE(hipSuccess);
}
