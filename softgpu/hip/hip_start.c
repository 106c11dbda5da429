/* Initialisation, once, at the first call of whatever function; failures to order. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "hip.h"

_Thread_local struct hip_thread hip_thread __attribute__((tls_model("initial-exec")));
const struct softgpu *hip_softgpu;
int hip_release = RELEASE;
struct device hip_devices[SOFTGPU_DEVICES_MAX];
int hip_device_count;
hsa_agent_t hip_host_agent;
hsa_amd_memory_pool_t hip_host_memory;
pthread_mutex_t hip_lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic bool hip_is_ready;
bool hip_has_failures;
const char hip_self = 0;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool start_is_forked;

static const char *const function_names[] = {
#define ALLOC(name, ...) [FN_##name] = #name,
#define FREE(name, ...) [FN_##name] = #name,
#define HAND(name, ...) [FN_##name] = #name,
#define PASS(name, ...) [FN_##name] = #name,
#define EXTRA(name, ...) [FN_##name] = #name,
#define STUB(name, ...) [FN_##name] = #name,
#include "../../src/hip/hip_api.def"
#include "standin_extra.def"
};

static struct failure failures[FN_COUNT];

hipError_t hip_failure_due(enum hip_function function)
{
	return failure_due(&failures[function]);
}

static hsa_status_t first_pool(hsa_amd_memory_pool_t pool, void *data)
{
	*(hsa_amd_memory_pool_t *)data = pool;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t see_agent(hsa_agent_t agent, void *data)
{
	struct device *found = data;
	uint32_t type;

	hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
	if (type == HSA_DEVICE_TYPE_CPU) {
		hip_host_agent = agent;
		hsa_amd_agent_iterate_memory_pools(agent, first_pool, &hip_host_memory);
		return HSA_STATUS_SUCCESS;
	}
	while (found->agent.handle)
		found++;
	hsa_agent_get_info(agent, HSA_AMD_AGENT_INFO_DRIVER_NODE_ID, &found->row);
	found->row--;
	found->agent = agent;
	hsa_amd_agent_iterate_memory_pools(agent, first_pool, &found->memory);
	return HSA_STATUS_SUCCESS;
}

static int agent_named(const struct device *found, const char *name, size_t length)
{
	char uuid[32], *end;
	int count = 0;
	long index;

	for (; count < SOFTGPU_DEVICES_MAX && found[count].agent.handle; count++) {
		hsa_agent_get_info(found[count].agent, HSA_AMD_AGENT_INFO_UUID, uuid);
		if (strlen(uuid) == length && !strncasecmp(uuid, name, length))
			return count;
	}
	index = strtol(name, &end, 10);
	return length && end == name + length && index >= 0 && index < count ? (int)index : -1;
}

static const char *visible_list(void)
{
	const char *list = getenv("HIP_VISIBLE_DEVICES");

	if (!list || !*list)
		list = getenv("CUDA_VISIBLE_DEVICES");
	return list && *list ? list : NULL;
}

/* HIP_VISIBLE_DEVICES: indices or UUIDs among what ROCR_VISIBLE_DEVICES left; the list ends at the first that
 * is wrong. */
static void select_devices(const struct device *found)
{
	const char *list = visible_list();
	unsigned seen = 0;

	if (!list)
		for (int i = 0; i < SOFTGPU_DEVICES_MAX && found[i].agent.handle; i++)
			hip_devices[hip_device_count++] = found[i];
	while (list && *list && hip_device_count < SOFTGPU_DEVICES_MAX) {
		size_t length = strcspn(list, ",");
		int i = agent_named(found, list, length);

		if (i < 0 || seen & 1u << i)
			break;
		seen |= 1u << i;
		hip_devices[hip_device_count++] = found[i];
		list += length + (list[length] == ',');
	}
	for (int i = 0; i < hip_device_count; i++)
		hip_devices[i].index = i;
}

static void child_after_fork(void)
{
	if (!hip_is_ready)
		return;
	if (!hip_softgpu->settings->fork) {
		start_is_forked = true; /* as libhsakmt marks its child: the driver refuses everything */
		return;
	}
	hip_is_ready = false;
	hip_device_count = 0;
	memset(hip_devices, 0, sizeof(hip_devices));
	pool_forget();
	vmm_forget();
	graph_forget();
	pthread_mutex_init(&hip_lock, NULL);
	pthread_mutex_init(&start_lock, NULL);
}

static hipError_t start_locked(void)
{
	struct device found[SOFTGPU_DEVICES_MAX + 1] = {{0}};
	static bool is_known;
	void *context;

	if (hsa_init())
		return hipErrorNoDevice;
	hip_softgpu = softgpu_open();
	if (RELEASE == 57 && hip_softgpu->settings->release == 52)
		hip_release = 52;
	if (!is_known) {
		hip_has_failures = failure_load(hip_softgpu->settings->fail, "hip", function_names, FN_COUNT,
						failures, hipErrorOutOfMemory);
		pthread_atfork(NULL, NULL, child_after_fork);
		is_known = true;
	}
	hsa_iterate_agents(see_agent, found);
	select_devices(found);
	for (int i = 0; i < hip_device_count; i++) {
		if (pool_start(&hip_devices[i]))
			return hipErrorOutOfMemory;
		if (hip_softgpu->settings->context)
			hsa_amd_memory_pool_allocate(hip_devices[i].memory, hip_softgpu->settings->context, 0,
						     &context);
	}
	return hip_device_count ? hipSuccess : hipErrorNoDevice;
}

hipError_t hip_start(void)
{
	static hipError_t error = -1;

	pthread_mutex_lock(&start_lock);
	if (error && error != hipErrorNoDevice) {
		error = start_locked();
	} else if (!error && !hip_is_ready && !start_is_forked) {
		error = start_locked(); /* SOFTGPU_FORK=1, in the child */
	}
	if (!error)
		atomic_store_explicit(&hip_is_ready, true, memory_order_release);
	pthread_mutex_unlock(&start_lock);
	return error;
}
