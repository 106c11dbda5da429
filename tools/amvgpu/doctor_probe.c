/* The probe: a process that uses the GPU a little, so that its parent can see what came of it.
 *
 * It asks HIP for devices and totals, allocates a little on each device so that it has a slot, and asks HSA
 * for a queue with all compute units to see which it gets. Nothing of ROCm is needed to build it: the
 * runtimes are loaded at run time and the few types are written out.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
	int (*set_mask)(const void *, uint32_t, const uint32_t *);
	int (*get_mask)(const void *, uint32_t, uint32_t *);
	FILE *to;
	unsigned gpus;
};

/* A queue without a compute unit cannot be: then nothing was answered. */
static bool is_zero(const uint32_t *words)
{
	for (unsigned i = 0; i < 32; i++) {
		if (words[i])
			return false;
	}
	return true;
}

/* All is asked for, and cut to what HSA_CU_MASK leaves. */
static void ask_queue(struct hsa *hsa, agent_t agent, unsigned ordinal)
{
	uint32_t words[32], count = 0, bits;
	void *queue;

	if (hsa->get(agent, AGENT_CU_COUNT, &count) || !count || count > 32 * 32)
		return;
	if (hsa->create(agent, 256, 0, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue))
		return;
	bits = (count + 31) / 32 * 32;
	memset(words, 0xff, sizeof words);
	hsa->set_mask(queue, bits, words);
	memset(words, 0, sizeof words);
	if (hsa->get_mask(queue, bits, words) || is_zero(words))
		return;
	fprintf(hsa->to, "mask %u %u", ordinal, count);
	for (unsigned i = 0; i * 32 < count; i++)
		fprintf(hsa->to, " %x", words[i]);
	fputc('\n', hsa->to);
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
	hsa.set_mask = dlsym(library, "hsa_amd_queue_cu_set_mask");
	if (hsa.init && hsa.each_agent && hsa.get && hsa.create && hsa.get_mask && hsa.set_mask &&
	    !hsa.init())
		hsa.each_agent(on_agent, &hsa);
}

/* In a process of its own, because 7.2's ROCr may abort when it is asked for a mask (its bookkeeping forgets
 * it; other builds then answer zeros). What it says then is nobody's business. */
static void ask_hsa_apart(FILE *to)
{
	pid_t child = fork();

	if (!child) {
		const struct rlimit none = {0, 0};
		int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

		setrlimit(RLIMIT_CORE, &none);
		dup2(nowhere, STDERR_FILENO);
		ask_hsa(to);
		fflush(to);
		_exit(EXIT_OK);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}

int doctor_probe(int fd)
{
	FILE *to = fdopen(fd, "w");
	struct environment e;
	const char *mask;

	if (!to)
		return EXIT_USAGE;
	setvbuf(to, NULL, _IOLBF, 0); /* a runtime that crashes takes nothing with it */
	environment_load(&e, "");
	mask = e.policy.value[ENV_HSA_CU_MASK];
	if (mask && *mask)
		ask_hsa_apart(to);
	ask_hip(to);
	fflush(to);
	_exit(EXIT_OK); /* no destructors: 5.2.3 hangs in its own */
}
