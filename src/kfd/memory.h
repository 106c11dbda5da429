/* What the driver really gave: the physical book.
 *
 * Each buffer is charged once, to the process that allocated it, from its allocation until the last thing by which this
 * process holds it is gone: KFD's handles, GEM's (they end with their file), imports included, and the descriptors of the
 * dma-bufs it exported, duplicates too. Buffers of other processes are never charged here. Called from the ioctl and close wrappers, before
 * and after the real call, on the program's threads.
 */
#ifndef AMVGPU_KFD_MEMORY_H
#define AMVGPU_KFD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the table of buffers, which all that follows needs; false: no memory for it. */
bool physical_open(void);
bool physical_is_open(void);

/* Bytes announced for an allocation. device < 0: not counted. */
struct physical {
	int device;
	uint64_t bytes;
	bool is_overdraft;
};

/* False: over the limit, and this call can be refused (is_refusable, or the thread is inside an allocation call that expects
 * it); the refusal is on record. Otherwise it is granted, or an overdraft that physical_settle charges. */
bool physical_reserve(struct physical *p, int device, uint64_t bytes, bool is_refusable);
void physical_withdraw(const struct physical *p);
/* Returns the number under which the buffer is known from now on. */
uint64_t physical_settle(const struct physical *p);

/* Names by which a process can hold a buffer. */
enum physical_name { NAME_KFD_HANDLE, NAME_GEM_HANDLE, NAME_INODE, NAME_DESCRIPTOR };

/* A GEM handle is one of a DRM file; the descriptor stands for the file. */
static inline uint64_t physical_gem_key(int fd, uint32_t handle)
{
	return (uint64_t)(uint32_t)fd << 32 | handle;
}

static inline uint64_t physical_descriptor_key(int fd)
{
	return (uint64_t)(uint32_t)fd + 1;
}

/* key names the buffer too and holds it (an inode does not hold). buffer = 0: nothing. */
void physical_hold(enum physical_name name, uint64_t key, uint64_t buffer);
/* The buffer that key names, or 0. */
uint64_t physical_find(enum physical_name name, uint64_t key);

/* A free in two steps, since the kernel reuses numbers at once: taken out before the call, then dropped or put back. */
struct physical_taken {
	uint64_t key, buffer;
	enum physical_name name;
};
struct physical_taken physical_take(enum physical_name name, uint64_t key);
void physical_drop(struct physical_taken taken);
void physical_put_back(struct physical_taken taken);

/* Around a close() of any descriptor. physical_descriptors: how many there are of those that matter; 0: leave it. */
extern uint64_t physical_descriptors;
struct physical_closing {
	struct physical_taken dmabuf;
	struct physical_taken *handles; /* what the DRM file holds; mapped */
	size_t count, size;
	int duplicate; /* another descriptor of the file; -1: it ends with this one */
};
/* False: fd holds nothing. */
bool physical_close_begin(struct physical_closing *closing, int fd);
void physical_close_end(struct physical_closing *closing);

#endif
