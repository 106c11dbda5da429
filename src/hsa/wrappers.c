/* See hsa_copy.h. */
#include "hsa_copy.h"

#include "hsa_abi.h"
#include "../hip/settings.h"
#include "../loader/program_libc.h"
#include "../sys/log.h"

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
};

static struct hsa_copy hsa_copies[HSA_COPIES];

#define AND_COPY(...) __VA_ARGS__ __VA_OPT__(, ) struct hsa_copy *copy
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

static hsa_status_t hsa_init_wrapper(struct hsa_copy *copy)
{
	pin_environment();
	settings_device_index(0); /* the numbering is the one the runtime is about to read */
	return REAL(hsa_init, (void))();
}

/* The class of a pod is its ceiling (low) or its floor (high). */
static int class_priority(void)
{
	return settings()->priority ? HSA_AMD_QUEUE_PRIORITY_LOW : HSA_AMD_QUEUE_PRIORITY_HIGH;
}

static hsa_status_t hsa_queue_create_wrapper(hsa_agent_t agent, uint32_t size, uint32_t type,
					     void (*callback)(int, hsa_queue_t *, void *), void *data,
					     uint32_t private_segment_size, uint32_t group_segment_size,
					     hsa_queue_t **queue, struct hsa_copy *copy)
{
	hsa_status_t status = REAL(hsa_queue_create,
				   (hsa_agent_t, uint32_t, uint32_t, void (*)(int, hsa_queue_t *, void *), void *,
				    uint32_t, uint32_t, hsa_queue_t **))(agent, size, type, callback, data,
									 private_segment_size, group_segment_size, queue);

	if (status == HSA_STATUS_SUCCESS && settings()->priority >= 0 && copy->original[HSA_hsa_amd_queue_set_priority] &&
	    REAL(hsa_amd_queue_set_priority, (hsa_queue_t *, int))(*queue, class_priority()) != HSA_STATUS_SUCCESS)
		LOG(LOG_WARN, "AMD_TASK_PRIORITY: the runtime refused to set a queue's priority");
	return status;
}

/* Answers as the runtime would, so that hipStreamCreateWithPriority goes on working. */
static hsa_status_t hsa_amd_queue_set_priority_wrapper(hsa_queue_t *queue, int priority, struct hsa_copy *copy)
{
	if (settings()->priority >= 0 && priority >= HSA_AMD_QUEUE_PRIORITY_LOW &&
	    priority <= HSA_AMD_QUEUE_PRIORITY_HIGH)
		priority = class_priority();
	return REAL(hsa_amd_queue_set_priority, (hsa_queue_t *, int))(queue, priority);
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

static const struct patch *const patches[HSA_COPIES] = { patches_stub_0, patches_stub_1, patches_stub_2, patches_stub_3 };

bool hsa_is_provider(const struct elf_object *object)
{
	return elf_object_find(object, "hsa_init", NULL) && elf_object_find(object, "hsa_iterate_agents", NULL);
}

bool hsa_copy_open(struct elf_object *object, struct patch_result *result)
{
	unsigned k = 0;

	while (k < HSA_COPIES && hsa_copies[k].map)
		k++;
	if (k == HSA_COPIES)
		return false;
	hsa_copies[k].map = object->map;
	hsa_copies[k].patched = elf_patch(object, patches[k], HSA_FUNCTIONS);
	*result = hsa_copies[k].patched;
	return true;
}

void hsa_copy_close(struct link_map *map)
{
	for (unsigned k = 0; k < HSA_COPIES; k++) {
		if (hsa_copies[k].map != map)
			continue;
		elf_patch_undo(&hsa_copies[k].patched);
		hsa_copies[k] = (struct hsa_copy){ 0 };
	}
}

void *hsa_copy_symbind(struct link_map *map, const char *name, uintptr_t real)
{
	for (unsigned k = 0; k < HSA_COPIES; k++) {
		if (hsa_copies[k].map == map && hsa_copies[k].patched.way == PATCH_SYMBIND)
			return elf_patch_symbind(patches[k], HSA_FUNCTIONS, name, real);
	}
	return NULL;
}
