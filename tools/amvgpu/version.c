/* amvgpu version: of the tool, of what it stands on, and which library it would use. */
#include <gnu/libc-version.h>
#include <json-c/json.h>
#include <microhttpd.h>
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>

#include "amvgpu.h"
#include "library.h"

static const struct argp argp = {NULL, NULL, NULL, "Show versions.", NULL, NULL, NULL};

int verb_version(int argc, char **argv)
{
	char *library;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	library = library_find(NULL);
	printf("amvgpu %s\n", AMVGPU_VERSION);
	printf("library %s\n", library ? library : "not found");
	printf("glibc %s, json-c %s, libmicrohttpd %s, %s\n", gnu_get_libc_version(), json_c_version(),
	       MHD_get_version(), curses_version());
	free(library);
	return EXIT_OK;
}
