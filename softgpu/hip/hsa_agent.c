/* Agents and memory pools: one CPU, and the visible GPUs. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hsa.h"

#define CHECK_USABLE()                                                                                       \
	do {                                                                                                 \
		if (!hsa_is_usable())                                                                        \
			return HSA_STATUS_ERROR_NOT_INITIALIZED;                                             \
	} while (0)

int hsa_agent_row(hsa_agent_t agent)
{
	int row = (int)(agent.handle - AGENT_BASE);

	return row >= 0 && row <= STATE_HOST ? row : -1;
}

int hsa_pool_row(hsa_amd_memory_pool_t pool)
{
	int row = (int)(pool.handle - POOL_BASE) / 16;

	return pool.handle >= POOL_BASE && row <= STATE_HOST ? row : -1;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*each)(hsa_agent_t agent, void *data), void *data)
{
	hsa_status_t status;

	CHECK_USABLE();
	if (!each)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	status = each((hsa_agent_t){AGENT_BASE + STATE_HOST}, data);
	for (int i = 0; !status && i < hsa.row_count; i++)
		status = each((hsa_agent_t){AGENT_BASE + hsa.rows[i]}, data);
	return status;
}

static int node_of(int row)
{
	return row == STATE_HOST ? 0 : row + 1;
}

#define ANSWER(type, answer) (*(type *)value = (answer), HSA_STATUS_SUCCESS)

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, int attribute, void *value)
{
	int row = hsa_agent_row(agent);
	bool is_gpu = row != STATE_HOST;
	uint64_t used;

	CHECK_USABLE();
	if (row < 0)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	switch (attribute) {
	case HSA_AGENT_INFO_NAME:
		snprintf(value, 64, "%s", is_gpu ? hsa.settings.arch : "softgpu host");
		return HSA_STATUS_SUCCESS;
	case HSA_AGENT_INFO_VENDOR_NAME:
		snprintf(value, 64, "%s", is_gpu ? "AMD" : "CPU");
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
		snprintf(value, 64, "softgpu %s", is_gpu ? hsa.settings.arch : "host");
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_AGENT_INFO_UUID:
		if (is_gpu)
			hsa_device_uuid(row, value, 21);
		else
			strcpy(value, "CPU-XX");
		return HSA_STATUS_SUCCESS;
	case HSA_AGENT_INFO_FEATURE:
		return ANSWER(uint32_t, is_gpu ? 1 : 2);
	case HSA_AGENT_INFO_WAVEFRONT_SIZE:
		return ANSWER(uint32_t, is_gpu ? 64 : 0);
	case HSA_AGENT_INFO_QUEUES_MAX:
		return ANSWER(uint32_t, is_gpu ? 128 : 0);
	case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
		return ANSWER(uint32_t, is_gpu ? 64 : 0);
	case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
		return ANSWER(uint32_t, is_gpu ? 131072 : 0);
	case HSA_AGENT_INFO_NODE:
	case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
		return ANSWER(uint32_t, node_of(row));
	case HSA_AGENT_INFO_DEVICE:
		return ANSWER(uint32_t, is_gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU);
	case HSA_AMD_AGENT_INFO_CHIP_ID:
		return ANSWER(uint32_t, is_gpu ? 0x740f : 0);
	case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
		return ANSWER(uint32_t, is_gpu ? hsa.settings.cus : 1);
	case HSA_AMD_AGENT_INFO_BDFID:
		return ANSWER(uint32_t, is_gpu ? (uint32_t)(row + 1) << 8 : 0);
	case HSA_AMD_AGENT_INFO_DOMAIN:
		return ANSWER(uint32_t, 0);
	case HSA_AMD_AGENT_INFO_MEMORY_AVAIL:
		if (!is_gpu)
			return HSA_STATUS_ERROR_INVALID_ARGUMENT;
		used = state_held(row) + state_others(row);
		return ANSWER(uint64_t, state_capacity(row) > used ? state_capacity(row) - used : 0);
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent,
						hsa_status_t (*each)(hsa_amd_memory_pool_t pool, void *data),
						void *data)
{
	int row = hsa_agent_row(agent), kinds = row == STATE_HOST ? 3 : 2;
	hsa_status_t status = HSA_STATUS_SUCCESS;

	CHECK_USABLE();
	if (row < 0)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	for (int kind = 0; !status && kind < kinds; kind++)
		status = each((hsa_amd_memory_pool_t){POOL_BASE + (uint64_t)row * 16 + kind}, data);
	return status;
}

static uint32_t pool_flags(hsa_amd_memory_pool_t pool)
{
	switch (pool.handle % 16) {
	case POOL_FINE:
		return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
	case POOL_KERNARG:
		return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED |
		       HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
	}
	return HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool, int attribute, void *value)
{
	int row = hsa_pool_row(pool);
	uint64_t bytes;

	CHECK_USABLE();
	if (row < 0 || !value)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	bytes = row == STATE_HOST ? 64ull << 30 : state_capacity(row);
	switch (attribute) {
	case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
		return ANSWER(uint32_t, HSA_AMD_SEGMENT_GLOBAL);
	case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
		return ANSWER(uint32_t, pool_flags(pool));
	case HSA_AMD_MEMORY_POOL_INFO_SIZE:
	case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
		return ANSWER(uint64_t, bytes);
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
		return ANSWER(bool, true);
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
		return ANSWER(uint64_t, 4096);
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE:
		return ANSWER(uint64_t, 2 << 20);
	case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
		return ANSWER(bool, row == STATE_HOST);
	case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
		return ANSWER(uint32_t, row == STATE_HOST ? 0 : 1);
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* A region is a pool by its older name: the handle is the same. */
hsa_status_t hsa_agent_iterate_regions(hsa_agent_t agent,
				       hsa_status_t (*each)(hsa_region_t region, void *data), void *data)
{
	int row = hsa_agent_row(agent);
	hsa_status_t status = HSA_STATUS_SUCCESS;

	CHECK_USABLE();
	if (row < 0)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	for (int kind = 0; !status && kind < (row == STATE_HOST ? 3 : 2); kind++)
		status = each((hsa_region_t){POOL_BASE + (uint64_t)row * 16 + kind}, data);
	return status;
}

hsa_status_t hsa_region_get_info(hsa_region_t region, int attribute, void *value)
{
	enum { ALLOC_MAX_SIZE = 4 };

	if (attribute == ALLOC_MAX_SIZE)
		attribute = HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE;
	else if (attribute > HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	return hsa_amd_memory_pool_get_info((hsa_amd_memory_pool_t){region.handle}, attribute, value);
}

hsa_status_t hsa_system_get_info(int attribute, void *value)
{
	struct timespec now;

	CHECK_USABLE();
	switch (attribute) {
	case HSA_SYSTEM_INFO_VERSION_MAJOR:
	case HSA_SYSTEM_INFO_VERSION_MINOR:
		return ANSWER(uint16_t, 1);
	case HSA_SYSTEM_INFO_TIMESTAMP:
		clock_gettime(CLOCK_MONOTONIC, &now);
		return ANSWER(uint64_t, (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec);
	case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY:
		return ANSWER(uint64_t, 1000000000);
	case HSA_AMD_SYSTEM_INFO_SVM_SUPPORTED:
		return ANSWER(bool, hsa.settings.managed);
	case HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED:
	case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED:
		return ANSWER(bool, true);
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char **text)
{
	if (!text)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	switch (status) {
	case HSA_STATUS_SUCCESS:
		*text = "HSA_STATUS_SUCCESS: The function has been executed successfully.";
		return HSA_STATUS_SUCCESS;
	case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
		*text = "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary "
			"resources.";
		return HSA_STATUS_SUCCESS;
	default:
		*text = "HSA_STATUS_ERROR: A generic error has occurred.";
		return HSA_STATUS_SUCCESS;
	}
}
