/* Memory objects of this process, as the KFD and DRM commands see them.
 *
 *   object     this process's view of an extent (VRAM, GTT), of user memory, or of doorbell and register
 * pages handle     a KFD handle: card's gpu_id and an index, the lowest free one, reused at once, as the
 * kernel does An object lives while a KFD handle, a GEM handle or an open dma-buf refers to it. Every
 * allocation of VRAM is charged to the process that made it; importing charges nothing. Any thread; functions
 * return 0 or -errno. */
#ifndef KFDEMU_MEMORY_H
#define KFDEMU_MEMORY_H

#include "state.h"
#include "uapi.h"

struct object {
	uint64_t address, size, offset, serial;
	uint64_t user_address; /* of user memory */
	uint32_t flags;        /* KFD_IOC_ALLOC_MEM_FLAGS_* */
	int card;
	int row; /* in the oracle; -1: not backed by the memory file */
	int references;
	int dmabuf_fd; /* our own description of its dma-buf's file; -1: none is open */
	struct object *next;
};

int memory_allocate(struct kfd_ioctl_alloc_memory_of_gpu_args *args);
int memory_free(uint64_t handle);
int memory_map(struct kfd_ioctl_map_memory_to_gpu_args *args);
int memory_unmap(struct kfd_ioctl_unmap_memory_from_gpu_args *args);
int memory_available(struct kfd_ioctl_get_available_memory_args *args);
int memory_dmabuf_info(struct kfd_ioctl_get_dmabuf_info_args *args);
int memory_import(struct kfd_ioctl_import_dmabuf_args *args);
int memory_export(struct kfd_ioctl_export_dmabuf_args *args);
int memory_ipc_import(struct kfd_ioctl_ipc_import_args *args);
int memory_ipc_export(struct kfd_ioctl_ipc_export_args *args);

/* For DRM. The caller holds memory_lock(). A returned object has one reference more. */
void memory_lock(void);
void memory_unlock(void);
int object_create_locked(int card, uint64_t size, uint32_t flags, enum kind kind, struct object **out);
void object_put_locked(struct object *object);
void object_set_kind_locked(struct object *object, enum kind kind);
int object_export_locked(struct object *object); /* a new descriptor */
int object_import_locked(int fd, struct object **out);

/* An address as a card sees it, as an address of this process. They differ for locked user memory without
 * SVM. */
void *memory_pointer(uint64_t address);

/* The extent's part behind ADDRESS mapped read-only for the caller to munmap; NULL: no such object. */
struct memory_view {
	void *base;        /* of the whole object */
	uint64_t size, at; /* at: where ADDRESS is, from base */
};
struct memory_view memory_view(uint64_t address);

/* The object that ADDRESS lies in is of this kind. */
void memory_set_kind(uint64_t address, enum kind kind);

/* Frees what only closed dma-bufs still referred to. Cheap when none are out. */
void memory_collect(void);
void memory_forget(void);

#endif
