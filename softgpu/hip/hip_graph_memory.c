/* Memory of alloc nodes, and the graph pool of each device that keeps what they freed. */
#include <stdlib.h>
#include <string.h>

#include "hip_graph.h"

/* The graph pool of each device: physical memory without addresses. */
struct kept {
	size_t size;
	hsa_amd_vmem_alloc_handle_t backing;
	struct kept *next;
};
static struct graph_pool {
	struct kept *kept;
	uint64_t used, used_high, reserved, reserved_high;
} graph_pools[SOFTGPU_DEVICES_MAX];
pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER; /* pools, backing and references */

static void note_locked(struct graph_pool *pool)
{
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
}

static struct kept *kept_find_locked(struct graph_pool *pool, size_t size)
{
	struct kept **at, *kept;

	for (at = &pool->kept; (kept = *at); at = &kept->next) {
		if (kept->size == size) {
			*at = kept->next;
			return kept;
		}
	}
	return NULL;
}

/* Physical memory for an alloc node, kept from before or new. */
bool graph_memory_back_locked(struct graph_memory *memory)
{
	struct graph_pool *pool = &graph_pools[memory->device->index];
	struct kept *kept = kept_find_locked(pool, memory->size);

	if (kept) {
		memory->backing = kept->backing;
		free(kept);
	} else if (hsa_amd_vmem_handle_create(memory->device->memory, memory->size, 0, 0, &memory->backing)) {
		memory->backing.handle = 0;
		return false;
	} else {
		pool->reserved += memory->size;
	}
	pool->used += memory->size;
	note_locked(pool);
	return true;
}

void graph_memory_unback_locked(struct graph_memory *memory)
{
	struct graph_pool *pool = &graph_pools[memory->device->index];
	struct kept *kept = malloc(sizeof(*kept));

	if (!kept)
		abort();
	*kept = (struct kept){memory->size, memory->backing, pool->kept};
	pool->kept = kept;
	pool->used -= memory->size;
	memory->backing.handle = 0;
}

hipError_t graph_memory_give(struct graph_memory *memory)
{
	bool is_backed;

	pthread_mutex_lock(&graph_lock);
	is_backed = memory->backing.handle;
	if (is_backed)
		graph_memory_unback_locked(memory);
	pthread_mutex_unlock(&graph_lock);
	return is_backed ? hipSuccess : hipErrorInvalidValue;
}

void graph_memory_put_locked(struct graph_memory *memory)
{
	if (--memory->references)
		return;
	if (memory->backing.handle)
		graph_memory_unback_locked(memory);
	hip_softgpu->give(memory->block);
	free(memory);
}

static void graph_pool_trim(struct device *device)
{
	struct graph_pool *pool = &graph_pools[device->index];
	struct kept *kept;

	pthread_mutex_lock(&graph_lock);
	while ((kept = pool->kept)) {
		pool->kept = kept->next;
		pool->reserved -= kept->size;
		hsa_amd_vmem_handle_release(kept->backing);
		free(kept);
	}
	pthread_mutex_unlock(&graph_lock);
}

/* hipDeviceReset: the graph pool goes with the others. */
void graph_drop_all(struct device *device)
{
	graph_pool_trim(device);
}

void graph_forget(void)
{
	pthread_mutex_init(&graph_lock, NULL);
	memset(graph_pools, 0, sizeof(graph_pools));
}

void graph_settle(struct device *device)
{
	if (hip_release >= 60 && graph_pools[device->index].kept)
		graph_pool_trim(device);
}

hipError_t graph_memory_new(struct device *device, size_t size, struct graph_memory **result)
{
	struct graph_memory *memory = calloc(1, sizeof(*memory));
	void *address = NULL;
	bool is_backed = true;

	if (!memory)
		return hipErrorOutOfMemory;
	memory->size = (size + 4095) & ~(size_t)4095;
	memory->device = device;
	memory->references = 1;
	memory->params.bytesize = size;
	if (hip_softgpu->take(-1, memory->size, &address)) {
		free(memory);
		return hipErrorOutOfMemory;
	}
	memory->params.dptr = address;
	memory->block = hip_softgpu->find(address);
	memory->block->owner = (void *)&hip_self;
	memory->block->kind = KIND_GRAPH;
	memory->block->device = device->index;
	memory->block->detail = memory;
	pthread_mutex_lock(&graph_lock);
	if (hip_release < 60)
		is_backed = graph_memory_back_locked(memory);
	if (!is_backed)
		graph_memory_put_locked(memory);
	pthread_mutex_unlock(&graph_lock);
	*result = memory;
	return is_backed ? hipSuccess : hipErrorOutOfMemory;
}

HIP_API hipError_t hipDeviceGraphMemTrim(int device)
{
	HIP_ENTER(hipDeviceGraphMemTrim);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	graph_pool_trim(&hip_devices[device]);
	return HIP_LEAVE(hipSuccess);
}

enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH };

HIP_API hipError_t hipDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	struct graph_pool *pool;
	uint64_t numbers[4];

	HIP_ENTER(hipDeviceGetGraphMemAttribute);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!value || attribute < USED || attribute > RESERVED_HIGH)
		return HIP_LEAVE(hipErrorInvalidValue);
	pool = &graph_pools[device];
	pthread_mutex_lock(&graph_lock);
	numbers[USED] = pool->used;
	numbers[USED_HIGH] = pool->used_high;
	numbers[RESERVED] = pool->reserved;
	numbers[RESERVED_HIGH] = pool->reserved_high;
	pthread_mutex_unlock(&graph_lock);
	memcpy(value, &numbers[attribute], sizeof(uint64_t));
	return HIP_LEAVE(hipSuccess);
}

/* Only the high-water marks can be set, to the present value. */
HIP_API hipError_t hipDeviceSetGraphMemAttribute(int device, int attribute, void *value)
{
	struct graph_pool *pool;

	HIP_ENTER(hipDeviceSetGraphMemAttribute);
	if (device < 0 || device >= hip_device_count)
		return HIP_LEAVE(hipErrorInvalidDevice);
	if (!value || (attribute != USED_HIGH && attribute != RESERVED_HIGH))
		return HIP_LEAVE(hipErrorInvalidValue);
	pool = &graph_pools[device];
	pthread_mutex_lock(&graph_lock);
	if (attribute == USED_HIGH)
		pool->used_high = pool->used;
	else
		pool->reserved_high = pool->reserved;
	pthread_mutex_unlock(&graph_lock);
	return HIP_LEAVE(hipSuccess);
}
