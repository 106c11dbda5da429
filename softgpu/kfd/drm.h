/* The commands of the render and primary nodes, below the unmodified libdrm.
 *
 *   DRM file   an open file description of a node, told from others by a tag: its file position. It
 * has GEM handles, numbered from 1, one for each object however often it is imported. A DRM file ends with
 * its last descriptor, in whatever process that is; its handles go with it. */
#ifndef KFDEMU_DRM_H
#define KFDEMU_DRM_H

#include <stdbool.h>
#include <stdint.h>

/* In the tag of a file of the primary node; the card is the tag modulo MAX_CARDS all the same. */
#define DRM_PRIMARY ((uint64_t)1 << 40)

/* A new descriptor of the render or the primary node of CARD, or -errno. */
int drm_open(int card, bool is_primary);
/* 0 or -errno; an unknown command is said aloud. Any thread. */
int drm_command(int fd, uint64_t tag, unsigned long command, void *args);
/* Frees the handles of files that nobody has open any more. Cheap when there are none. */
void drm_collect(void);
void drm_forget(void);

#endif
