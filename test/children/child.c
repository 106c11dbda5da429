/* Says what limit it finds itself under: `child [ARGUMENT...]` loads the stand-in runtime of the tests' roots and asks it.
 *
 *	limit=1024M mask=0:0-7 arguments=a b|c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *runtime;

static void *find(const char *name)
{
	return dlsym(runtime, name);
}

static size_t total(void)
{
	int (*info)(size_t *, size_t *) = (int (*)(size_t *, size_t *))find("hipMemGetInfo");
	size_t f = 0, t = 0;

	return info(&f, &t) ? 0 : t;
}

static int allocate(size_t size)
{
	int (*alloc)(void **, size_t) = (int (*)(void **, size_t))find("hipMalloc");
	int (*release)(void *) = (int (*)(void *))find("hipFree");
	void *p = NULL;
	int error = alloc(&p, size);

	if (!error)
		release(p);
	return error;
}

/* Another worker of the pod may have it all just now. */
static int has_its_turn(size_t size)
{
	int tries = 1000;

	while (allocate(size) != 0 && --tries)
		usleep(10000);
	return tries;
}

int main(int argc, char **argv)
{
	const char *mask;
	size_t limit;

	runtime = dlopen("/opt/children/libamdhip64.so.7", RTLD_NOW);
	if (!runtime) {
		printf("no runtime: %s\n", dlerror());
		return 2;
	}
	limit = total();
	mask = getenv("HSA_CU_MASK");
	printf("limit=%zuM", limit >> 20);
	if (allocate(limit + (1 << 20)) != 2 || !has_its_turn(limit))
		printf(" (and it does not hold)");
	printf(" mask=%s", mask ? mask : "-");
	for (int i = 1; i < argc; i++)
		printf("%s%s", i == 1 ? " arguments=" : "|", argv[i]);
	printf("\n");
	return 0;
}
