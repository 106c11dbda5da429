/* A shell over HSA, linked to no HIP: one call a line, one answer a line, as test/e2e/hipsh.c. What OpenCL, OpenMP and UCX
 * do below their own names. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/hsa/hsa_abi.h"

enum { POOL_FLAGS = 1, FLAG_COARSE = 4, MOST = 4096, QUEUES = 64 };

static void *runtime;
static hsa_agent_t gpus[8];
static hsa_amd_memory_pool_t pools[8];
static unsigned gpu_count;
static unsigned gpu; /* the current one */
static void *blocks[MOST];
static unsigned block_count;
static hsa_queue_t *queues[QUEUES];
static unsigned queue_count;

#define CALL(name, params, args) (((hsa_status_t(*) params)dlsym(runtime, #name))args)

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *data)
{
	uint32_t segment = 9, flags = 0;

	(void)data;
	CALL(hsa_amd_memory_pool_get_info, (hsa_amd_memory_pool_t, int, void *), (pool, 0, &segment));
	CALL(hsa_amd_memory_pool_get_info, (hsa_amd_memory_pool_t, int, void *), (pool, POOL_FLAGS, &flags));
	if (segment == HSA_AMD_SEGMENT_GLOBAL && flags & FLAG_COARSE)
		pools[gpu_count] = pool;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_agent(hsa_agent_t agent, void *data)
{
	uint32_t type = 9;

	(void)data;
	CALL(hsa_agent_get_info, (hsa_agent_t, int, void *), (agent, HSA_AGENT_INFO_DEVICE, &type));
	if (type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	CALL(hsa_amd_agent_iterate_memory_pools,
	     (hsa_agent_t, hsa_status_t(*)(hsa_amd_memory_pool_t, void *), void *), (agent, on_pool, NULL));
	gpus[gpu_count++] = agent;
	return HSA_STATUS_SUCCESS;
}

static size_t size_of(const char *text)
{
	char *end;
	size_t n = strtoull(text, &end, 0);

	return *end == 'M' ? n << 20 : *end == 'K' ? n << 10 : n;
}

static void do_init(void)
{
	hsa_status_t status = CALL(hsa_init, (void), ());

	CALL(hsa_iterate_agents, (hsa_status_t(*)(hsa_agent_t, void *), void *), (on_agent, NULL));
	printf("%d gpus=%u\n", status, gpu_count);
}

/* fill SIZE: until it is refused */
static void do_fill(const char *argument)
{
	unsigned got = 0;
	hsa_status_t status = 0;

	while (block_count < MOST &&
	       !(status = CALL(hsa_amd_memory_pool_allocate, (hsa_amd_memory_pool_t, size_t, uint32_t, void **),
			       (pools[gpu], size_of(argument), 0, &blocks[block_count])))) {
		block_count++;
		got++;
	}
	printf("%d got=%u\n", status, got);
}

static void do_free(void)
{
	hsa_status_t status = 0;

	while (block_count)
		status |= CALL(hsa_amd_memory_pool_free, (void *), (blocks[--block_count]));
	printf("%d\n", status);
}

/* region SIZE: the older way */
static void do_region(const char *argument)
{
	hsa_status_t status = CALL(hsa_memory_allocate, (hsa_region_t, size_t, void **),
				   ((hsa_region_t){ pools[gpu].handle }, size_of(argument), &blocks[block_count]));

	block_count += !status;
	printf("%d\n", status);
}

/* queue BYTES: with so much private memory a work-item */
static void do_queue(const char *argument)
{
	hsa_status_t status = CALL(hsa_queue_create,
				   (hsa_agent_t, uint32_t, uint32_t, void *, void *, uint32_t, uint32_t, hsa_queue_t **),
				   (gpus[gpu], 4096, 0, NULL, NULL, (uint32_t)size_of(argument), 0,
				    &queues[queue_count]));

	queue_count += !status;
	printf("%d\n", status);
}

static void do_priority(const char *argument)
{
	printf("%d\n", CALL(hsa_amd_queue_set_priority, (hsa_queue_t *, int), (queues[0], atoi(argument))));
}

static void do_info(void)
{
	uint64_t size = 0, most = 0, left = 0;
	hsa_status_t status;

	CALL(hsa_amd_memory_pool_get_info, (hsa_amd_memory_pool_t, int, void *),
	     (pools[gpu], HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
	CALL(hsa_amd_memory_pool_get_info, (hsa_amd_memory_pool_t, int, void *),
	     (pools[gpu], HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE, &most));
	status = CALL(hsa_agent_get_info, (hsa_agent_t, int, void *), (gpus[gpu], HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &left));
	printf("%d total=%" PRIu64 " most=%" PRIu64 " free=%" PRIu64 "\n", status, size, most, left);
}

/* vmem SIZE: memory without an address, kept */
static void do_vmem(const char *argument)
{
	hsa_amd_vmem_alloc_handle_t handle;
	hsa_status_t (*create)(hsa_amd_memory_pool_t, size_t, int, uint64_t, hsa_amd_vmem_alloc_handle_t *) =
		(hsa_status_t(*)(hsa_amd_memory_pool_t, size_t, int, uint64_t, hsa_amd_vmem_alloc_handle_t *))dlsym(
			runtime, "hsa_amd_vmem_handle_create");

	if (!create) {
		printf("missing\n");
		return;
	}
	printf("%d\n", create(pools[gpu], size_of(argument), 0, 0, &handle));
}

static void run(char *line)
{
	const char *verb = strtok(line, " \n"), *argument = strtok(NULL, " \n");

	argument = argument ? argument : "0";
	if (!strcmp(verb, "init"))
		do_init();
	else if (!strcmp(verb, "gpu"))
		printf("0 gpu=%u\n", gpu = (unsigned)atoi(argument));
	else if (!strcmp(verb, "fill"))
		do_fill(argument);
	else if (!strcmp(verb, "free"))
		do_free();
	else if (!strcmp(verb, "region"))
		do_region(argument);
	else if (!strcmp(verb, "queue"))
		do_queue(argument);
	else if (!strcmp(verb, "priority"))
		do_priority(argument);
	else if (!strcmp(verb, "info"))
		do_info();
	else if (!strcmp(verb, "vmem"))
		do_vmem(argument);
	else if (!strcmp(verb, "shutdown"))
		printf("%d\n", CALL(hsa_shut_down, (void), ()));
	else
		printf("no such verb: %s\n", verb);
}

int main(void)
{
	char line[256];

	runtime = dlopen("libhsa-runtime64.so.1", RTLD_NOW);
	if (!runtime) {
		printf("no runtime: %s\n", dlerror());
		return 2;
	}
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		run(line);
		fflush(stdout);
	}
	return 0;
}
