/* The part of the HSA runtime's binary interface that we need, declared by ourselves (HSA Runtime 1.2 and AMD's extension;
 * the same in ROCm 5.2 to 7.2). */
#ifndef AMVGPU_HSA_ABI_H
#define AMVGPU_HSA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int hsa_status_t;
enum { HSA_STATUS_SUCCESS = 0, HSA_STATUS_ERROR_OUT_OF_RESOURCES = 0x1008 };

typedef struct {
	uint64_t handle;
} hsa_agent_t;

/* A region and a pool of the same memory have the same handle in ROCr. */
typedef struct {
	uint64_t handle;
} hsa_amd_memory_pool_t;
typedef struct {
	uint64_t handle;
} hsa_region_t;
typedef struct {
	uint64_t handle;
} hsa_amd_vmem_alloc_handle_t;

typedef struct hsa_queue_s hsa_queue_t;

enum {
	HSA_AMD_QUEUE_PRIORITY_LOW = 0,
	HSA_AMD_QUEUE_PRIORITY_NORMAL = 1,
	HSA_AMD_QUEUE_PRIORITY_HIGH = 2,
};

enum { HSA_DEVICE_TYPE_GPU = 1 };
enum {
	HSA_AGENT_INFO_DEVICE = 17,
	HSA_AMD_AGENT_INFO_DRIVER_NODE_ID = 0xA004,
	HSA_AMD_AGENT_INFO_MEMORY_AVAIL = 0xA015,
};
enum {
	HSA_AMD_SEGMENT_GLOBAL = 0,
	HSA_AMD_MEMORY_POOL_INFO_SEGMENT = 0,
	HSA_AMD_MEMORY_POOL_INFO_SIZE = 2,
	HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE = 16,
	HSA_REGION_INFO_SIZE = 2,
	HSA_REGION_INFO_ALLOC_MAX_SIZE = 4,
};

#endif
