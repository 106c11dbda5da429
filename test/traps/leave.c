/* Calls exit while other threads are inside of the runtime and of libc.
 *
 *	leave hip       hipMalloc and hipFree
 *	leave libc      close and ioctl, on no descriptor
 *
 * Standard output has something left that exit must write.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int (*take)(void **, size_t);
static int (*give)(void *);

static void *allocate(void *unused)
{
	void *p;

	for (;;) {
		if (!take(&p, 4096))
			give(p);
	}
	return unused;
}

static void *ask(void *unused)
{
	for (;;) {
		close(-1);
		ioctl(-1, 0, NULL);
	}
	return unused;
}

int main(int count, char **argument)
{
	int is_hip = count > 1 && !strcmp(argument[1], "hip");
	void *runtime = is_hip ? dlopen(getenv("HIPSH_RUNTIME"), RTLD_NOW) : NULL;
	pthread_t thread;

	if (is_hip && (!runtime || !(take = (int (*)(void **, size_t))dlsym(runtime, "hipMalloc")) ||
		       !(give = (int (*)(void *))dlsym(runtime, "hipFree"))))
		return 2;
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, is_hip ? allocate : ask, NULL);
	usleep(2000);
	puts("left");
	exit(0);
}
