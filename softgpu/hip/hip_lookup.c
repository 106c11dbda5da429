/* hipGetProcAddress and hipGetDriverEntryPoint: dlsym on the library that "libamdhip64.so" names, as in
 * reality. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "floor.h"
#include "hip.h"

enum { FOUND = 0, NOT_FOUND = 1 };

/* The unversioned name: without the link of the development package nothing is found. */
static void *lookup(const char *name)
{
	static void *_Atomic library;
	void *handle = atomic_load(&library);

	if (!handle) {
		handle = dlopen("libamdhip64.so", RTLD_LAZY);
		atomic_store(&library, handle);
	}
	return handle ? dlsym(handle, name) : NULL;
}

static bool has_library(void)
{
	return lookup("hipInit");
}

HIP_API hipError_t hipGetProcAddress(const char *name, void **function, int version, uint64_t flags,
				     int *status)
{
	HIP_ENTER(hipGetProcAddress);
	(void)flags;
	if (!name || !*name || !function)
		return HIP_LEAVE(hipErrorInvalidValue);
	if (!has_library())
		return HIP_LEAVE(hipErrorInvalidValue); /* status is left alone */
	if (version >= 600 && !strcmp(name, "hipGetDeviceProperties"))
		name = "hipGetDevicePropertiesR0600";
	if (version >= 600 && !strcmp(name, "hipChooseDevice"))
		name = "hipChooseDeviceR0600";
	*function = lookup(name);
	if (status)
		*status = *function ? FOUND : NOT_FOUND;
	return HIP_LEAVE(*function ? hipSuccess : hipErrorInvalidValue);
}

static hipError_t entry_point(const char *name, void **function, bool per_thread, int *status)
{
	char spt[128];

	if (!name || !*name || !function)
		return hipErrorInvalidValue;
	if (!has_library())
		return hipErrorInvalidValue;
	*function = NULL;
	snprintf(spt, sizeof(spt), "%s_spt", name);
	if (per_thread)
		*function = lookup(spt);
	if (!*function)
		*function = lookup(name);
	if (status)
		*status = *function ? FOUND : NOT_FOUND;
	return *function ? hipSuccess : hipErrorInvalidValue;
}

HIP_API hipError_t hipGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
					  int *status)
{
	enum { PER_THREAD = 2 };

	HIP_ENTER(hipGetDriverEntryPoint);
	return HIP_LEAVE(entry_point(name, function, flags == PER_THREAD, status));
}

HIP_API hipError_t hipGetDriverEntryPoint_spt(const char *name, void **function, unsigned long long flags,
					      int *status)
{
	HIP_ENTER(hipGetDriverEntryPoint_spt);
	(void)flags;
	return HIP_LEAVE(entry_point(name, function, true, status));
}
