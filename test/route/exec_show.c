/* Says what of its environment was kept; as `show count` how many variables it has, as `show ARGUMENT...` its
 * arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static const char *value(const char *name)
{
	const char *v = getenv(name);

	return v ? v : "-";
}

int main(int argc, char **argv)
{
	const char *audit = strrchr(value("LD_AUDIT"), '/');

	for (int i = 1; i < argc; i++)
		printf("[%s]", argv[i]);
	printf("audit=%s kept=%s tunables=%s bind_now=%s\n", audit ? audit + 1 : "-", value("AMVGPU_KEPT"),
	       value("GLIBC_TUNABLES"), value("LD_BIND_NOW"));
	return 7;
}
