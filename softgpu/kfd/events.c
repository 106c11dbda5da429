/* See events.h. One table and one condition variable: a process has few waiters. */
#define _GNU_SOURCE
#include "events.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { MAX_EVENTS = KFD_SIGNAL_EVENT_LIMIT };

/* The first member of a signal event's data: the age last seen, which old headers lack. 0: not asked for. */
struct signal_data {
	uint64_t last_age;
};

static struct event {
	bool is_used, is_set, is_auto_reset;
	uint32_t type;
	uint64_t age; /* starts at 1, grows with each set */
} event[MAX_EVENTS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void lock(void)
{
	pthread_once(&once, init);
	pthread_mutex_lock(&mutex);
}

static struct event *find_locked(uint32_t id)
{
	return id && id < MAX_EVENTS && event[id].is_used ? &event[id] : NULL;
}

int events_create(struct kfd_ioctl_create_event_args *args)
{
	uint32_t id = 1; /* 0 means "none" in a signal's mailbox */

	lock();
	while (id < MAX_EVENTS && event[id].is_used)
		id++;
	if (id < MAX_EVENTS)
		event[id] = (struct event){
		    .is_used = true, .is_auto_reset = args->auto_reset, .type = args->event_type, .age = 1};
	pthread_mutex_unlock(&mutex);
	if (id == MAX_EVENTS)
		return -ENOSPC;
	args->event_id = id;
	args->event_slot_index = id;
	args->event_trigger_data = id;
	if (!args->event_page_offset)
		args->event_page_offset = 1;
	return 0;
}

int events_destroy(const struct kfd_ioctl_destroy_event_args *args)
{
	struct event *gone;

	lock();
	gone = find_locked(args->event_id);
	if (gone)
		gone->is_used = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
	return gone ? 0 : -EINVAL;
}

int events_set(uint32_t id)
{
	struct event *which;

	lock();
	which = find_locked(id);
	if (which) {
		which->is_set = true;
		which->age++;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&mutex);
	return which ? 0 : -EINVAL;
}

int events_reset(uint32_t id)
{
	struct event *which;

	lock();
	which = find_locked(id);
	if (which)
		which->is_set = false;
	pthread_mutex_unlock(&mutex);
	return which ? 0 : -EINVAL;
}

static uint64_t *last_age_of(struct kfd_event_data *data)
{
	return &((struct signal_data *)(void *)data)->last_age;
}

static bool is_ready_locked(struct kfd_event_data *data)
{
	const struct event *which = find_locked(data->event_id);

	if (!which)
		return false;
	return which->is_set || (which->type == KFD_IOC_EVENT_SIGNAL && *last_age_of(data) &&
				 *last_age_of(data) != which->age);
}

static bool is_wait_over_locked(const struct kfd_ioctl_wait_events_args *args, struct kfd_event_data *data)
{
	uint32_t ready = 0;

	for (uint32_t i = 0; i < args->num_events; i++)
		ready += is_ready_locked(&data[i]);
	return args->num_events && (args->wait_for_all ? ready == args->num_events : ready > 0);
}

static struct timespec deadline_after(uint32_t timeout_ms)
{
	struct timespec when;

	clock_gettime(CLOCK_MONOTONIC, &when);
	when.tv_sec += timeout_ms / 1000;
	when.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (when.tv_nsec >= 1000000000) {
		when.tv_nsec -= 1000000000;
		when.tv_sec++;
	}
	return when;
}

static void collect_locked(const struct kfd_ioctl_wait_events_args *args, struct kfd_event_data *data)
{
	for (uint32_t i = 0; i < args->num_events; i++) {
		struct event *which = find_locked(data[i].event_id);

		if (!which || which->type != KFD_IOC_EVENT_SIGNAL)
			continue;
		if (*last_age_of(&data[i]))
			*last_age_of(&data[i]) = which->age;
		if (which->is_auto_reset)
			which->is_set = false;
	}
}

int events_wait(struct kfd_ioctl_wait_events_args *args)
{
	struct kfd_event_data *data = (void *)(uintptr_t)args->events_ptr;
	struct timespec deadline = deadline_after(args->timeout);

	lock();
	args->wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
	while (!is_wait_over_locked(args, data)) {
		int error = ETIMEDOUT;

		if (args->timeout == UINT32_MAX)
			error = pthread_cond_wait(&changed, &mutex);
		else if (args->timeout)
			error = pthread_cond_timedwait(&changed, &mutex, &deadline);
		if (error == ETIMEDOUT) {
			args->wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
			break;
		}
	}
	collect_locked(args, data);
	pthread_mutex_unlock(&mutex);
	return 0;
}

void events_forget(void)
{
	memset(event, 0, sizeof event);
	pthread_mutex_init(&mutex, NULL);
	init();
}
