/* Which of this process's descriptors stand for the same thing.
 *
 * A descriptor can be duplicated in many ways, none of which we see; that one is left is asked where it matters, when the last
 * that we know of goes: a reading of /proc/self/fd, never in the way of a close that ends nothing. Any thread; maps nothing.
 */
#ifndef AMVGPU_DESCRIPTORS_H
#define AMVGPU_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* The inode of a dma-buf, which is one for all its descriptors; 0: fd is none. */
uint64_t descriptors_inode(int fd);
/* The same for one that the driver has just made: all dma-bufs are of one file system, which is remembered. */
uint64_t descriptors_exported(int fd);

/* A descriptor of a dma-buf that is_one() says yes to, by its inode; -1: none. */
int descriptors_find_dmabuf(bool (*is_one)(uint64_t inode, uint64_t what), uint64_t what);
/* Another descriptor of fd's open file; -1: none. */
int descriptors_find_other(int fd);

#endif
