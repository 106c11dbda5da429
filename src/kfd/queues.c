/* See queues.h. */
#include "queues.h"

#include "topology.h"
#include "../hip/alloc_tracker.h"
#include "../hip/cu_mask.h"
#include "../hip/migration.h"
#include "../hip/settings.h"
#include "../sys/log.h"

/* KFD's priorities run from 0 to 15; ROCr says 0 for low and 11 or 15 for high. */
enum { PRIORITY_LOW = 0, PRIORITY_HIGH = 11 };

enum { CLASS_GPU, CLASS_SAVE_AREA };

/* What a compute queue has: queue_id + 1 -> index of the mask's GPU; the address of its save area, which is sent to the GPU as
 * managed memory is. */
static struct tracker *queues;

static bool is_compute(uint32_t type)
{
	return type == KFD_QUEUE_COMPUTE || type == KFD_QUEUE_COMPUTE_AQL;
}

static uint32_t in_class(uint32_t priority)
{
	switch (settings()->priority) {
	case 0:
		return priority < PRIORITY_HIGH ? PRIORITY_HIGH : priority;
	case 1:
		return PRIORITY_LOW;
	default:
		return priority;
	}
}

static const void *queue_key(uint32_t queue_id)
{
	return (const void *)(uintptr_t)(queue_id + 1ull);
}

static struct tracker *queue_table(void)
{
	return tracker_at(&queues);
}

static struct cu_mask pods_mask(int rocr)
{
	return rocr < 0 ? (struct cu_mask){ .is_set = false } :
			  cu_mask_of(settings()->value[ENV_HSA_CU_MASK], (unsigned)rocr);
}

/* Bits that a mask of this GPU has: a multiple of 32, as the driver demands. */
static uint32_t mask_bits(const struct topology_gpu *gpu)
{
	uint32_t bits = gpu->compute_units && gpu->compute_units <= CU_MASK_BITS ? gpu->compute_units : CU_MASK_BITS;

	return (bits + 31) / 32 * 32;
}

int queues_create(ioctl_function real, int fd, uint32_t command, struct kfd_create_queue *args)
{
	const struct topology_gpu *gpu;
	struct cu_mask mask;
	int result;

	if (!is_compute(args->queue_type))
		return real(fd, command, args);
	args->queue_priority = in_class(args->queue_priority);
	result = real(fd, command, args);
	gpu = topology_by_gpu_id(args->gpu_id);
	if (result || !gpu || !queue_table())
		return result;
	tracker_put(queue_table(), queue_key(args->queue_id),
		    (struct tracked){ .size = args->ctx_save_restore_address, .class = CLASS_SAVE_AREA });
	mask = pods_mask(gpu->rocr);
	if (!mask.is_set)
		return result;
	tracker_put(queue_table(), queue_key(args->queue_id), (struct tracked){ .device = (uint8_t)gpu->rocr });
	struct kfd_set_cu_mask set = { args->queue_id, mask_bits(gpu), (uint64_t)(uintptr_t)mask.word };

	if (real(fd, KFD_SET_CU_MASK, &set))
		LOG(LOG_WARN, "HSA_CU_MASK: the driver refused the mask of a queue");
	return result;
}

/* The caller's structure is the caller's: it is not changed, but for the length of the call where it is longer than ours. */
int queues_update(ioctl_function real, int fd, uint32_t command, struct kfd_update_queue *args)
{
	struct kfd_update_queue held = *args;
	uint32_t wanted = args->queue_priority;
	int result;

	held.queue_priority = in_class(wanted);
	if (IOC_SIZE(command) == sizeof held)
		return real(fd, command, &held);
	args->queue_priority = held.queue_priority;
	result = real(fd, command, args);
	args->queue_priority = wanted;
	return result;
}

/* A mask that leaves nothing of the pod's becomes the pod's: an empty one would mean "all" to the driver. */
int queues_set_cu_mask(ioctl_function real, int fd, uint32_t command, struct kfd_set_cu_mask *args)
{
	struct tracked queue;
	struct cu_mask mask, held;
	struct kfd_set_cu_mask set = { args->queue_id, CU_MASK_BITS, 0 };
	const uint32_t *wanted = (const uint32_t *)(uintptr_t)args->cu_mask_ptr;
	uint32_t words = args->num_cu_mask / 32, left = 0;

	if (!words || !wanted || !queue_table() || !tracker_find(queue_table(), queue_key(args->queue_id), 1u << CLASS_GPU, &queue))
		return real(fd, command, args);
	held = mask = pods_mask(queue.device);
	for (uint32_t i = 0; i < CU_MASK_WORDS; i++) {
		held.word[i] &= i < words ? wanted[i] : 0;
		left |= held.word[i];
	}
	set.cu_mask_ptr = (uint64_t)(uintptr_t)(left ? held.word : mask.word);
	if (left && words <= CU_MASK_WORDS)
		set.num_cu_mask = args->num_cu_mask; /* the pod's own may begin behind what was asked for */
	return real(fd, KFD_SET_CU_MASK, &set);
}

int queues_destroy(ioctl_function real, int fd, uint32_t command, struct kfd_destroy_queue *args)
{
	struct tracked queue, area;
	struct tracker *t = __atomic_load_n(&queues, __ATOMIC_ACQUIRE);
	bool known = t && tracker_take(t, queue_key(args->queue_id), 1u << CLASS_GPU, &queue);
	bool has_area = t && tracker_take(t, queue_key(args->queue_id), 1u << CLASS_SAVE_AREA, &area);
	int result = real(fd, command, args);

	if (known && result)
		tracker_put(t, queue_key(args->queue_id), queue);
	if (has_area && result)
		tracker_put(t, queue_key(args->queue_id), area);
	else if (has_area)
		migration_end(area.size);
	return result;
}
