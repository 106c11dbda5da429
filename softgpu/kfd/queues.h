/* User queues: rings that the program fills and one thread per process empties.
 *
 * The thread looks at all rings in turn. While packets come it spins; then it sleeps longer and longer, up to
 * a few milliseconds, and wakes at once when the program enters the driver. Packets are read by aql.c and
 * sdma.c. */
#ifndef KFDEMU_QUEUES_H
#define KFDEMU_QUEUES_H

#include "uapi.h"

#include <stdbool.h>
#include <stdint.h>

enum step { STEP_IDLE, STEP_BLOCKED, STEP_DONE };

struct queue {
	uint32_t id, type, priority, percentage;
	int card, slot; /* slot: of its doorbell */
	uint64_t ring, size;
	volatile uint64_t *written, *read;
	struct queue *next;
};

/* One packet, on the queue thread. STEP_BLOCKED: the packet waits for something and must be looked at again.
 */
enum step aql_step(struct queue *queue);
enum step sdma_step(struct queue *queue);

int queues_create(struct kfd_ioctl_create_queue_args *args);
int queues_destroy(const struct kfd_ioctl_destroy_queue_args *args);
int queues_update(const struct kfd_ioctl_update_queue_args *args);
int queues_set_cu_mask(const struct kfd_ioctl_set_cu_mask_args *args);

/* There may be work: ends the thread's sleep. Any thread, cheap. */
void queues_wake(void);
void queues_forget(void);

/* The card's clock in 10 ns ticks, and the system's in ns. */
uint64_t clock_ticks(void);
uint64_t clock_ns(void);

#endif
