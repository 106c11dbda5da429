/* The part of the HSA runtime's binary interface that we need, declared by ourselves (HSA Runtime 1.2 and the AMD extension;
 * the same in ROCm 5.2 to 7.2). */
#ifndef AMVGPU_HSA_ABI_H
#define AMVGPU_HSA_ABI_H

#include <stdint.h>

typedef int hsa_status_t;
enum { HSA_STATUS_SUCCESS = 0, HSA_STATUS_ERROR_OUT_OF_RESOURCES = 0x1008 };

typedef struct {
	uint64_t handle;
} hsa_agent_t;

typedef struct hsa_queue_s hsa_queue_t;

enum {
	HSA_AMD_QUEUE_PRIORITY_LOW = 0,
	HSA_AMD_QUEUE_PRIORITY_NORMAL = 1,
	HSA_AMD_QUEUE_PRIORITY_HIGH = 2,
};

#endif
