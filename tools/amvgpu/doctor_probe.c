/* The probe: a process that uses the GPU a little, so that its parent can see what came of it.
 *
 * It asks HIP for devices and totals, allocates a little on each device so that it has a slot, and asks HSA
 * which compute units a queue gets. Nothing of ROCm is needed to build it: the runtimes are loaded at run
 * time and the few types are written out.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "amvgpu.h"
#include "doctor.h"

static void *load(const char *const *names)
{
	void *library = NULL;

	for (; *names && !library; names++)
		library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
	return library;
}

static const char *const hip_names[] = {"libamdhip64.so",
					"libamdhip64.so.7",
					"libamdhip64.so.6",
					"libamdhip64.so.5",
					"/opt/rocm/lib/libamdhip64.so",
					NULL};
static const char *const hsa_names[] = {"libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1", NULL};

static void ask_hip(FILE *to)
{
	void *hip = load(hip_names);
	int (*get_count)(int *) = hip ? dlsym(hip, "hipGetDeviceCount") : NULL;
	int (*set_device)(int) = hip ? dlsym(hip, "hipSetDevice") : NULL;
	int (*get_memory)(size_t *, size_t *) = hip ? dlsym(hip, "hipMemGetInfo") : NULL;
	int (*allocate)(void **, size_t) = hip ? dlsym(hip, "hipMalloc") : NULL;
	int (*release)(void *) = hip ? dlsym(hip, "hipFree") : NULL;
	int count = 0;

	if (!get_count || !set_device || !get_memory || !allocate || !release)
		return;
	fprintf(to, "hip yes\n");
	if (get_count(&count))
		count = 0;
	fprintf(to, "devices %d\n", count);
	for (int i = 0; i < count; i++) {
		size_t available, total;
		void *memory;

		if (set_device(i) || get_memory(&available, &total))
			continue;
		fprintf(to, "total %d %zu\n", i, total);
		if (!allocate(&memory, 65536))
			release(memory);
	}
}

/* hsa.h: hsa_agent_t, HSA_AGENT_INFO_DEVICE, HSA_DEVICE_TYPE_GPU; hsa_ext_amd.h:
 * HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT. */
typedef struct {
	uint64_t handle;
} agent_t;

enum { AGENT_DEVICE = 17, DEVICE_GPU = 1, AGENT_CU_COUNT = 0xA002 };

struct hsa {
	int (*init)(void);
	int (*each_agent)(int (*)(agent_t, void *), void *);
	int (*get)(agent_t, int, void *);
	int (*create)(agent_t, uint32_t, uint32_t, void *, void *, uint32_t, uint32_t, void **);
	int (*get_mask)(const void *, uint32_t, uint32_t *);
	int (*destroy)(void *);
	FILE *to;
	unsigned gpus;
};

static void ask_queue(struct hsa *hsa, agent_t agent, unsigned ordinal)
{
	uint32_t words[32] = {0}, count = 0;
	void *queue;

	if (hsa->get(agent, AGENT_CU_COUNT, &count) || !count || count > 32 * 32)
		return;
	if (hsa->create(agent, 256, 0, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue))
		return;
	if (!hsa->get_mask(queue, (count + 31) / 32 * 32, words)) {
		fprintf(hsa->to, "mask %u %u", ordinal, count);
		for (unsigned i = 0; i * 32 < count; i++)
			fprintf(hsa->to, " %x", words[i]);
		fputc('\n', hsa->to);
	}
	hsa->destroy(queue);
}

static int on_agent(agent_t agent, void *closure)
{
	struct hsa *hsa = closure;
	int device = -1;

	if (!hsa->get(agent, AGENT_DEVICE, &device) && device == DEVICE_GPU)
		ask_queue(hsa, agent, hsa->gpus++);
	return 0;
}

static void ask_hsa(FILE *to)
{
	void *library = load(hsa_names);
	struct hsa hsa = {.to = to};

	if (!library)
		return;
	hsa.init = dlsym(library, "hsa_init");
	hsa.each_agent = dlsym(library, "hsa_iterate_agents");
	hsa.get = dlsym(library, "hsa_agent_get_info");
	hsa.create = dlsym(library, "hsa_queue_create");
	hsa.get_mask = dlsym(library, "hsa_amd_queue_cu_get_mask");
	hsa.destroy = dlsym(library, "hsa_queue_destroy");
	if (hsa.init && hsa.each_agent && hsa.get && hsa.create && hsa.get_mask && hsa.destroy && !hsa.init())
		hsa.each_agent(on_agent, &hsa);
}

int doctor_probe(int fd)
{
	FILE *to = fdopen(fd, "w");

	if (!to)
		return EXIT_USAGE;
	setvbuf(to, NULL, _IOLBF, 0); /* a runtime that crashes takes nothing with it */
	ask_hip(to);
	ask_hsa(to);
	fclose(to);
	return EXIT_OK;
}
