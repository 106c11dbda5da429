/* See hsa_copy.h. */
#include "hsa_copy.h"

#include "devices.h"
#include "../hip/gate.h"
#include "../hip/settings.h"
#include "../loader/program_libc.h"
#include "../sys/log.h"
#include "../sys/once.h"

enum { HSA_COPIES = 4 };

enum hsa_function {
#define HSA(name, ...) HSA_##name,
#include "hsa_api.def"
#undef HSA
	HSA_FUNCTIONS,
};

struct hsa_copy {
	struct link_map *map;
	struct patch_result patched;
	void *original[HSA_FUNCTIONS];
	uint32_t is_learned; /* once */
	struct hsa_questions ask;
	struct hsa_devices devices;
};

static struct hsa_copy hsa_copies[HSA_COPIES];

#define AND_COPY(...) __VA_ARGS__ __VA_OPT__(, ) struct hsa_copy *copy, const void *caller
#define REAL(name, params) ((hsa_status_t(*) params)copy->original[HSA_##name])
#define HSA(name, params, args, what) static hsa_status_t name##_wrapper(AND_COPY params);
#include "hsa_api.def"
#undef HSA

/* The runtime reads its variables once, in hsa_init, some by getenv and some through environ. */
static void pin_environment(void)
{
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		const char *name = env_variables[i].name;
		const char *live = program_getenv_live(name), *wanted = settings_getenv(name, live);

		if (wanted != live && !(live && text_equal(wanted, live)))
			program_setenv(name, wanted);
	}
}

static hsa_status_t hsa_init_wrapper(struct hsa_copy *copy, const void *caller)
{
	hsa_status_t status;

	(void)caller;
	pin_environment();
	settings_device_index(0); /* the numbering is the one the runtime is about to read */
	status = REAL(hsa_init, (void))();
	if (status == HSA_STATUS_SUCCESS && settings()->limited && once_begin(&copy->is_learned)) {
		devices_learn(&copy->devices, &copy->ask);
		once_end(&copy->is_learned);
	}
	return status;
}

/* The class of a pod is its ceiling (low) or its floor (high). */
static int class_priority(void)
{
	return settings()->priority ? HSA_AMD_QUEUE_PRIORITY_LOW : HSA_AMD_QUEUE_PRIORITY_HIGH;
}

static hsa_status_t hsa_queue_create_wrapper(hsa_agent_t agent, uint32_t size, uint32_t type,
					     void (*callback)(int, hsa_queue_t *, void *), void *data,
					     uint32_t private_segment_size, uint32_t group_segment_size,
					     hsa_queue_t **queue, struct hsa_copy *copy,
					     const void *caller)
{
	hsa_status_t status = REAL(hsa_queue_create,
				   (hsa_agent_t, uint32_t, uint32_t, void (*)(int, hsa_queue_t *, void *), void *,
				    uint32_t, uint32_t, hsa_queue_t **))(agent, size, type, callback, data,
									 private_segment_size, group_segment_size, queue);

	(void)caller;
	if (status == HSA_STATUS_SUCCESS && settings()->priority >= 0 && copy->original[HSA_hsa_amd_queue_set_priority] &&
	    REAL(hsa_amd_queue_set_priority, (hsa_queue_t *, int))(*queue, class_priority()) != HSA_STATUS_SUCCESS)
		LOG(LOG_WARN, "AMD_TASK_PRIORITY: the runtime refused to set a queue's priority");
	return status;
}

/* Answers as the runtime would, so that hipStreamCreateWithPriority goes on working. */
static hsa_status_t hsa_amd_queue_set_priority_wrapper(hsa_queue_t *queue, int priority, struct hsa_copy *copy,
							const void *caller)
{
	(void)caller;
	if (settings()->priority >= 0 && priority >= HSA_AMD_QUEUE_PRIORITY_LOW &&
	    priority <= HSA_AMD_QUEUE_PRIORITY_HIGH)
		priority = class_priority();
	return REAL(hsa_amd_queue_set_priority, (hsa_queue_t *, int))(queue, priority);
}

/* ---- Memory. HIP's own calls are charged by its wrappers; here they only get the driver's refusal through. ---- */

enum { CLASS_MEMORY, CLASS_VMEM };

static struct tracker *allocations;

static struct tracker *table(void)
{
	return tracker_at(&allocations);
}

struct request {
	int device; /* HSA_DEVICE_NONE: not charged */
	uint64_t bytes;
	const char *function;
};

/* False: refused. */
static bool request_begin(struct request *r, const struct hsa_copy *copy, uint64_t pool, const void *caller)
{
	r->device = HSA_DEVICE_NONE;
	if (settings()->limited && r->bytes && !gate_is_inside() && !hip_is_caller(caller))
		r->device = devices_of_pool(&copy->devices, pool);
	if (r->device >= 0 &&
	    ledger_reserve(gate_ledger(), (unsigned)r->device, LEDGER_REQUESTED, r->bytes) != LEDGER_GRANTED) {
		gate_note_refusal(r->function, (unsigned)r->device, LEDGER_REQUESTED, r->bytes);
		return false;
	}
	gate_allocation_begin();
	return true;
}

static void request_end(const struct request *r, hsa_status_t status, unsigned class, uint64_t key)
{
	struct tracked value = { .size = r->bytes, .device = (uint8_t)r->device, .class = (uint8_t)class };

	gate_allocation_end(r->function, status != HSA_STATUS_SUCCESS, r->bytes);
	if (r->device < 0)
		return;
	if (status != HSA_STATUS_SUCCESS) {
		ledger_withdraw(gate_ledger(), (unsigned)r->device, LEDGER_REQUESTED, r->bytes);
		return;
	}
	ledger_settle(gate_ledger(), (unsigned)r->device, LEDGER_REQUESTED, r->bytes);
	if (!table() || !tracker_put(table(), (const void *)key, value))
		ledger_note_reason(gate_ledger(), LEDGER_REASON_TRACKER_FULL);
	ledger_note_allocations(gate_ledger(), 1);
}

/* Around a free: taken before the call, given back after it or put back. */
static bool free_begin(unsigned class, uint64_t key, struct tracked *taken)
{
	struct tracker *t = __atomic_load_n(&allocations, __ATOMIC_ACQUIRE);

	return t && key && tracker_take(t, (const void *)key, 1u << class, taken);
}

static hsa_status_t free_end(bool known, hsa_status_t status, uint64_t key, struct tracked taken)
{
	if (known && status == HSA_STATUS_SUCCESS)
		gate_release(taken);
	else if (known)
		tracker_put(table(), (const void *)key, taken);
	return status;
}

static hsa_status_t hsa_amd_memory_pool_allocate_wrapper(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
							 void **ptr, struct hsa_copy *copy, const void *caller)
{
	struct request r = { .bytes = size, .function = "hsa_amd_memory_pool_allocate" };
	hsa_status_t status;

	if (gate_is_within_allocation())
		return REAL(hsa_amd_memory_pool_allocate, (hsa_amd_memory_pool_t, size_t, uint32_t, void **))(pool, size,
													      flags, ptr);
	if (!request_begin(&r, copy, pool.handle, caller))
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	status = REAL(hsa_amd_memory_pool_allocate, (hsa_amd_memory_pool_t, size_t, uint32_t, void **))(pool, size, flags,
													  ptr);
	request_end(&r, status, CLASS_MEMORY, ptr ? (uint64_t)*ptr : 0);
	return status;
}

static hsa_status_t hsa_memory_allocate_wrapper(hsa_region_t region, size_t size, void **ptr, struct hsa_copy *copy,
						const void *caller)
{
	struct request r = { .bytes = size, .function = "hsa_memory_allocate" };
	hsa_status_t status;

	if (!request_begin(&r, copy, region.handle, caller))
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	status = REAL(hsa_memory_allocate, (hsa_region_t, size_t, void **))(region, size, ptr);
	request_end(&r, status, CLASS_MEMORY, ptr ? (uint64_t)*ptr : 0);
	return status;
}

static hsa_status_t hsa_amd_memory_pool_free_wrapper(void *ptr, struct hsa_copy *copy, const void *caller)
{
	struct tracked taken;
	bool known = free_begin(CLASS_MEMORY, (uint64_t)ptr, &taken);

	(void)caller;
	return free_end(known, REAL(hsa_amd_memory_pool_free, (void *))(ptr), (uint64_t)ptr, taken);
}

static hsa_status_t hsa_memory_free_wrapper(void *ptr, struct hsa_copy *copy, const void *caller)
{
	struct tracked taken;
	bool known = free_begin(CLASS_MEMORY, (uint64_t)ptr, &taken);

	(void)caller;
	return free_end(known, REAL(hsa_memory_free, (void *))(ptr), (uint64_t)ptr, taken);
}

static hsa_status_t hsa_amd_vmem_handle_create_wrapper(hsa_amd_memory_pool_t pool, size_t size, int type, uint64_t flags,
						       hsa_amd_vmem_alloc_handle_t *handle, struct hsa_copy *copy,
						       const void *caller)
{
	struct request r = { .bytes = size, .function = "hsa_amd_vmem_handle_create" };
	hsa_status_t status;

	if (gate_is_within_allocation())
		return REAL(hsa_amd_vmem_handle_create,
			    (hsa_amd_memory_pool_t, size_t, int, uint64_t,
			     hsa_amd_vmem_alloc_handle_t *))(pool, size, type, flags, handle);
	if (!request_begin(&r, copy, pool.handle, caller))
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	status = REAL(hsa_amd_vmem_handle_create,
		      (hsa_amd_memory_pool_t, size_t, int, uint64_t, hsa_amd_vmem_alloc_handle_t *))(pool, size, type,
												     flags, handle);
	request_end(&r, status, CLASS_VMEM, handle ? handle->handle : 0);
	return status;
}

static hsa_status_t hsa_amd_vmem_handle_release_wrapper(hsa_amd_vmem_alloc_handle_t handle, struct hsa_copy *copy,
							const void *caller)
{
	struct tracked taken;
	bool known = free_begin(CLASS_VMEM, handle.handle, &taken);

	(void)caller;
	return free_end(known, REAL(hsa_amd_vmem_handle_release, (hsa_amd_vmem_alloc_handle_t))(handle), handle.handle,
			taken);
}

/* ---- Reports: HIP's, OpenCL's and rocminfo's totals follow from these ---- */

static void hold_to_limit(hsa_status_t status, int device, void *value)
{
	uint64_t limit = device >= 0 ? ledger_limit(gate_ledger(), (unsigned)device) : 0;

	if (status == HSA_STATUS_SUCCESS && limit && *(uint64_t *)value > limit)
		*(uint64_t *)value = limit;
}

static hsa_status_t hsa_amd_memory_pool_get_info_wrapper(hsa_amd_memory_pool_t pool, int attribute, void *value,
							 struct hsa_copy *copy, const void *caller)
{
	hsa_status_t status =
		REAL(hsa_amd_memory_pool_get_info, (hsa_amd_memory_pool_t, int, void *))(pool, attribute, value);

	(void)caller;
	if (attribute == HSA_AMD_MEMORY_POOL_INFO_SIZE || attribute == HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE)
		hold_to_limit(status, devices_of_pool(&copy->devices, pool.handle), value);
	return status;
}

static hsa_status_t hsa_region_get_info_wrapper(hsa_region_t region, int attribute, void *value, struct hsa_copy *copy,
						const void *caller)
{
	hsa_status_t status = REAL(hsa_region_get_info, (hsa_region_t, int, void *))(region, attribute, value);

	(void)caller;
	if (attribute == HSA_REGION_INFO_SIZE || attribute == HSA_REGION_INFO_ALLOC_MAX_SIZE)
		hold_to_limit(status, devices_of_pool(&copy->devices, region.handle), value);
	return status;
}

static hsa_status_t hsa_agent_get_info_wrapper(hsa_agent_t agent, int attribute, void *value, struct hsa_copy *copy,
					       const void *caller)
{
	hsa_status_t status = REAL(hsa_agent_get_info, (hsa_agent_t, int, void *))(agent, attribute, value);
	int device;

	(void)caller;
	if (attribute != HSA_AMD_AGENT_INFO_MEMORY_AVAIL || status != HSA_STATUS_SUCCESS || !settings()->limited ||
	    (device = devices_of_agent(&copy->devices, agent)) < 0)
		return status;
	uint64_t left = ledger_free(gate_ledger(), (unsigned)device, LEDGER_REQUESTED);

	if (*(uint64_t *)value > left)
		*(uint64_t *)value = left;
	return status;
}

#undef AND_COPY

#define COPY 0
#include "wrappers_copy.inc"
#define COPY 1
#include "wrappers_copy.inc"
#define COPY 2
#include "wrappers_copy.inc"
#define COPY 3
#include "wrappers_copy.inc"

static void (*const patches[HSA_COPIES])(struct patch *) = { patches_stub_0, patches_stub_1, patches_stub_2, patches_stub_3 };

bool hsa_copy_open(struct elf_object *object, struct patch_result *result)
{
	struct patch list[HSA_FUNCTIONS];
	unsigned k = 0;

	while (k < HSA_COPIES && hsa_copies[k].map)
		k++;
	if (k == HSA_COPIES)
		return false;
	elf_patch_undo(&hsa_copies[k].patched);
	hsa_copies[k] = (struct hsa_copy){ .map = object->map };
	hsa_copies[k].ask = (struct hsa_questions){
		elf_object_address(object, "hsa_iterate_agents"),
		elf_object_address(object, "hsa_agent_get_info"),
		elf_object_address(object, "hsa_amd_agent_iterate_memory_pools"),
		elf_object_address(object, "hsa_amd_memory_pool_get_info"),
	};
	patches[k](list);
	hsa_copies[k].patched = elf_patch(object, list, HSA_FUNCTIONS);
	*result = hsa_copies[k].patched;
	return true;
}

void hsa_copy_close(struct link_map *map)
{
	for (unsigned k = 0; k < HSA_COPIES; k++) {
		if (hsa_copies[k].map == map)
			hsa_copies[k].map = NULL;
	}
}

void *hsa_copy_symbind(struct link_map *map, const char *name, uintptr_t real)
{
	struct patch list[HSA_FUNCTIONS];

	for (unsigned k = 0; k < HSA_COPIES; k++) {
		if (hsa_copies[k].map != map || hsa_copies[k].patched.way != PATCH_SYMBIND)
			continue;
		patches[k](list);
		return elf_patch_symbind(list, HSA_FUNCTIONS, name, real);
	}
	return NULL;
}
