/* The kernel interfaces we look at: AMD's KFD and DRM, declared by ourselves.
 *
 * The library is built against kernel headers as old as KFD 1.6; these structures are the kernel's stable uAPI
 * (include/uapi/linux/kfd_ioctl.h 1.17, drm/drm.h, drm/amdgpu_drm.h). Commands are compared with their direction: the
 * console's ioctls share KFD's letter.
 */
#ifndef AMVGPU_KFD_ABI_H
#define AMVGPU_KFD_ABI_H

#include <stdint.h>

#define IOC_COMMAND(direction, letter, number, size)                                                                   \
	((uint32_t)(direction) << 30 | (uint32_t)(size) << 16 | (uint32_t)(letter) << 8 | (uint32_t)(number))
enum { IOC_W = 1, IOC_WR = 3 };

struct kfd_create_queue {
	uint64_t ring_base_address, write_pointer_address, read_pointer_address, doorbell_offset;
	uint32_t ring_size, gpu_id, queue_type, queue_percentage;
	uint32_t queue_priority; /* 0..15 */
	uint32_t queue_id;	 /* out */
	uint64_t eop_buffer_address, eop_buffer_size, ctx_save_restore_address;
	uint32_t ctx_save_restore_size, ctl_stack_size;
};
enum { KFD_QUEUE_COMPUTE = 0, KFD_QUEUE_COMPUTE_AQL = 2 };

struct kfd_destroy_queue {
	uint32_t queue_id, pad;
};

struct kfd_update_queue {
	uint64_t ring_base_address;
	uint32_t queue_id, ring_size, queue_percentage, queue_priority;
};

struct kfd_set_cu_mask {
	uint32_t queue_id;
	uint32_t num_cu_mask; /* bits; a multiple of 32 */
	uint64_t cu_mask_ptr;
};

struct kfd_alloc_memory {
	uint64_t va_addr, size;
	uint64_t handle; /* out */
	uint64_t mmap_offset;
	uint32_t gpu_id, flags;
};
enum { KFD_ALLOC_VRAM = 1 << 0, KFD_ALLOC_AQL_QUEUE_MEM = 1 << 27 /* the ring is mapped twice */ };

struct kfd_free_memory {
	uint64_t handle;
};

struct kfd_import_dmabuf {
	uint64_t va_addr;
	uint64_t handle; /* out */
	uint32_t gpu_id, dmabuf_fd;
};

struct kfd_export_dmabuf {
	uint64_t handle;
	uint32_t flags;
	uint32_t dmabuf_fd; /* out */
};

struct kfd_available_memory {
	uint64_t available; /* out */
	uint32_t gpu_id, pad;
};

struct kfd_svm_attribute {
	uint32_t type, value;
};
struct kfd_svm {
	uint64_t start_addr, size;
	uint32_t op, nattr;
	struct kfd_svm_attribute attrs[];
};
enum { KFD_SVM_OP_SET_ATTR = 0, KFD_SVM_ATTR_PREFERRED_LOC = 0, KFD_SVM_ATTR_PREFETCH_LOC = 1 };
#define KFD_SVM_LOCATION_UNDEFINED UINT32_MAX /* 0 is system memory */

#define KFD_CREATE_QUEUE     IOC_COMMAND(IOC_WR, 'K', 0x02, sizeof(struct kfd_create_queue))
#define KFD_DESTROY_QUEUE    IOC_COMMAND(IOC_WR, 'K', 0x03, sizeof(struct kfd_destroy_queue))
#define KFD_UPDATE_QUEUE     IOC_COMMAND(IOC_W, 'K', 0x07, sizeof(struct kfd_update_queue))
#define KFD_ALLOC_MEMORY     IOC_COMMAND(IOC_WR, 'K', 0x16, sizeof(struct kfd_alloc_memory))
#define KFD_FREE_MEMORY	     IOC_COMMAND(IOC_W, 'K', 0x17, sizeof(struct kfd_free_memory))
#define KFD_SET_CU_MASK	     IOC_COMMAND(IOC_W, 'K', 0x1a, sizeof(struct kfd_set_cu_mask))
#define KFD_IMPORT_DMABUF    IOC_COMMAND(IOC_WR, 'K', 0x1d, sizeof(struct kfd_import_dmabuf))
#define KFD_AVAILABLE_MEMORY IOC_COMMAND(IOC_WR, 'K', 0x23, sizeof(struct kfd_available_memory))
#define KFD_EXPORT_DMABUF    IOC_COMMAND(IOC_WR, 'K', 0x24, sizeof(struct kfd_export_dmabuf))
/* The thunk adds the size of the attributes to this one, so its size field varies. */
#define KFD_SVM		     IOC_COMMAND(IOC_WR, 'K', 0x20, 0)
/* A newer header's structure is the older one and more behind it; the kernel takes either, by number. The direction tells
 * them from the console's, which have none. */
#define IOC_WITHOUT_SIZE(command) ((command) & 0xc000ffffu)
#define IOC_SIZE(command) ((command) >> 16 & 0x3fffu)

struct drm_gem_close {
	uint32_t handle, pad;
};

struct drm_prime {
	uint32_t handle, flags;
	int32_t fd;
};

union drm_gem_create {
	struct {
		uint64_t bo_size, alignment, domains, domain_flags;
	} in;
	struct {
		uint32_t handle, pad;
	} out;
};
enum { DRM_DOMAIN_VRAM = 4 };

#define DRM_GEM_CLOSE	       IOC_COMMAND(IOC_W, 'd', 0x09, sizeof(struct drm_gem_close))
#define DRM_PRIME_HANDLE_TO_FD IOC_COMMAND(IOC_WR, 'd', 0x2d, sizeof(struct drm_prime))
#define DRM_PRIME_FD_TO_HANDLE IOC_COMMAND(IOC_WR, 'd', 0x2e, sizeof(struct drm_prime))
#define DRM_GEM_CREATE	       IOC_COMMAND(IOC_WR, 'd', 0x40, sizeof(union drm_gem_create))

_Static_assert(KFD_CREATE_QUEUE == 0xc0584b02 && KFD_ALLOC_MEMORY == 0xc0284b16 && KFD_FREE_MEMORY == 0x40084b17 &&
		       KFD_EXPORT_DMABUF == 0xc0104b24 && DRM_GEM_CREATE == 0xc0206440 &&
		       DRM_PRIME_FD_TO_HANDLE == 0xc00c642e && DRM_GEM_CLOSE == 0x40086409,
	       "a structure has another size than the kernel's");

#endif
