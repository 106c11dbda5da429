/* Which device of the limits an HSA agent or memory pool belongs to.
 *
 * Learned once from the runtime, after its hsa_init; by the kernel's node number where its topology can be read, else by the
 * order of agents. On the program's threads.
 */
#ifndef AMVGPU_HSA_DEVICES_H
#define AMVGPU_HSA_DEVICES_H

#include "hsa_abi.h"

enum { HSA_GPUS = 64, HSA_POOLS = 256, HSA_DEVICE_NONE = -1 };

/* The runtime's own functions, as devices_learn asks them. */
struct hsa_questions {
	hsa_status_t (*iterate_agents)(hsa_status_t (*)(hsa_agent_t, void *), void *);
	hsa_status_t (*agent_get_info)(hsa_agent_t, int, void *);
	hsa_status_t (*iterate_pools)(hsa_agent_t, hsa_status_t (*)(hsa_amd_memory_pool_t, void *), void *);
	hsa_status_t (*pool_get_info)(hsa_amd_memory_pool_t, int, void *);
};

struct hsa_devices {
	unsigned agent_count, pool_count;
	struct {
		uint64_t handle;
		int device;
	} agent[HSA_GPUS], pool[HSA_POOLS]; /* GPUs, and their global memory */
};

void devices_learn(struct hsa_devices *devices, const struct hsa_questions *ask);

/* HSA_DEVICE_NONE: not a GPU's. */
int devices_of_agent(const struct hsa_devices *devices, hsa_agent_t agent);
int devices_of_pool(const struct hsa_devices *devices, uint64_t pool);

#endif
