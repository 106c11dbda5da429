/* The ioctl of every object that has one, wrapped: what the kernel's drivers are asked for.
 *
 * Interposers of ioctl (tracers, emulated drivers) stand before libc's; each object keeps its own original and a nested call
 * is not counted again. Commands that are not ours cost a comparison.
 */
#ifndef AMVGPU_KFD_IOCTL_H
#define AMVGPU_KFD_IOCTL_H

#include "../loader/elf_object.h"

/* la_objopen: has ioctl bound if the object has it and remembers where ROCm's own code is. */
void ioctl_objopen(struct elf_object *object, struct patch_batch *batch);
void ioctl_objclose(struct link_map *map);

#endif
