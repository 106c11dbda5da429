/* A program that is not linked with the runtime and loads it, or a plugin linked with it, while it runs.
 *
 *	loader plugin ROUTE lazy|now|deepbind|namespace PLUGIN	go the plugin's way
 *	loader runtime ROUTE lazy|now|namespace RUNTIME...	look every function up in each, one after the
 *other loader reload ROUTE now RUNTIME				the same after closing and loading it again
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "route.h"

static void *open_as(const char *mode, const char *file)
{
	void *handle = NULL;

	if (!strcmp(mode, "lazy"))
		handle = dlopen(file, RTLD_LAZY);
	else if (!strcmp(mode, "now"))
		handle = dlopen(file, RTLD_NOW);
	else if (!strcmp(mode, "deepbind"))
		handle = dlopen(file, RTLD_NOW | RTLD_DEEPBIND);
	else if (!strcmp(mode, "namespace"))
		handle = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
	if (handle)
		return handle;
	fprintf(stderr, "loader: %s\n", dlerror());
	exit(2);
}

/* Keeps what is not wrapped: one copy that leaks is a leak. */
static void answers_merge(int *answers, const int *more)
{
	for (int i = 0; i < ROUTE_ROWS; i++) {
		if (answers[i] == ROUTE_WRAPPED + i)
			answers[i] = more[i];
	}
}

static void ask(void *handle, int *answers)
{
	int own[ROUTE_ROWS];

	route_stub(handle);
	for (int i = 0; i < ROUTE_ROWS; i++) {
		route_function *function = (route_function *)dlsym(handle, route_names[i]);

		own[i] = function ? function() : -1;
	}
	answers_merge(answers, own);
}

static void run_plugin(const char *mode, const char *file, int *answers)
{
	void *handle = open_as(mode, file);
	route_module *run = (route_module *)dlsym(handle, "route_run");

	route_stub(handle);
	if (!run)
		exit(2);
	run(answers);
}

/* Closes the only handle and insists that the object is really gone. */
static void reload(const char *mode, const char *file, int *answers)
{
	void *handle = open_as(mode, file);

	ask(handle, answers);
	for (int i = 0; i < 3; i++) {
		if (dlclose(handle) || dlopen(file, RTLD_LAZY | RTLD_NOLOAD))
			exit(2);
		handle = open_as(mode, file);
		ask(handle, answers);
	}
}

int main(int argc, char **argv)
{
	int answers[ROUTE_ROWS];

	for (int i = 0; i < ROUTE_ROWS; i++)
		answers[i] = ROUTE_WRAPPED + i;
	if (argc < 5)
		return 2;
	if (!strcmp(argv[1], "plugin"))
		run_plugin(argv[3], argv[4], answers);
	else if (!strcmp(argv[1], "reload"))
		reload(argv[3], argv[4], answers);
	for (int i = 4; !strcmp(argv[1], "runtime") && i < argc; i++)
		ask(open_as(argv[3], argv[i]), answers);
	route_report(argv[2], answers);
	return 0;
}
