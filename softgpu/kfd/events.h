/* KFD events: what a queue signals when its packets are done, and what the runtime waits for. Any thread. */
#ifndef KFDEMU_EVENTS_H
#define KFDEMU_EVENTS_H

#include "uapi.h"

#include <stdint.h>

int events_create(struct kfd_ioctl_create_event_args *args);
int events_destroy(const struct kfd_ioctl_destroy_event_args *args);
int events_set(uint32_t id);
int events_reset(uint32_t id);
int events_wait(struct kfd_ioctl_wait_events_args *args);
/* In a forked child. */
void events_forget(void);

#endif
