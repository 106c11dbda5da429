/* hold MIB [SECONDS]: takes so much device memory and keeps it for a while (4 s). Used by ./demo. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const char *const names[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5" };
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 256;
	void *runtime = NULL, *memory = NULL;
	int (*alloc)(void **, size_t), result;

	for (unsigned i = 0; i < 3 && !runtime; i++)
		runtime = dlopen(names[i], RTLD_NOW);
	if (!runtime) {
		fprintf(stderr, "hold: no libamdhip64\n");
		return 2;
	}
	*(void **)&alloc = dlsym(runtime, "hipMalloc");
	result = alloc(&memory, mib << 20);
	printf("first process: hipMalloc(%zu MiB) returned %d\n", mib, result);
	fflush(stdout);
	sleep(argc > 2 ? (unsigned)atoi(argv[2]) : 4);
	return result;
}
