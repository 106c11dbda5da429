/* The pod's priority class and CU mask on every queue the driver makes, whoever asks for it.
 *
 * ROCr's own first queue, streams with a CU mask of their own and programs that talk to the driver directly do not pass the
 * HSA functions that carry class and mask. Called from the ioctl wrapper on the program's threads.
 */
#ifndef AMVGPU_KFD_QUEUES_H
#define AMVGPU_KFD_QUEUES_H

#include "kfd_abi.h"

typedef int (*ioctl_function)(int, unsigned long, void *);

/* command: as it came; its structure may be longer than ours. */
int queues_create(ioctl_function real, int fd, uint32_t command, struct kfd_create_queue *args);
int queues_update(ioctl_function real, int fd, uint32_t command, struct kfd_update_queue *args);
int queues_set_cu_mask(ioctl_function real, int fd, uint32_t command, struct kfd_set_cu_mask *args);
int queues_destroy(ioctl_function real, int fd, uint32_t command, struct kfd_destroy_queue *args);

#endif
