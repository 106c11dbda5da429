/* A stand-in for libamdhip64.so: every function of the table under its real symbol version, each answering
 * with its number; and an old version of each, as a library that kept its history has. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "route.h"

#define ROW(name, node)                                                                                      \
	__attribute__((used)) int real_##name(void)                                                          \
	{                                                                                                    \
		return ROUTE_REAL + ROW_##name;                                                              \
	}                                                                                                    \
	__asm__(".symver real_" #name ", " #name "@@" #node "\n.symver real_" #name ", " #name "@hip_0.9");
#include "rows.h"

/* What tells a runtime from an interposer. */
#define ANSWER_NOTHING(name)                                                                                 \
	__attribute__((used)) int real_##name(void)                                                          \
	{                                                                                                    \
		return 0;                                                                                    \
	}                                                                                                    \
	__asm__(".symver real_" #name ", " #name "@@hip_4.2");
ANSWER_NOTHING(hipInit)
ANSWER_NOTHING(hipGetDevice)
ANSWER_NOTHING(hipGetDeviceCount)
ANSWER_NOTHING(hipRuntimeGetVersion)
ANSWER_NOTHING(hipDriverGetVersion)
ANSWER_NOTHING(hipModuleLoad)
ANSWER_NOTHING(hipModuleLaunchKernel)
ANSWER_NOTHING(hipLaunchKernel)
ANSWER_NOTHING(hipGetErrorString)
ANSWER_NOTHING(hipGetLastError)
ANSWER_NOTHING(__hipRegisterFatBinary)
ANSWER_NOTHING(__hipUnregisterFatBinary)
ANSWER_NOTHING(__hipRegisterFunction)

/* As clr does: by the dynamic symbol table of the runtime's own file. */
static int find_own(const char *name, void **function)
{
	static int own;
	Dl_info where;
	void *handle;

	if (!dladdr(&own, &where) || !(handle = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))
		return 500;
	*function = dlsym(handle, name);
	dlclose(handle);
	return *function ? 0 : 500;
}

__attribute__((used)) int real_hipGetProcAddress(const char *name, void **function, int version,
						 unsigned long flags)
{
	(void)version, (void)flags;
	return find_own(name, function);
}
__asm__(".symver real_hipGetProcAddress, hipGetProcAddress@@hip_6.1");

__attribute__((used)) int real_hipGetDriverEntryPoint(const char *name, void **function, unsigned long flags)
{
	(void)flags;
	return find_own(name, function);
}
__asm__(".symver real_hipGetDriverEntryPoint, hipGetDriverEntryPoint@@hip_7.1");
