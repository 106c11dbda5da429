/* Queues carry no work; what matters of them is their priority and CU mask, which go to SOFTGPU_LOG:
 *
 *	queue_create pid=P device=D queue=Q priority=normal cu_mask=TEXT
 *	queue_set_priority pid=P device=D queue=Q priority=low|normal|high
 *	queue_destroy pid=P device=D queue=Q
 *
 * device is the physical one. cu_mask is HSA_CU_MASK as it was at hsa_init, "-" if there was none or it was
 *to be skipped.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hsa.h"

enum { QUEUE_MASK_WORDS = 16 };

struct queue {
	hsa_queue_t public;
	int row;
	int priority;
	uint32_t cu_mask[QUEUE_MASK_WORDS];
	uint64_t signal;
};

static uint64_t queue_count;

static const char *mask_text(void)
{
	return hsa.cu_mask && *hsa.cu_mask && !hsa.cu_mask_skipped ? hsa.cu_mask : "-";
}

static const char *priority_text(int priority)
{
	static const char *const texts[] = {"low", "normal", "high"};

	return texts[priority];
}

hsa_status_t hsa_queue_create(hsa_agent_t agent, uint32_t size, uint32_t type,
			      void (*callback)(int, hsa_queue_t *, void *), void *data,
			      uint32_t private_segment_size, uint32_t group_segment_size, hsa_queue_t **queue)
{
	int row = hsa_agent_row(agent);
	struct queue *q;

	HSA_ENTER(hsa_queue_create);
	(void)callback, (void)data, (void)private_segment_size, (void)group_segment_size;
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (row < 0)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	if (row == STATE_HOST)
		return HSA_STATUS_ERROR_INVALID_QUEUE_CREATION;
	if (!queue || !size || size & (size - 1))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	q = calloc(1, sizeof(*q));
	if (!q)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	q->row = row;
	q->priority = HSA_AMD_QUEUE_PRIORITY_NORMAL;
	memset(q->cu_mask, 0xff, sizeof(q->cu_mask));
	q->public.type = type;
	q->public.features = 1;
	q->public.size = size;
	q->public.doorbell_signal.handle = (uint64_t)&q->signal;
	q->public.id = __atomic_add_fetch(&queue_count, 1, __ATOMIC_RELAXED);
	*queue = &q->public;
	softgpu_log("queue_create pid=%d device=%d queue=%llu priority=normal cu_mask=%s", (int)getpid(), row,
		    (unsigned long long)q->public.id, mask_text());
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_queue_destroy(hsa_queue_t *queue)
{
	struct queue *q = (struct queue *)queue;

	HSA_ENTER(hsa_queue_destroy);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!q)
		return HSA_STATUS_ERROR_INVALID_QUEUE;
	softgpu_log("queue_destroy pid=%d device=%d queue=%llu", (int)getpid(), q->row,
		    (unsigned long long)q->public.id);
	free(q);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_set_priority(hsa_queue_t *queue, int priority)
{
	struct queue *q = (struct queue *)queue;

	HSA_ENTER(hsa_amd_queue_set_priority);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!q)
		return HSA_STATUS_ERROR_INVALID_QUEUE;
	if (priority < HSA_AMD_QUEUE_PRIORITY_LOW || priority > HSA_AMD_QUEUE_PRIORITY_HIGH)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	q->priority = priority;
	softgpu_log("queue_set_priority pid=%d device=%d queue=%llu priority=%s", (int)getpid(), q->row,
		    (unsigned long long)q->public.id, priority_text(priority));
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_cu_set_mask(const hsa_queue_t *queue, uint32_t bits, const uint32_t *mask)
{
	struct queue *q = (struct queue *)queue;

	HSA_ENTER(hsa_amd_queue_cu_set_mask);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!q || !bits || bits % 32 || bits / 32 > QUEUE_MASK_WORDS || !mask)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	memset(q->cu_mask, 0, sizeof(q->cu_mask));
	memcpy(q->cu_mask, mask, bits / 8);
	softgpu_log("queue_cu_set_mask pid=%d device=%d queue=%llu first=%08x", (int)getpid(), q->row,
		    (unsigned long long)q->public.id, mask[0]);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_queue_cu_get_mask(const hsa_queue_t *queue, uint32_t bits, uint32_t *mask)
{
	const struct queue *q = (const struct queue *)queue;

	HSA_ENTER(hsa_amd_queue_cu_get_mask);
	if (!hsa_is_usable())
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	if (!q || !bits || bits % 32 || bits / 32 > QUEUE_MASK_WORDS || !mask)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	memcpy(mask, q->cu_mask, bits / 8);
	return HSA_STATUS_SUCCESS;
}
