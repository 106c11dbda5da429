/* One loaded copy of the HIP runtime, and what we keep of it: the originals of the functions we replaced and the helpers
 * that our wrappers ask.
 *
 * Several copies can be loaded (wheels bring their own); each call must go on to the copy it was made to. So every copy has
 * its own set of entry points, generated in wrappers.c.
 */
#ifndef AMVGPU_HIP_COPY_H
#define AMVGPU_HIP_COPY_H

#include "hip_abi.h"
#include "../loader/elf_object.h"

enum { HIP_COPIES = 4 };

enum hip_function {
#define ALLOC(name, ...) HIP_##name,
#define FREE(name, ...) HIP_##name,
#define HAND(name, ...) HIP_##name,
#define PASS(name, ...)
#include "hip_api.def"
#undef ALLOC
#undef FREE
#undef HAND
#undef PASS
	HIP_FUNCTIONS,
};

/* Functions of the runtime that the wrappers call and do not replace. Any of them may be missing in an older release. */
#define HIP_HELPERS(HELPER)                                                                                            \
	HELPER(hipGetDevice, (int *))                                                                                  \
	HELPER(hipStreamGetDevice, (hipStream_t, hipDevice_t *))                                                       \
	HELPER(hipGetStreamDeviceId, (hipStream_t))                                                                    \
	HELPER(hipStreamIsCapturing, (hipStream_t, int *))                                                             \
	HELPER(hipMemPoolTrimTo, (hipMemPool_t, size_t))                                                               \
	HELPER(hipMemPoolGetAttribute, (hipMemPool_t, int, void *))                                                    \
	HELPER(hipMemGetAddressRange, (hipDeviceptr_t *, size_t *, hipDeviceptr_t))                                    \
	HELPER(hipGraphGetNodes, (hipGraph_t, hipGraphNode_t *, size_t *))                                             \
	HELPER(hipGraphNodeGetType, (hipGraphNode_t, int *))                                                           \
	HELPER(hipGraphMemAllocNodeGetParams, (hipGraphNode_t, hipMemAllocNodeParams *))                               \
	HELPER(hipGraphChildGraphNodeGetGraph, (hipGraphNode_t, hipGraph_t *))

struct hip_copy {
	struct link_map *map; /* NULL: this place is free */
	struct patch_result patched;
	int release; /* 52, 57, 64, 70 or 72: the oldest release that exports what this copy exports */
	bool managed_is_missing;
	uintptr_t code_start, code_end;
	void *original[HIP_FUNCTIONS];
	hipError_t (*malloc_unmanaged)(void **, size_t);
#define HELPER(name, params) hipError_t(*name) params;
	HIP_HELPERS(HELPER)
#undef HELPER
};

/* Whether object is a HIP runtime. An interposer (torch_memory_saver) exports hipMalloc and hipFree; the runtime also counts
 * devices. Inline, as is HSA's: asked of every object of every program, while all else of HIP lies unused. */
static inline bool hip_is_provider(const struct elf_object *object)
{
	return elf_object_find(object, "hipMalloc", NULL) && elf_object_find(object, "hipGetDeviceCount", NULL);
}

/* Binds a runtime. Under the loader lock. NULL: no place left for another copy. */
struct hip_copy *hip_copy_open(struct elf_object *object);
/* What the wrappers need stays until the place is taken again: exit closes every object while threads still run in it. */
void hip_copy_close(struct link_map *map);

/* PATCH_SYMBIND: the wrapper for name in the copy at map, or NULL. */
void *hip_copy_symbind(struct link_map *map, const char *name, uintptr_t real);

/* Whether the return address is a HIP runtime's. */
bool hip_is_caller(const void *address);

const char *hip_function_name(enum hip_function function);

#endif
