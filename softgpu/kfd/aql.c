/* AQL packets of compute queues (HSA system architecture 1.2, §2.9; AMD's barrier-value packet:
 * hsa_ext_amd.h). */
#include "events.h"
#include "kernels.h"
#include "log.h"
#include "memory.h"
#include "queues.h"

#include <stddef.h>

enum {
	PACKET_BYTES = 64,
	VENDOR_SPECIFIC = 0,
	INVALID = 1,
	KERNEL_DISPATCH = 2,
	BARRIER_AND = 3,
	AGENT_DISPATCH = 4,
	BARRIER_OR = 5,
	AMD_BARRIER_VALUE = 2
};

/* What barrier packets have in common with each other, and all packets with each other. */
struct packet {
	uint16_t header;
	uint8_t amd_format;
	uint8_t pad[5];
	union {
		uint64_t dependency[5];
		struct {
			uint64_t signal;
			int64_t value, mask;
			uint32_t condition;
		} barrier;
		uint8_t body[48];
	};
	uint64_t completion_signal;
};
_Static_assert(sizeof(struct packet) == PACKET_BYTES, "an AQL packet");
_Static_assert(offsetof(struct packet, completion_signal) == 56, "an AQL packet's last word");

/* amd_hsa_signal.h */
struct signal {
	int64_t kind;
	volatile int64_t value;
	volatile uint64_t mailbox;
	volatile uint32_t event_id;
	uint32_t pad;
	volatile uint64_t start, end;
};

static struct signal *signal_at(uint64_t handle)
{
	return (struct signal *)(uintptr_t)handle;
}

static void complete(uint64_t handle, uint64_t started)
{
	struct signal *signal = signal_at(handle);
	uint64_t mailbox;
	uint32_t id;

	if (!handle)
		return;
	signal->start = started;
	signal->end = clock_ticks();
	mailbox = signal->mailbox; /* read before the value drops: a waiter may then destroy the signal */
	id = signal->event_id;
	__atomic_sub_fetch(&signal->value, 1, __ATOMIC_SEQ_CST);
	if (!mailbox)
		return;
	*(volatile uint64_t *)(uintptr_t)mailbox = id;
	events_set(id);
}

static bool is_barrier_met(const struct packet *packet, bool is_and)
{
	int count = 0, met = 0;

	for (int i = 0; i < 5; i++) {
		if (!packet->dependency[i])
			continue;
		count++;
		met += signal_at(packet->dependency[i])->value == 0;
	}
	return !count || (is_and ? met == count : met > 0);
}

static bool is_value_met(const struct packet *packet)
{
	int64_t value;

	if (!packet->barrier.signal)
		return true;
	value = signal_at(packet->barrier.signal)->value & packet->barrier.mask;
	switch (packet->barrier.condition) {
	case 0:
		return value == packet->barrier.value;
	case 1:
		return value != packet->barrier.value;
	case 2:
		return value < packet->barrier.value;
	default:
		return value >= packet->barrier.value;
	}
}

static bool is_ready(const struct packet *packet, uint8_t type)
{
	if (type == BARRIER_AND || type == BARRIER_OR)
		return is_barrier_met(packet, type == BARRIER_AND);
	return type != VENDOR_SPECIFIC || packet->amd_format != AMD_BARRIER_VALUE || is_value_met(packet);
}

enum step aql_step(struct queue *queue)
{
	uint64_t index = *queue->read;
	struct packet *packet =
	    (struct packet *)(uintptr_t)(queue->ring + index % (queue->size / PACKET_BYTES) * PACKET_BYTES);
	uint8_t type =
	    (uint8_t)__atomic_load_n(&packet->header, __ATOMIC_ACQUIRE); /* the program's release */
	uint64_t started = clock_ticks(), done;

	if (type == INVALID || *queue->written == index)
		return STEP_IDLE;
	if (!is_ready(packet, type))
		return STEP_BLOCKED;
	if (type == KERNEL_DISPATCH)
		kernels_run(packet);
	done = packet->completion_signal;
	log_line("AQL queue=%u type=%u format=%u index=%lu signal=%#lx", queue->id, type, packet->amd_format,
		 index, done);
	__atomic_store_n(&packet->header, INVALID, __ATOMIC_RELEASE);
	__atomic_store_n(queue->read, index + 1, __ATOMIC_RELEASE);
	complete(done, started);
	return STEP_DONE;
}
