/* This process's connection to the emulated driver: its row in the oracle, and the files behind the device
 * nodes.
 *
 *   memory file   one memfd a run; VRAM and GTT of all cards are ranges of it. An open render node is a
 * description of it. kfd file      one memfd a process; its pages are the doorbells. An open /dev/kfd is a
 * descriptor of it. A forked child inherits neither row nor kfd file: its parent's descriptors answer EBADF,
 * as the kernel's do. */
#ifndef KFDEMU_DRIVER_H
#define KFDEMU_DRIVER_H

#include "state.h"

#include <stdbool.h>
#include <stdint.h>

struct driver {
	struct state *state;
	int process; /* row in the oracle */
	int memory_fd, kfd_fd;
	int cards;
};

/* Connects at the first call. Never fails: without its files the emulation is no use, so it says why and
 * aborts. */
const struct driver *driver(void);
bool driver_is_connected(void);

enum driver_node { NODE_NONE, NODE_KFD, NODE_RENDER, NODE_FOREIGN_KFD };

/* What FD is; NODE_RENDER also tells its tag (see drm.h). Does not connect. */
enum driver_node driver_identify(int fd, uint64_t *tag);

int driver_gpu_id(int card);
/* -1: no such card. */
int driver_card(uint32_t gpu_id);

/* A new open file description of the file behind FD; -errno. */
int driver_reopen(int fd);
/* Moves FD out of the way of the program's own numbers. */
int driver_raise(int fd);
void driver_discard(uint64_t offset, uint64_t size);
/* Frees the memory of dead processes. Takes the state's lock. */
void driver_reap(void);

/* In a forked child, before anything else of this library runs. */
void driver_forget(void);

#endif
