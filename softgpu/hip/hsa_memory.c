/* Memory of pools: charged to the row in the state, then cut from the arena. */
#include "hsa.h"

uint64_t hsa_round(uint64_t size)
{
	uint64_t granularity = hsa.settings.granularity;

	return (size + granularity - 1) / granularity * granularity;
}

int hsa_take(int row, size_t size, void **address)
{
	uint64_t charged = row < 0 ? 0 : hsa_round(size);
	struct block *block;

	if (!hsa_is_usable())
		return hsa.is_forked ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!size || !address)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (charged < size && row >= 0)
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	if (row >= 0 && charged > state_capacity(row))
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	if (charged && !state_take(row, charged))
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	block = arena_take(size);
	if (!block) {
		if (charged)
			state_give(row, charged);
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	}
	block->row = row;
	block->charged = charged;
	*address = block->address;
	return HSA_STATUS_SUCCESS;
}

bool hsa_give(struct block *block)
{
	uint64_t charged = block->charged;
	int row = block->row;

	if (!atomic_exchange(&block->live, 0))
		return false;
	arena_give(block);
	if (charged)
		state_give(row, charged);
	return true;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
					  void **address)
{
	int row = hsa_pool_row(pool);

	HSA_ENTER(hsa_amd_memory_pool_allocate);
	(void)flags;
	return row < 0 ? HSA_STATUS_ERROR_INVALID_ARGUMENT : hsa_take(row, size, address);
}

hsa_status_t hsa_amd_memory_pool_free(void *address)
{
	struct block *block;

	HSA_ENTER(hsa_amd_memory_pool_free);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!address)
		return HSA_STATUS_SUCCESS;
	block = arena_find(address);
	if (!block || block->address != address || !hsa_give(block))
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	return HSA_STATUS_SUCCESS;
}

/* A region's handle is its pool's. */
hsa_status_t hsa_memory_allocate(hsa_region_t region, size_t size, void **address)
{
	int row = hsa_pool_row((hsa_amd_memory_pool_t){region.handle});

	HSA_ENTER(hsa_memory_allocate);
	return row < 0 ? HSA_STATUS_ERROR_INVALID_REGION : hsa_take(row, size, address);
}

hsa_status_t hsa_memory_free(void *address)
{
	struct block *block;

	HSA_ENTER(hsa_memory_free);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	block = arena_find(address);
	if (!address)
		return HSA_STATUS_SUCCESS;
	return block && hsa_give(block) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

hsa_status_t hsa_amd_agents_allow_access(uint32_t count, const hsa_agent_t *agents, const uint32_t *flags,
					 const void *address)
{
	HSA_ENTER(hsa_amd_agents_allow_access);
	(void)flags;
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	return count && agents && address ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}
