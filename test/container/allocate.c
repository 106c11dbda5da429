/* Allocates device memory with HIP and says whether it was granted.
 *
 *	allocate SIZE [forever]		SIZE as in a limit; 0: loads HIP and allocates nothing
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../src/hip/memory_size.h"

int main(int argc, char **argv)
{
	static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5" };
	int (*allocate)(void **, size_t);
	void *hip = NULL, *memory = NULL;
	uint64_t bytes;
	int error;

	for (unsigned i = 0; i < 3 && !hip; i++)
		hip = dlopen(names[i], RTLD_NOW);
	if (!hip || argc < 2 || !memory_size_parse(argv[1], &bytes))
		return 2;
	if (!bytes)
		return 0;
	allocate = (int (*)(void **, size_t))dlsym(hip, "hipMalloc");
	error = allocate(&memory, bytes);
	puts(error ? "refused" : "granted");
	fflush(stdout);
	while (argc > 2 && !strcmp(argv[2], "forever"))
		pause();
	return error != 0;
}
