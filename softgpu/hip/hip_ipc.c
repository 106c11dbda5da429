/* Memory of another process. An exported block becomes shared in place; whoever opens it maps the exporter's
 * pages and is charged nothing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hip.h"

enum { IPC_MAGIC = 0x69706368, PAGE = 4096 };

typedef struct hipIpcMemHandle_t {
	uint32_t magic;
	int pid;
	int fd;
	int reserved;
	uint64_t size;
	uint64_t offset;
	char unused[32];
} hipIpcMemHandle_t;
_Static_assert(sizeof(hipIpcMemHandle_t) == 64, "HIP_IPC_HANDLE_SIZE");

struct exported {
	int fd;
	size_t bytes;
};

static size_t pages_of(size_t size)
{
	return (size + PAGE - 1) & -(size_t)PAGE;
}

/* Only pages that were ever touched have something to copy. */
static bool copy_touched(int fd, const char *from, size_t bytes)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry;
	bool done = pagemap >= 0;

	for (size_t at = 0; done && at < bytes; at += PAGE) {
		off_t index = (off_t)(((uintptr_t)from + at) / PAGE * sizeof(entry));

		done = pread(pagemap, &entry, sizeof(entry), index) == sizeof(entry);
		if (done && entry >> 62)
			done = pwrite(fd, from + at, PAGE, at) == PAGE;
	}
	if (pagemap >= 0)
		close(pagemap);
	return done;
}

static struct exported *export_block(struct block *block)
{
	struct exported *exported = calloc(1, sizeof(*exported));
	size_t bytes = pages_of(block->size);

	if (!exported)
		return NULL;
	exported->bytes = bytes;
	exported->fd = memfd_create("softgpu-ipc", MFD_CLOEXEC);
	if (exported->fd >= 0 && !ftruncate(exported->fd, bytes) &&
	    copy_touched(exported->fd, block->address, bytes) &&
	    mmap(block->address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, exported->fd, 0) !=
		MAP_FAILED)
		return exported;
	if (exported->fd >= 0)
		close(exported->fd);
	free(exported);
	return NULL;
}

static void make_private(char *address, size_t bytes)
{
	mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
	     -1, 0);
}

/* Those who opened it keep the pages, as with a buffer of the driver. */
void ipc_withdraw(struct block *block)
{
	struct exported *exported = block->detail;

	block->detail = NULL;
	make_private(block->address, exported->bytes);
	close(exported->fd);
	free(exported);
}

HIP_API hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *ptr)
{
	struct exported *exported;
	struct block *block;

	HIP_ENTER(hipIpcGetMemHandle);
	block = ptr ? hip_find(ptr) : NULL;
	if (!handle || !block || block->kind != KIND_DEVICE)
		return HIP_LEAVE(hipErrorInvalidValue);
	pthread_mutex_lock(&hip_lock);
	if (!block->detail)
		block->detail = export_block(block);
	exported = block->detail;
	pthread_mutex_unlock(&hip_lock);
	if (!exported)
		return HIP_LEAVE(hipErrorInvalidValue);
	memset(handle, 0, sizeof(*handle));
	handle->magic = IPC_MAGIC;
	handle->pid = getpid();
	handle->fd = exported->fd;
	handle->size = block->size;
	handle->offset = (char *)ptr - block->address;
	return HIP_LEAVE(hipSuccess);
}

static hipError_t attach(void **ptr, const hipIpcMemHandle_t *handle)
{
	size_t bytes = pages_of(handle->size);
	char path[64];
	void *address;
	struct block *block;
	bool mapped;
	int fd;

	if (hip_softgpu->take(-1, bytes, &address))
		return hipErrorOutOfMemory;
	block = hip_softgpu->find(address);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	mapped = fd >= 0 &&
		 mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
	if (fd >= 0)
		close(fd);
	if (!mapped) {
		hip_softgpu->give(block);
		return hipErrorInvalidValue;
	}
	block->device = hip_thread.device;
	block->kind = KIND_IPC;
	block->owner = (void *)&hip_self;
	*ptr = (char *)address + handle->offset;
	return hipSuccess;
}

/* The flag, and the process must not be the exporter. */
HIP_API hipError_t hipIpcOpenMemHandle(void **ptr, hipIpcMemHandle_t handle, unsigned flags)
{
	unsigned lazy_peer_access;

	HIP_ENTER(hipIpcOpenMemHandle);
	lazy_peer_access = hip_release < 60 ? 0 : 1;
	if (!ptr || flags != lazy_peer_access || handle.magic != IPC_MAGIC)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (handle.pid == getpid())
		return HIP_LEAVE(hipErrorInvalidContext);
	return HIP_LEAVE(attach(ptr, &handle));
}

void ipc_detach(struct block *block)
{
	make_private(block->address, pages_of(block->size));
	hip_softgpu->give(block);
}

HIP_API hipError_t hipIpcCloseMemHandle(void *ptr)
{
	struct block *block;

	HIP_ENTER(hipIpcCloseMemHandle);
	block = ptr ? hip_find(ptr) : NULL;
	if (!block || block->kind != KIND_IPC)
		return HIP_LEAVE(hipErrorInvalidValue);
	ipc_detach(block);
	return HIP_LEAVE(hipSuccess);
}
