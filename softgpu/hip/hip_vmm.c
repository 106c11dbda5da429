/* Virtual memory management: hipMemCreate, hipMemMap and so on.
 *
 * From 6.x a handle has one reference from its creation and one for each mapping; its memory goes with the
 * last. 5.x has no virtual memory below: a handle is a plain allocation that hipMemRelease gives back at
 * once, and cannot be mapped.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hip.h"

enum { VMM_GRANULARITY = 4096, CLR_GRANULARITY = 2048, PINNED = 1, UNCACHED = 0x40000000 };

struct memory {
	struct device *device;
	int references;
	size_t size;
	hsa_amd_vmem_alloc_handle_t handle;
	void *address; /* 5.x */
	hipMemAllocationProp prop;
	struct memory *next;
};

struct map {
	char *address;
	size_t size;
	struct memory *memory;
	struct map *next;
};

static pthread_mutex_t vmm_lock = PTHREAD_MUTEX_INITIALIZER; /* the two lists, references */
static struct memory *memories;
static struct map *maps;

static struct memory *memory_of(hipMemGenericAllocationHandle_t handle)
{
	return handle_is(handle, HANDLE_MEMORY) ? (struct memory *)handle : NULL;
}

static void memory_put_locked(struct memory *memory)
{
	struct memory **at;

	if (--memory->references)
		return;
	for (at = &memories; *at != memory; at = &(*at)->next)
		;
	*at = memory->next;
	handle_remove(memory, HANDLE_MEMORY);
	if (memory->handle.handle)
		hsa_amd_vmem_handle_release(memory->handle);
	if (memory->address)
		hsa_amd_memory_pool_free(memory->address);
	free(memory);
}

static void memory_put(struct memory *memory)
{
	pthread_mutex_lock(&vmm_lock);
	memory_put_locked(memory);
	pthread_mutex_unlock(&vmm_lock);
}

static struct memory *memory_new(struct device *device, size_t size)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	memory->device = device;
	memory->size = size;
	memory->references = 1;
	pthread_mutex_lock(&vmm_lock);
	memory->next = memories;
	memories = memory;
	pthread_mutex_unlock(&vmm_lock);
	handle_add(memory, HANDLE_MEMORY);
	return memory;
}

/* Where a property says the memory is to be, in the layout of this release; 7.2.4 takes the current device
 * instead. */
static hipError_t locate(const hipMemAllocationProp *prop, struct device **device, bool *is_host)
{
	const int *old = (const int *)prop; /* 5.2.3: location at 4, type at 16 */
	int type = hip_release == 52 ? old[4] : prop->type;
	int location_type = hip_release == 52 ? old[1] : prop->location.type;
	int id = hip_release == 52 ? old[2] : prop->location.id;

	if (type != PINNED && (type != UNCACHED || hip_release < 70))
		return hipErrorInvalidValue;
	*is_host = hip_release >= 70 && location_type == hipMemLocationTypeHost;
	*device = hip_device_here();
	if (*is_host)
		return hipSuccess;
	if (location_type != hipMemLocationTypeDevice || id < 0 || id >= hip_device_count)
		return hipErrorInvalidValue;
	if (hip_release < 70)
		*device = &hip_devices[id];
	return hipSuccess;
}

static hipError_t memory_fill(struct memory *memory, bool is_host, bool is_shareable)
{
	hsa_amd_memory_pool_t pool = is_host ? hip_host_memory : memory->device->memory;
	int fd;

	if (hip_release < 60)
		return hsa_amd_memory_pool_allocate(pool, memory->size, 0, &memory->address);
	if (hsa_amd_vmem_handle_create(pool, memory->size, 0, 0, &memory->handle))
		return hipErrorOutOfMemory;
	if (is_shareable && !hsa_amd_vmem_export_shareable_handle(&fd, memory->handle, 0))
		close(fd); /* from now on it can be exported */
	return hipSuccess;
}

HIP_API hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size,
				const hipMemAllocationProp *prop, unsigned long long flags)
{
	struct device *device;
	struct memory *memory;
	hipError_t error;
	bool is_host;

	HIP_ENTER(hipMemCreate);
	if (!handle || !size || !prop || flags || size % CLR_GRANULARITY)
		return HIP_LEAVE(hipErrorInvalidValue);
	error = locate(prop, &device, &is_host);
	if (error)
		return HIP_LEAVE(error);
	memory = memory_new(device, size);
	if (!memory)
		return HIP_LEAVE(hipErrorOutOfMemory);
	if (memory_fill(memory, is_host, hip_release > 52 && prop->requestedHandleType)) {
		memory_put(memory);
		hip_query_memory();
		return HIP_LEAVE(hipErrorOutOfMemory);
	}
	memcpy(&memory->prop, prop, sizeof(*prop));
	*handle = (hipMemGenericAllocationHandle_t)memory;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
	struct memory *memory;

	HIP_ENTER(hipMemRelease);
	memory = memory_of(handle);
	if (!memory)
		return HIP_LEAVE(hipErrorInvalidValue);
	memory_put(memory);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemAddressReserve(void **ptr, size_t size, size_t alignment, void *wish,
					unsigned long long flags)
{
	HIP_ENTER(hipMemAddressReserve);
	if (!ptr || !size || flags || size % VMM_GRANULARITY || (alignment & (alignment - 1)))
		return HIP_LEAVE(hipErrorInvalidValue);
	if (hip_release < 60)
		return HIP_LEAVE(hipErrorNotSupported);
	if (hsa_amd_vmem_address_reserve_align(ptr, size, (uint64_t)wish, alignment, 0))
		return HIP_LEAVE(hipErrorOutOfMemory);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemAddressFree(void *ptr, size_t size)
{
	HIP_ENTER(hipMemAddressFree);
	if (!ptr || !size)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (hip_release < 60)
		return HIP_LEAVE(hipErrorNotSupported);
	return HIP_LEAVE(hsa_amd_vmem_address_free(ptr, size) ? hipErrorInvalidValue : hipSuccess);
}

HIP_API hipError_t hipMemMap(void *ptr, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle,
			     unsigned long long flags)
{
	struct memory *memory;
	struct map *map;

	HIP_ENTER(hipMemMap);
	memory = memory_of(handle);
	if (!ptr || !memory || !size || flags || offset)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (hip_release < 60)
		return HIP_LEAVE(hip_release == 52 ? hipErrorInvalidValue : hipErrorNotSupported);
	map = malloc(sizeof(*map));
	if (!map)
		return HIP_LEAVE(hipErrorOutOfMemory);
	if (hsa_amd_vmem_map(ptr, size, offset, memory->handle, 0)) {
		free(map);
		return HIP_LEAVE(hipErrorInvalidValue);
	}
	pthread_mutex_lock(&vmm_lock);
	memory->references++;
	*map = (struct map){ptr, size, memory, maps};
	maps = map;
	pthread_mutex_unlock(&vmm_lock);
	return HIP_LEAVE(hipSuccess);
}

static struct map *map_remove(char *address, size_t size)
{
	struct map **at, *map;

	pthread_mutex_lock(&vmm_lock);
	for (at = &maps; (map = *at); at = &map->next) {
		if (map->address == address && map->size == size) {
			*at = map->next;
			break;
		}
	}
	pthread_mutex_unlock(&vmm_lock);
	return map;
}

HIP_API hipError_t hipMemUnmap(void *ptr, size_t size)
{
	struct map *map;

	HIP_ENTER(hipMemUnmap);
	if (!ptr || !size)
		return HIP_LEAVE(hipErrorInvalidValue);
	map = map_remove(ptr, size);
	if (!map)
		return HIP_LEAVE(hipErrorInvalidValue);
	hsa_amd_vmem_unmap(ptr, size);
	memory_put(map->memory);
	free(map);
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemSetAccess(void *ptr, size_t size, const void *access, size_t count)
{
	HIP_ENTER(hipMemSetAccess);
	if (!ptr || !size || !access || !count)
		return HIP_LEAVE(hipErrorInvalidValue);
	return HIP_LEAVE(hsa_amd_vmem_set_access(ptr, size, access, count) ? hipErrorInvalidValue
									   : hipSuccess);
}

HIP_API hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *ptr)
{
	enum { READ_WRITE = 3 };

	HIP_ENTER(hipMemGetAccess);
	if (!flags || !location || !ptr)
		return HIP_LEAVE(hipErrorInvalidValue);
	*flags = READ_WRITE;
	return HIP_LEAVE(hipSuccess);
}

/* 0 where there is no virtual memory. */
HIP_API hipError_t hipMemGetAllocationGranularity(size_t *granularity, const void *prop, int option)
{
	HIP_ENTER(hipMemGetAllocationGranularity);
	if (!granularity || !prop || option < 0 || option > 1)
		return HIP_LEAVE(hipErrorInvalidValue);
	*granularity = hip_release < 60 ? 0 : VMM_GRANULARITY;
	return HIP_LEAVE(hipSuccess);
}

HIP_API hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *prop,
							   hipMemGenericAllocationHandle_t handle)
{
	struct memory *memory;

	HIP_ENTER(hipMemGetAllocationPropertiesFromHandle);
	memory = memory_of(handle);
	if (!prop || !memory)
		return HIP_LEAVE(hipErrorInvalidValue);
	memcpy(prop, &memory->prop, sizeof(*prop));
	return HIP_LEAVE(hipSuccess);
}

/* Takes no reference. */
HIP_API hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address)
{
	struct map *map;

	HIP_ENTER(hipMemRetainAllocationHandle);
	if (!handle || !address)
		return HIP_LEAVE(hipErrorInvalidValue);
	pthread_mutex_lock(&vmm_lock);
	for (map = maps; map && (size_t)((char *)address - map->address) >= map->size; map = map->next)
		;
	*handle = map ? (hipMemGenericAllocationHandle_t)map->memory : NULL;
	pthread_mutex_unlock(&vmm_lock);
	return HIP_LEAVE(map ? hipSuccess : hipErrorInvalidValue);
}

HIP_API hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle,
						 int type, unsigned long long flags)
{
	struct memory *memory;

	HIP_ENTER(hipMemExportToShareableHandle);
	memory = memory_of(handle);
	if (!shareable || !memory || type != 1 || flags || !memory->handle.handle)
		return HIP_LEAVE(hipErrorInvalidValue);
	return HIP_LEAVE(hsa_amd_vmem_export_shareable_handle(shareable, memory->handle, 0)
			     ? hipErrorInvalidValue
			     : hipSuccess);
}

/* The osHandle is the descriptor itself. */
HIP_API hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *shareable,
						   int type)
{
	struct memory *memory;

	HIP_ENTER(hipMemImportFromShareableHandle);
	if (!handle || type != 1)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (hip_release < 60)
		return HIP_LEAVE(hipErrorNotSupported);
	memory = memory_new(hip_device_here(), 0);
	if (!memory)
		return HIP_LEAVE(hipErrorOutOfMemory);
	if (hsa_amd_vmem_import_shareable_handle((int)(intptr_t)shareable, &memory->handle)) {
		memory_put(memory);
		return HIP_LEAVE(hipErrorInvalidValue);
	}
	*handle = (hipMemGenericAllocationHandle_t)memory;
	return HIP_LEAVE(hipSuccess);
}

/* hipDeviceReset on 7.2.4 also takes outstanding handles. */
void vmm_drop_all(struct device *device)
{
	struct memory *memory, *next;
	struct map **at, *map;

	if (hip_release < 70)
		return;
	pthread_mutex_lock(&vmm_lock);
	for (at = &maps; (map = *at);) {
		if (map->memory->device != device) {
			at = &map->next;
			continue;
		}
		*at = map->next;
		hsa_amd_vmem_unmap(map->address, map->size);
		free(map);
	}
	for (memory = memories; memory; memory = next) {
		next = memory->next;
		if (memory->device == device) {
			memory->references = 1;
			memory_put_locked(memory);
		}
	}
	pthread_mutex_unlock(&vmm_lock);
}

void vmm_forget(void)
{
	pthread_mutex_init(&vmm_lock, NULL);
	memories = NULL;
	maps = NULL;
}
