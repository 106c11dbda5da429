/* OpenMP offload, compiled for the card by clang: 32 MiB of its own globals, memory by name and memory by mapping. No kernel:
 * the emulation carries out none. Says what it got; goes on when it is told. */
#include <omp.h>
#include <stdio.h>

enum { BLOCK = 20 << 20, MOST = 256, MAPPED = 100 << 20 };

#pragma omp declare target
char taken[32 << 20];
#pragma omp end declare target

static void stop(void)
{
	char line[16];

	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		printf("no line\n");
}

int main(void)
{
	static char host[MAPPED];
	void *blocks[MOST];
	int got = 0;

	printf("devices %d\n", omp_get_num_devices());
	stop();
#pragma omp target enter data map(alloc : host)
	printf("mapped %d, then %d of 200M\n", omp_target_is_present(host, 0), !!omp_target_alloc(200 << 20, 0));
	stop();
#pragma omp target exit data map(delete : host)
	while (got < MOST && (blocks[got] = omp_target_alloc(BLOCK, 0)))
		got++;
	printf("blocks %d\n", got);
	stop();
	while (got)
		omp_target_free(blocks[--got], 0);
	printf("freed\n");
	stop();
	return 0;
}
