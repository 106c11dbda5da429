/* start [NAME=VALUE...] -- PROGRAM [ARGUMENT...]: a parent that nothing watches, as a container's runtime is. Static; the
 * program is an absolute path. */
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char *environment[64];
	int i = 1;

	for (; i < argc && i < 64 && strcmp(argv[i], "--"); i++)
		environment[i - 1] = argv[i];
	if (chdir("/tmp"))
		return 126;
	execve(argv[i + 1], argv + i + 1, environment);
	return 126;
}
