/* A program of HSA alone, no HIP: a queue as it comes, one that asks for high priority and one for low.
 *
 * Needs no headers: libhsa-runtime64.so.1 is opened by name. Prints "queues 0 0 0" (results of the three), ends with 0. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

struct agent {
	uint64_t handle;
};

enum { INFO_DEVICE = 17, DEVICE_GPU = 1, PRIORITY_LOW = 0, PRIORITY_HIGH = 2 };

static void *hsa;
static struct agent gpu;

#define HSA(name, params) ((int(*) params)dlsym(hsa, #name))

static int take_gpu(struct agent agent, void *unused)
{
	int kind = -1;

	(void)unused;
	if (!HSA(hsa_agent_get_info, (struct agent, int, void *))(agent, INFO_DEVICE, &kind) && kind == DEVICE_GPU)
		gpu = agent;
	return 0;
}

static int make_queue(int priority)
{
	void *queue = NULL;
	int result = HSA(hsa_queue_create, (struct agent, uint32_t, uint32_t, void *, void *, uint32_t, uint32_t, void **))(
		gpu, 4096, 0, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue);

	if (!result && priority >= 0)
		result = HSA(hsa_amd_queue_set_priority, (void *, int))(queue, priority);
	return result;
}

int main(void)
{
	hsa = dlopen("libhsa-runtime64.so.1", RTLD_NOW);
	if (!hsa || HSA(hsa_init, (void))()) {
		printf("no runtime\n");
		return 2;
	}
	HSA(hsa_iterate_agents, (int (*)(struct agent, void *), void *))(take_gpu, NULL);
	printf("queues %d", make_queue(-1));
	printf(" %d", make_queue(PRIORITY_HIGH));
	printf(" %d\n", make_queue(PRIORITY_LOW));
	return 0;
}
