/* See queues.h. The lock is held while a packet is carried out, so that a queue is never destroyed under one;
 * it nests outside memory's and events' locks. */
#define _GNU_SOURCE
#include "queues.h"
#include "driver.h"
#include "log.h"
#include "memory.h"
#include "settings.h"
#include "svm.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DOORBELLS = 1024, SPINS = 2000, PACKETS_IN_TURN = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct queue *queues;
static uint32_t next_id = 1;
static bool doorbell_used[MAX_CARDS][DOORBELLS];
static bool has_thread;
static _Atomic uint32_t wakes;

uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_ticks(void)
{
	return clock_ns() / 10;
}

/* ---- the thread ---- */

static enum step run_queue_locked(struct queue *queue)
{
	bool is_aql = queue->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	enum step last, best = STEP_IDLE;

	for (int i = 0; i < PACKETS_IN_TURN; i++) {
		last = is_aql ? aql_step(queue) : sdma_step(queue);
		if (last > best)
			best = last;
		if (last != STEP_DONE)
			break;
	}
	return best;
}

static enum step run_all(void)
{
	enum step best = STEP_IDLE;

	pthread_mutex_lock(&mutex);
	for (struct queue *queue = queues; queue; queue = queue->next) {
		enum step last = run_queue_locked(queue);

		if (last > best)
			best = last;
	}
	pthread_mutex_unlock(&mutex);
	return best;
}

/* How long to sleep after IDLE turns without a packet. A blocked packet is looked at more often. Waiting
 * programs soon enter the driver, which ends the sleep: only one that polls memory for ever sees the longest
 * one. */
static long pause_ns(long idle, bool is_blocked)
{
	static const struct {
		long turns, ns;
	} steps[] = {{SPINS, 0}, {500, 20000}, {100, 200000}, {100, 1000000}, {200, 5000000}};
	long end = 0;

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		end += steps[i].turns;
		if (idle < end)
			return is_blocked && steps[i].ns > 200000 ? 200000 : steps[i].ns;
	}
	return is_blocked ? 200000 : 20000000;
}

static void sleep_unless_woken(uint32_t seen, long ns)
{
	struct timespec timeout = {.tv_nsec = ns};

	syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

static void *run(void *unused)
{
	long idle = 0;

	pthread_setname_np(pthread_self(), "kfdemu-queues");
	/* Programs spin while they wait for this thread. Where that is not allowed it is only slower. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), -10);
	for (;;) {
		uint32_t seen = atomic_load(&wakes);
		enum step best = run_all();
		long ns;

		idle = best == STEP_DONE ? 0 : idle + 1;
		ns = pause_ns(idle, best == STEP_BLOCKED);
		if (ns)
			sleep_unless_woken(seen, ns);
		else if (best != STEP_DONE)
			__builtin_ia32_pause();
		if (atomic_load(&wakes) != seen && idle > SPINS / 2)
			idle = SPINS / 2;
		if (idle % 50 == 49 && idle > SPINS)
			memory_collect();
	}
	return unused;
}

void queues_wake(void)
{
	if (!has_thread)
		return;
	atomic_fetch_add(&wakes, 1);
	syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The thread takes no signals: they are the program's. */
static int start_thread_locked(void)
{
	sigset_t all, before;
	pthread_t thread;
	int error;

	if (has_thread)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return -error;
	pthread_detach(thread);
	has_thread = true;
	return 0;
}

/* ---- commands ---- */

static struct queue **find_locked(uint32_t id)
{
	struct queue **link = &queues;

	while (*link && (*link)->id != id)
		link = &(*link)->next;
	return link;
}

static int take_doorbell_locked(int card)
{
	for (int slot = 0; slot < DOORBELLS; slot++)
		if (!doorbell_used[card][slot]) {
			doorbell_used[card][slot] = true;
			return slot;
		}
	return -ENOSPC;
}

static int add_locked(struct queue *queue, struct kfd_ioctl_create_queue_args *args)
{
	int error = start_thread_locked();

	queue->slot = error ? error : take_doorbell_locked(queue->card);
	if (queue->slot < 0)
		return queue->slot;
	queue->id = next_id++;
	queue->next = queues;
	queues = queue;
	args->queue_id = queue->id;
	/* The card is in bits 33 and up: 5.2's thunk masks the offset with a 32-bit size that is still 0. */
	args->doorbell_offset = ((uint64_t)queue->card << 33) + 8u * (unsigned int)queue->slot;
	return 0;
}

static void note_memory(const struct kfd_ioctl_create_queue_args *args)
{
	if (args->eop_buffer_address)
		memory_set_kind(args->eop_buffer_address, KIND_QUEUE);
	if (args->ctx_save_restore_address)
		svm_note_save_area(args->ctx_save_restore_address);
}

int queues_create(struct kfd_ioctl_create_queue_args *args)
{
	struct queue *queue = calloc(1, sizeof *queue);
	int error;

	if (!queue)
		return -ENOMEM;
	*queue = (struct queue){.card = driver_card(args->gpu_id),
				.type = args->queue_type,
				.priority = args->queue_priority,
				.percentage = args->queue_percentage,
				.ring = args->ring_base_address,
				.size = args->ring_size,
				.written = (void *)(uintptr_t)args->write_pointer_address,
				.read = (void *)(uintptr_t)args->read_pointer_address};
	note_memory(args);
	pthread_mutex_lock(&mutex);
	error = queue->card < 0 ? -EINVAL : add_locked(queue, args);
	pthread_mutex_unlock(&mutex);
	log_line(
	    "CREATE_QUEUE queue=%u card=%d type=%u size=%u percentage=%u priority=%u save=%#llx+%u result=%d",
	    args->queue_id, queue->card, args->queue_type, args->ring_size, args->queue_percentage,
	    args->queue_priority, args->ctx_save_restore_address, args->ctx_save_restore_size, error);
	if (error)
		free(queue);
	queues_wake();
	return error;
}

int queues_destroy(const struct kfd_ioctl_destroy_queue_args *args)
{
	struct queue **link, *gone;

	pthread_mutex_lock(&mutex);
	link = find_locked(args->queue_id);
	gone = *link;
	if (gone) {
		*link = gone->next;
		doorbell_used[gone->card][gone->slot] = false;
	}
	pthread_mutex_unlock(&mutex);
	log_line("DESTROY_QUEUE queue=%u result=%d", args->queue_id, gone ? 0 : -EINVAL);
	free(gone);
	return gone ? 0 : -EINVAL;
}

int queues_update(const struct kfd_ioctl_update_queue_args *args)
{
	struct queue *queue;

	pthread_mutex_lock(&mutex);
	queue = *find_locked(args->queue_id);
	if (queue) {
		queue->percentage = args->queue_percentage;
		queue->priority = args->queue_priority;
	}
	pthread_mutex_unlock(&mutex);
	log_line("UPDATE_QUEUE queue=%u percentage=%u priority=%u result=%d", args->queue_id,
		 args->queue_percentage, args->queue_priority, queue ? 0 : -EINVAL);
	return queue ? 0 : -EINVAL;
}

/* The log has the mask as received, lowest word first. */
int queues_set_cu_mask(const struct kfd_ioctl_set_cu_mask_args *args)
{
	const uint32_t *mask = (const void *)(uintptr_t)args->cu_mask_ptr;
	uint32_t words = args->num_cu_mask / 32;
	char text[32 * 11 + 1] = "";
	int length = 0, bits = 0;
	bool is_known;

	for (uint32_t i = 0; i < words && i < 32; i++) {
		length +=
		    snprintf(text + length, sizeof text - (size_t)length, "%s0x%08x", i ? "," : "", mask[i]);
		bits += __builtin_popcount(mask[i]);
	}
	pthread_mutex_lock(&mutex);
	is_known = *find_locked(args->queue_id);
	pthread_mutex_unlock(&mutex);
	log_line("SET_CU_MASK queue=%u bits=%u set=%d mask=%s result=%d", args->queue_id, args->num_cu_mask,
		 bits, text, is_known ? 0 : -EINVAL);
	return is_known ? 0 : -EINVAL;
}

void queues_forget(void)
{
	queues = NULL;
	has_thread = false;
	for (int card = 0; card < MAX_CARDS; card++)
		for (int slot = 0; slot < DOORBELLS; slot++)
			doorbell_used[card][slot] = false;
	pthread_mutex_init(&mutex, NULL);
}
