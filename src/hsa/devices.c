/* See devices.h. */
#include "devices.h"

#include "../hip/settings.h"
#include "../kfd/topology.h"

struct learning {
	struct hsa_devices *devices;
	const struct hsa_questions *ask;
	unsigned ordinal; /* of the GPU in the runtime's numbering */
	int device;
};

static hsa_status_t learn_pool(hsa_amd_memory_pool_t pool, void *data)
{
	struct learning *l = data;
	uint32_t segment = UINT32_MAX;

	if (l->ask->pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment) == HSA_STATUS_SUCCESS &&
	    segment == HSA_AMD_SEGMENT_GLOBAL && l->devices->pool_count < HSA_POOLS) {
		l->devices->pool[l->devices->pool_count].handle = pool.handle;
		l->devices->pool[l->devices->pool_count++].device = l->device;
	}
	return HSA_STATUS_SUCCESS;
}

static int device_of_agent(const struct learning *l, hsa_agent_t agent)
{
	const struct topology_gpu *gpu;
	uint32_t node = 0;

	if (l->ask->agent_get_info(agent, HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &node) == HSA_STATUS_SUCCESS &&
	    (gpu = topology_by_node(node)))
		return gpu->device;
	return (int)settings_agent_index(l->ordinal);
}

static hsa_status_t learn_agent(hsa_agent_t agent, void *data)
{
	struct learning *l = data;
	uint32_t type = UINT32_MAX;

	if (l->ask->agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) != HSA_STATUS_SUCCESS ||
	    type != HSA_DEVICE_TYPE_GPU || l->devices->agent_count == HSA_GPUS)
		return HSA_STATUS_SUCCESS;
	l->device = device_of_agent(l, agent);
	l->ordinal++;
	l->devices->agent[l->devices->agent_count].handle = agent.handle;
	l->devices->agent[l->devices->agent_count++].device = l->device;
	l->ask->iterate_pools(agent, learn_pool, l);
	return HSA_STATUS_SUCCESS;
}

void devices_learn(struct hsa_devices *devices, const struct hsa_questions *ask)
{
	struct learning l = { .devices = devices, .ask = ask };

	if (ask->iterate_agents && ask->agent_get_info && ask->iterate_pools && ask->pool_get_info)
		ask->iterate_agents(learn_agent, &l);
}

int devices_of_agent(const struct hsa_devices *devices, hsa_agent_t agent)
{
	for (unsigned i = 0; i < devices->agent_count; i++) {
		if (devices->agent[i].handle == agent.handle)
			return devices->agent[i].device;
	}
	return HSA_DEVICE_NONE;
}

int devices_of_pool(const struct hsa_devices *devices, uint64_t pool)
{
	for (unsigned i = 0; i < devices->pool_count; i++) {
		if (devices->pool[i].handle == pool)
			return devices->pool[i].device;
	}
	return HSA_DEVICE_NONE;
}
