/* Preloaded before the driver: the first free of a buffer fails with EBUSY. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>

int ioctl(int fd, unsigned long command, ...)
{
	static int (*next)(int, unsigned long, ...);
	static int failed;
	va_list list;
	void *args;

	va_start(list, command);
	args = va_arg(list, void *);
	va_end(list);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
	if (command == 0x40084b17 && !failed++) {
		errno = EBUSY;
		return -1;
	}
	return next(fd, command, args);
}
