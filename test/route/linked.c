/* A program linked with the runtime that goes the way of the module it is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "route.h"

extern route_module route_run;

int main(int argc, char **argv)
{
	int answers[ROUTE_ROWS];

	(void)argc;
	/* Not RTLD_DEFAULT: that is the program's own PLT where it has one for the address. */
	route_stub(dlopen("libamdhip64.so.7", RTLD_LAZY | RTLD_NOLOAD));
	route_run(answers);
	route_report(argv[1], answers);
	return 0;
}
