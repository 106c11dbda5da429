/* The part of the HSA runtime's binary interface that the stand-in serves and the stand-in HIP runtime uses.
 */
#ifndef SOFTGPU_HSA_ABI_H
#define SOFTGPU_HSA_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int hsa_status_t;
enum {
	HSA_STATUS_SUCCESS = 0,
	HSA_STATUS_INFO_BREAK = 1,
	HSA_STATUS_ERROR = 0x1000,
	HSA_STATUS_ERROR_INVALID_ARGUMENT = 0x1001,
	HSA_STATUS_ERROR_INVALID_QUEUE_CREATION = 0x1002,
	HSA_STATUS_ERROR_INVALID_ALLOCATION = 0x1003,
	HSA_STATUS_ERROR_INVALID_AGENT = 0x1004,
	HSA_STATUS_ERROR_INVALID_REGION = 0x1005,
	HSA_STATUS_ERROR_INVALID_QUEUE = 0x1007,
	HSA_STATUS_ERROR_OUT_OF_RESOURCES = 0x1008,
	HSA_STATUS_ERROR_NOT_INITIALIZED = 0x100B,
};

typedef struct hsa_agent_s {
	uint64_t handle;
} hsa_agent_t;
typedef struct hsa_signal_s {
	uint64_t handle;
} hsa_signal_t;
typedef struct hsa_region_s {
	uint64_t handle;
} hsa_region_t;
typedef struct hsa_amd_memory_pool_s {
	uint64_t handle;
} hsa_amd_memory_pool_t;
typedef struct hsa_amd_vmem_alloc_handle_s {
	uint64_t handle;
} hsa_amd_vmem_alloc_handle_t;

typedef struct hsa_queue_s {
	uint32_t type;
	uint32_t features;
	void *base_address;
	hsa_signal_t doorbell_signal;
	uint32_t size;
	uint32_t reserved1;
	uint64_t id;
} hsa_queue_t;

enum { HSA_DEVICE_TYPE_CPU = 0, HSA_DEVICE_TYPE_GPU = 1 };
enum {
	HSA_AMD_QUEUE_PRIORITY_LOW = 0,
	HSA_AMD_QUEUE_PRIORITY_NORMAL = 1,
	HSA_AMD_QUEUE_PRIORITY_HIGH = 2,
};
enum {
	HSA_AGENT_INFO_NAME = 0,
	HSA_AGENT_INFO_VENDOR_NAME = 1,
	HSA_AGENT_INFO_FEATURE = 2,
	HSA_AGENT_INFO_WAVEFRONT_SIZE = 6,
	HSA_AGENT_INFO_QUEUES_MAX = 12,
	HSA_AGENT_INFO_QUEUE_MIN_SIZE = 13,
	HSA_AGENT_INFO_QUEUE_MAX_SIZE = 14,
	HSA_AGENT_INFO_NODE = 16,
	HSA_AGENT_INFO_DEVICE = 17,
	HSA_AMD_AGENT_INFO_CHIP_ID = 0xA000,
	HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT = 0xA002,
	HSA_AMD_AGENT_INFO_DRIVER_NODE_ID = 0xA004,
	HSA_AMD_AGENT_INFO_BDFID = 0xA006,
	HSA_AMD_AGENT_INFO_PRODUCT_NAME = 0xA009,
	HSA_AMD_AGENT_INFO_DOMAIN = 0xA00F,
	HSA_AMD_AGENT_INFO_UUID = 0xA011,
	HSA_AMD_AGENT_INFO_MEMORY_AVAIL = 0xA015,
};
enum {
	HSA_AMD_SEGMENT_GLOBAL = 0,
	HSA_AMD_MEMORY_POOL_INFO_SEGMENT = 0,
	HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS = 1,
	HSA_AMD_MEMORY_POOL_INFO_SIZE = 2,
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED = 5,
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE = 6,
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT = 7,
	HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL = 15,
	HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE = 16,
	HSA_AMD_MEMORY_POOL_INFO_LOCATION = 17,
	HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE = 18,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT = 1,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED = 2,
	HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED = 4,
};
enum {
	HSA_SYSTEM_INFO_VERSION_MAJOR = 0,
	HSA_SYSTEM_INFO_VERSION_MINOR = 1,
	HSA_SYSTEM_INFO_TIMESTAMP = 2,
	HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY = 3,
	HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED = 0x201,
	HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED = 0x204,
	HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED = 0x205,
};

hsa_status_t hsa_init(void);
hsa_status_t hsa_shut_down(void);
hsa_status_t hsa_system_get_info(int attribute, void *value);
hsa_status_t hsa_status_string(hsa_status_t status, const char **text);
hsa_status_t hsa_iterate_agents(hsa_status_t (*each)(hsa_agent_t agent, void *data), void *data);
hsa_status_t hsa_agent_get_info(hsa_agent_t agent, int attribute, void *value);
hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
						hsa_status_t (*each)(hsa_amd_memory_pool_t pool, void *data),
						void *data);
hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool, int attribute, void *value);
hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
					  void **address);
hsa_status_t hsa_amd_memory_pool_free(void *address);
hsa_status_t hsa_agent_iterate_regions(hsa_agent_t agent,
				       hsa_status_t (*each)(hsa_region_t region, void *data), void *data);
hsa_status_t hsa_region_get_info(hsa_region_t region, int attribute, void *value);
hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void **address);
hsa_status_t hsa_memory_free(void *address);
hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, uint32_t type,
			      void (*callback)(int, hsa_queue_t *, void *), void *data,
			      uint32_t private_segment_size, uint32_t group_segment_size,
			      hsa_queue_t **queue);
hsa_status_t hsa_queue_destroy(hsa_queue_t *queue);
hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t *queue, int priority);
hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t *queue, uint32_t bits, const uint32_t *mask);
hsa_status_t hsa_amd_queue_cu_get_mask(const hsa_queue_t *queue, uint32_t bits, uint32_t *mask);
hsa_status_t hsa_amd_vmem_address_reserve(void **address, size_t size, uint64_t wish, uint64_t flags);
hsa_status_t hsa_amd_vmem_address_reserve_align(void **address, size_t size, uint64_t wish,
						uint64_t alignment, uint64_t flags);
hsa_status_t hsa_amd_vmem_address_free(void *address, size_t size);
hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size, int type, uint64_t flags,
					hsa_amd_vmem_alloc_handle_t *handle);
hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t handle);
hsa_status_t hsa_amd_vmem_map(void *address, size_t size, size_t offset, hsa_amd_vmem_alloc_handle_t handle,
			      uint64_t flags);
hsa_status_t hsa_amd_vmem_unmap(void *address, size_t size);
hsa_status_t hsa_amd_vmem_set_access(void *address, size_t size, const void *access, size_t count);
hsa_status_t hsa_amd_vmem_export_shareable_handle(int *fd, hsa_amd_vmem_alloc_handle_t handle,
						  uint64_t flags);
hsa_status_t hsa_amd_vmem_import_shareable_handle(int fd, hsa_amd_vmem_alloc_handle_t *handle);
hsa_status_t hsa_amd_agents_allow_access(uint32_t count, const hsa_agent_t *agents, const uint32_t *flags,
					 const void *address);

#endif
