/* Which GPU of the machine is which device of the limits.
 *
 * The KFD names a GPU by gpu_id, HSA by its node, DRM by its render minor; the limits count in the numbering of the
 * environment they came from. The kernel's topology ties them together. Read once, through the program's own open() where
 * something interposes it (an emulated driver does), so that we see the machine the runtime sees.
 * On the program's threads, not under the loader lock.
 */
#ifndef AMVGPU_TOPOLOGY_H
#define AMVGPU_TOPOLOGY_H

#include <stdint.h>

#include <sys/stat.h>

#include "../loader/elf_object.h"

enum { TOPOLOGY_GPUS = 64, TOPOLOGY_NONE = -1 };
#define TOPOLOGY_NO_MINOR UINT32_MAX

struct topology_gpu {
	uint32_t gpu_id;
	uint32_t node;
	uint32_t render_minor;
	uint32_t primary_minor; /* of /dev/dri/cardN, once it was asked for; else TOPOLOGY_NO_MINOR */
	uint64_t unique_id;
	unsigned compute_units;
	int device; /* index in the numbering of the limits; TOPOLOGY_NONE: not one of the pod's */
	int rocr;   /* position in the pod's ROCR_VISIBLE_DEVICES, in which HSA_CU_MASK counts; TOPOLOGY_NONE */
};

/* la_objopen: remembers an open() and fstat() that stand before libc's. */
void topology_objopen(const struct elf_object *object);

/* fstat() as the program's own would answer. 0 or a negative error. */
int topology_fstat(int fd, struct stat *st);

/* NULL: no such GPU. */
const struct topology_gpu *topology_by_gpu_id(uint32_t gpu_id);
const struct topology_gpu *topology_by_node(uint32_t node);
const struct topology_gpu *topology_by_drm_minor(uint32_t minor); /* of a render or a primary node */

#endif
