/* A program linked with the runtime that looks each function up: lookup HOW, where HOW is one of the names
 * below. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "route.h"

extern int hipGetProcAddress(const char *name, void **function, int version, unsigned long flags);
extern int hipGetDriverEntryPoint(const char *name, void **function, unsigned long flags);

static void *runtime;

static void *by_default(int row)
{
	return dlsym(RTLD_DEFAULT, route_names[row]);
}

static void *by_handle(int row)
{
	return dlsym(runtime, route_names[row]);
}

static void *by_next(int row)
{
	return dlsym(RTLD_NEXT, route_names[row]);
}

static void *by_version(int row)
{
	return dlvsym(runtime, route_names[row], route_nodes[row]);
}

static void *by_old_version(int row)
{
	return dlvsym(RTLD_DEFAULT, route_names[row], "hip_0.9");
}

static void *by_proc_address(int row)
{
	void *function = NULL;

	return hipGetProcAddress(route_names[row], &function, 702, 0) ? NULL : function;
}

static void *by_driver_entry_point(int row)
{
	void *function = NULL;

	return hipGetDriverEntryPoint(route_names[row], &function, 0) ? NULL : function;
}

static const struct {
	const char *name;
	void *(*find)(int row);
} ways[] = {
    {"dlsym_default", by_default},
    {"dlsym_handle", by_handle},
    {"dlsym_next", by_next},
    {"dlvsym", by_version},
    {"dlvsym_old", by_old_version},
    {"hipGetProcAddress", by_proc_address},
    {"hipGetDriverEntryPoint", by_driver_entry_point},
};

int main(int argc, char **argv)
{
	int answers[ROUTE_ROWS];

	runtime = dlopen("libamdhip64.so.7", RTLD_LAZY);
	route_stub(runtime);
	for (unsigned i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++) {
		if (strcmp(ways[i].name, argv[1]))
			continue;
		for (int row = 0; row < ROUTE_ROWS; row++) {
			route_function *function = (route_function *)ways[i].find(row);

			answers[row] = function ? function() : -1;
		}
		route_report(argv[1], answers);
		return 0;
	}
	return 2;
}
