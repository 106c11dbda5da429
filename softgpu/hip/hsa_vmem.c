/* Virtual memory: physical memory without an address (a handle), and addresses without memory (a
 * reservation).
 *
 * A handle's memory is a shared mapping of its own; mapping it elsewhere duplicates that mapping by mremap
 * with an old size of 0, so that thousands of handles need no descriptors. A handle that is exported gets one
 * (memfd). It is given back when it was released and is mapped nowhere.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hsa.h"

enum { HANDLE_MAGIC = 0x68616e64 };

struct handle {
	uint32_t magic;
	int row;
	size_t size;
	uint64_t charged;
	char *memory; /* NULL until it is mapped */
	int fd;       /* -1 unless exported or imported */
	int references;
};

struct mapping {
	char *address;
	size_t size;
	struct handle *handle;
	struct mapping *next;
};

static pthread_mutex_t vmem_lock =
    PTHREAD_MUTEX_INITIALIZER; /* references of handles, the list of mappings */
static struct mapping *vmem_mappings;

static struct handle *handle_of(hsa_amd_vmem_alloc_handle_t handle)
{
	struct handle *h = (struct handle *)handle.handle;

	return h && h->magic == HANDLE_MAGIC ? h : NULL;
}

static void handle_put_locked(struct handle *h)
{
	if (--h->references)
		return;
	if (h->memory)
		munmap(h->memory, h->size);
	if (h->fd >= 0)
		close(h->fd);
	if (h->charged)
		state_give(h->row, h->charged);
	h->magic = 0;
	free(h);
}

static bool handle_back_locked(struct handle *h, bool with_descriptor)
{
	int flags = MAP_SHARED | MAP_NORESERVE | (with_descriptor ? 0 : MAP_ANONYMOUS);

	if (h->memory)
		return !with_descriptor || h->fd >= 0;
	if (with_descriptor && h->fd < 0) {
		h->fd = memfd_create("softgpu", MFD_CLOEXEC);
		if (h->fd < 0 || ftruncate(h->fd, h->size))
			return false;
	}
	h->memory = mmap(NULL, h->size, PROT_READ | PROT_WRITE, flags, with_descriptor ? h->fd : -1, 0);
	if (h->memory == MAP_FAILED)
		h->memory = NULL;
	return h->memory;
}

static struct handle *handle_new(int row, size_t size, uint64_t charged)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->magic = HANDLE_MAGIC;
	h->row = row;
	h->size = size;
	h->charged = charged;
	h->fd = -1;
	h->references = 1;
	return h;
}

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size, int type, uint64_t flags,
					hsa_amd_vmem_alloc_handle_t *handle)
{
	int row = hsa_pool_row(pool);
	uint64_t charged = hsa_round(size);
	struct handle *h;

	HSA_ENTER(hsa_amd_vmem_handle_create);
	(void)type, (void)flags;
	if (!hsa_is_usable())
		return hsa.is_forked ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (row < 0 || !handle || !size || size % 4096)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (charged < size || !state_take(row, charged))
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	h = handle_new(row, size, charged);
	if (!h) {
		state_give(row, charged);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	handle->handle = (uint64_t)h;
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t handle)
{
	struct handle *h = handle_of(handle);

	HSA_ENTER(hsa_amd_vmem_handle_release);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!h)
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	pthread_mutex_lock(&vmem_lock);
	handle_put_locked(h);
	pthread_mutex_unlock(&vmem_lock);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_address_reserve_align(void **address, size_t size, uint64_t wish,
						uint64_t alignment, uint64_t flags)
{
	char *at;

	HSA_ENTER(hsa_amd_vmem_address_reserve_align);
	(void)flags;
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!address || !size || size % 4096)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (alignment < 4096)
		alignment = 4096;
	at = mmap((void *)wish, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		  0);
	if (at == MAP_FAILED)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	*address = (void *)(((uintptr_t)at + alignment - 1) / alignment * alignment);
	if ((char *)*address > at)
		munmap(at, (char *)*address - at);
	munmap((char *)*address + size, at + alignment - (char *)*address);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_address_reserve(void **address, size_t size, uint64_t wish, uint64_t flags)
{
	HSA_ENTER(hsa_amd_vmem_address_reserve);
	return hsa_amd_vmem_address_reserve_align(address, size, wish, 0, flags);
}

hsa_status_t hsa_amd_vmem_address_free(void *address, size_t size)
{
	HSA_ENTER(hsa_amd_vmem_address_free);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!address || !size || munmap(address, size))
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_map(void *address, size_t size, size_t offset, hsa_amd_vmem_alloc_handle_t handle,
			      uint64_t flags)
{
	struct handle *h = handle_of(handle);
	struct mapping *mapping;
	bool mapped;

	HSA_ENTER(hsa_amd_vmem_map);
	(void)flags;
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!h || !address || !size || offset + size > h->size)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	mapping = malloc(sizeof(*mapping));
	if (!mapping)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	pthread_mutex_lock(&vmem_lock);
	mapped = handle_back_locked(h, false) &&
		 mremap(h->memory + offset, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, address) != MAP_FAILED;
	if (mapped) {
		h->references++;
		*mapping = (struct mapping){address, size, h, vmem_mappings};
		vmem_mappings = mapping;
	}
	pthread_mutex_unlock(&vmem_lock);
	if (mapped)
		return HSA_STATUS_SUCCESS;
	free(mapping);
	return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

/* The addresses stay reserved. */
hsa_status_t hsa_amd_vmem_unmap(void *address, size_t size)
{
	hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
	struct mapping **at, *mapping = NULL;

	HSA_ENTER(hsa_amd_vmem_unmap);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&vmem_lock);
	for (at = &vmem_mappings; *at; at = &(*at)->next) {
		if ((*at)->address == address && (*at)->size == size) {
			mapping = *at;
			break;
		}
	}
	if (mapping) {
		*at = mapping->next;
		mmap(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		     0);
		handle_put_locked(mapping->handle);
		free(mapping);
		status = HSA_STATUS_SUCCESS;
	}
	pthread_mutex_unlock(&vmem_lock);
	return status;
}

hsa_status_t hsa_amd_vmem_set_access(void *address, size_t size, const void *access, size_t count)
{
	HSA_ENTER(hsa_amd_vmem_set_access);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	return address && size && access && count ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_vmem_export_shareable_handle(int *fd, hsa_amd_vmem_alloc_handle_t handle, uint64_t flags)
{
	struct handle *h = handle_of(handle);
	bool backed;

	HSA_ENTER(hsa_amd_vmem_export_shareable_handle);
	(void)flags;
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!h || !fd)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&vmem_lock);
	backed = handle_back_locked(h, true);
	*fd = backed ? dup(h->fd) : -1;
	pthread_mutex_unlock(&vmem_lock);
	return *fd < 0 ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_SUCCESS;
}

/* Memory of somebody else: whoever exported it holds it. */
hsa_status_t hsa_amd_vmem_import_shareable_handle(int fd, hsa_amd_vmem_alloc_handle_t *handle)
{
	struct handle *h;
	off_t size = lseek(fd, 0, SEEK_END);

	HSA_ENTER(hsa_amd_vmem_import_shareable_handle);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!handle || size <= 0)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	h = handle_new(STATE_HOST, size, 0);
	if (!h)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	h->fd = dup(fd);
	h->memory = mmap(NULL, h->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, h->fd, 0);
	if (h->memory == MAP_FAILED)
		h->memory = NULL;
	handle->handle = (uint64_t)h;
	return h->memory ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

void hsa_vmem_forget(void)
{
	pthread_mutex_init(&vmem_lock, NULL);
	vmem_mappings = NULL;
}
