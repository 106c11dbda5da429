/* LD_PRELOADed over hipMalloc and hipFree, which call the next one: as torch_memory_saver does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int hipMalloc(void **pointer, size_t size)
{
	return ((int (*)(void **, size_t))dlsym(RTLD_NEXT, "hipMalloc"))(pointer, size);
}

int hipFree(void *pointer)
{
	return ((int (*)(void *))dlsym(RTLD_NEXT, "hipFree"))(pointer);
}
