/* The commands of the render nodes, below the unmodified libdrm.
 *
 *   DRM file   an open file description of a render node, told from others by a tag: its file position. It
 * has GEM handles, numbered from 1, one for each object however often it is imported. A DRM file ends with
 * its last descriptor, in whatever process that is; its handles go with it. */
#ifndef KFDEMU_DRM_H
#define KFDEMU_DRM_H

#include <stdint.h>

/* A new descriptor of the render node of CARD, or -errno. */
int drm_open(int card);
/* 0 or -errno; an unknown command is said aloud. Any thread. */
int drm_command(int fd, uint64_t tag, unsigned long command, void *args);
/* Frees the handles of files that nobody has open any more. Cheap when there are none. */
void drm_collect(void);
void drm_forget(void);

#endif
