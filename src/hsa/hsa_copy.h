/* One loaded copy of the HSA runtime: the pinned environment before hsa_init, and the pod's priority class on every queue.
 *
 * The wrappers run on the program's threads; open and close under the loader lock.
 */
#ifndef AMVGPU_HSA_COPY_H
#define AMVGPU_HSA_COPY_H

#include "../loader/elf_object.h"

/* An interposer (HSA_TOOLS_LIB and the like) exports some of the names; the runtime also iterates agents. */
static inline bool hsa_is_provider(const struct elf_object *object)
{
	return elf_object_find(object, "hsa_init", NULL) && elf_object_find(object, "hsa_iterate_agents", NULL);
}

/* False: no place left for another copy. */
bool hsa_copy_open(struct elf_object *object, struct patch_result *result);
/* The originals stay until the place is taken again: exit closes every object while threads still run in it. */
void hsa_copy_close(struct link_map *map);
void *hsa_copy_symbind(struct link_map *map, const char *name, uintptr_t real);

#endif
