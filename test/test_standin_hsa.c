/* The stand-in libhsa-runtime64 by itself, as OpenCL, UCX and OpenMP use it. It needs SOFTGPU_STATE and two
 * devices. */
#include "../softgpu/hip/hsa_abi.h"
#include "../softgpu/hip/state.h"
#include "test.h"

static hsa_agent_t cpu, gpus[4];
static int gpu_count;

static hsa_status_t see_agent(hsa_agent_t agent, void *data)
{
	uint32_t type;

	(void)data;
	hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
	if (type == HSA_DEVICE_TYPE_GPU)
		gpus[gpu_count++] = agent;
	else
		cpu = agent;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t first_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t first_region(hsa_region_t region, void *data)
{
	*(hsa_region_t *)data = region;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_amd_memory_pool_t pool_of(hsa_agent_t agent)
{
	hsa_amd_memory_pool_t pool = {0};

	CHECK_EQ(hsa_amd_agent_iterate_memory_pools(agent, first_pool, &pool), HSA_STATUS_INFO_BREAK);
	return pool;
}

static uint64_t held(void)
{
	static const struct state *s;

	if (!s)
		s = state_map(getenv("SOFTGPU_STATE"), false);
	return state_sum_held(s, 0);
}

static uint64_t available(void)
{
	uint64_t bytes = 0;

	CHECK_EQ(hsa_agent_get_info(gpus[0], HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &bytes), HSA_STATUS_SUCCESS);
	return bytes;
}

TEST(nothing_works_before_hsa_init)
{
	void *p;

	CHECK_EQ(hsa_iterate_agents(see_agent, NULL), HSA_STATUS_ERROR_NOT_INITIALIZED);
	CHECK_EQ(hsa_amd_memory_pool_free(&p), HSA_STATUS_ERROR_NOT_INITIALIZED);
	CHECK_EQ(hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
}

TEST(there_are_a_cpu_and_two_gpus)
{
	char name[64];

	CHECK_EQ(hsa_init(), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_iterate_agents(see_agent, NULL), HSA_STATUS_SUCCESS);
	CHECK_EQ(gpu_count, 2);
	CHECK(cpu.handle);
	CHECK_EQ(hsa_agent_get_info(gpus[0], HSA_AGENT_INFO_NAME, name), HSA_STATUS_SUCCESS);
	CHECK_TEXT(name, "gfx90a");
	CHECK_EQ(hsa_agent_get_info(gpus[1], HSA_AMD_AGENT_INFO_UUID, name), HSA_STATUS_SUCCESS);
	CHECK_TEXT(name, "GPU-50f7000000000001");
}

TEST(a_pool_gives_memory_and_takes_it_back_and_the_agent_says_what_is_left)
{
	hsa_amd_memory_pool_t pool = pool_of(gpus[0]);
	uint64_t before = available();
	void *p;

	CHECK_EQ(hsa_amd_memory_pool_allocate(pool, 5000, 0, &p), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 8192);
	CHECK_EQ(before - available(), 8192);
	CHECK_EQ(hsa_amd_memory_pool_free((char *)p + 1), HSA_STATUS_ERROR_INVALID_ALLOCATION);
	CHECK_EQ(hsa_amd_memory_pool_free(p), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_memory_pool_free(p), HSA_STATUS_ERROR_INVALID_ALLOCATION);
	CHECK_EQ(held(), 0);
	CHECK_EQ(hsa_amd_memory_pool_allocate(pool, 0, 0, &p), HSA_STATUS_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(hsa_amd_memory_pool_allocate(pool, 17ull << 30, 0, &p), HSA_STATUS_ERROR_INVALID_ALLOCATION);
}

TEST(memory_that_ran_out_is_out_of_resources)
{
	hsa_amd_memory_pool_t pool = pool_of(gpus[0]);
	void *p, *q;

	CHECK_EQ(hsa_amd_memory_pool_allocate(pool, 10ull << 30, 0, &p), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_memory_pool_allocate(pool, 10ull << 30, 0, &q), HSA_STATUS_ERROR_OUT_OF_RESOURCES);
	CHECK_EQ(hsa_amd_memory_pool_free(p), HSA_STATUS_SUCCESS);
}

TEST(host_memory_takes_none_of_a_device)
{
	void *p;

	CHECK_EQ(hsa_amd_memory_pool_allocate(pool_of(cpu), 20ull << 30, 0, &p), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 0);
	CHECK_EQ(hsa_amd_memory_pool_free(p), HSA_STATUS_SUCCESS);
}

TEST(a_region_is_a_pool_by_another_name)
{
	uint64_t pool_size = 0, region_size = 1;
	hsa_region_t region = {0};
	void *p;

	CHECK_EQ(hsa_agent_iterate_regions(gpus[0], first_region, &region), HSA_STATUS_INFO_BREAK);
	CHECK_EQ(hsa_region_get_info(region, 2, &region_size), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_memory_pool_get_info(pool_of(gpus[0]), HSA_AMD_MEMORY_POOL_INFO_SIZE, &pool_size),
		 HSA_STATUS_SUCCESS);
	CHECK_EQ(region_size, pool_size);
	CHECK_EQ(region_size, 16ull << 30);
	CHECK_EQ(hsa_memory_allocate(region, 4096, &p), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 4096);
	CHECK_EQ(hsa_memory_free(p), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 0);
}

TEST(a_handles_memory_goes_with_its_release_and_its_last_unmapping)
{
	hsa_amd_vmem_alloc_handle_t handle;
	void *address;

	CHECK_EQ(hsa_amd_vmem_handle_create(pool_of(gpus[0]), 4096 + 1, 0, 0, &handle),
		 HSA_STATUS_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(hsa_amd_vmem_handle_create(pool_of(gpus[0]), 8192, 0, 0, &handle), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_vmem_address_reserve(&address, 8192, 0, 0), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_vmem_map(address, 8192, 0, handle, 0), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_vmem_handle_release(handle), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 8192);
	((char *)address)[8191] = 1;
	CHECK_EQ(hsa_amd_vmem_unmap(address, 8192), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 0);
	CHECK_EQ(hsa_amd_vmem_address_free(address, 8192), HSA_STATUS_SUCCESS);
}

TEST(a_queue_has_the_real_layout_and_three_priorities)
{
	hsa_queue_t *queue = NULL;

	CHECK_EQ(hsa_queue_create(cpu, 64, 0, NULL, NULL, 0, 0, &queue),
		 HSA_STATUS_ERROR_INVALID_QUEUE_CREATION);
	CHECK_EQ(hsa_queue_create(gpus[0], 100, 0, NULL, NULL, 0, 0, &queue),
		 HSA_STATUS_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(hsa_queue_create(gpus[0], 128, 0, NULL, NULL, 0, 0, &queue), HSA_STATUS_SUCCESS);
	CHECK_EQ(sizeof(*queue), 40);
	CHECK_EQ(queue->size, 128);
	for (int priority = 0; priority < 3; priority++)
		CHECK_EQ(hsa_amd_queue_set_priority(queue, priority), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_queue_set_priority(queue, 3), HSA_STATUS_ERROR_INVALID_ARGUMENT);
	CHECK_EQ(hsa_queue_destroy(queue), HSA_STATUS_SUCCESS);
}

TEST(the_last_shutting_down_gives_everything_back_and_a_new_start_works)
{
	void *p;

	CHECK_EQ(hsa_init(), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_memory_pool_allocate(pool_of(gpus[0]), 4096, 0, &p), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_shut_down(), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 4096);
	CHECK_EQ(hsa_shut_down(), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 0);
	CHECK_EQ(hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
	CHECK_EQ(hsa_init(), HSA_STATUS_SUCCESS);
	CHECK_EQ(hsa_amd_memory_pool_allocate(pool_of(gpus[0]), 4096, 0, &p), HSA_STATUS_SUCCESS);
	CHECK_EQ(held(), 4096);
	CHECK_EQ(hsa_amd_memory_pool_free(p), HSA_STATUS_SUCCESS);
}

TEST_MAIN()
