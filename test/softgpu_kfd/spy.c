/* Stands in front of the emulated driver's ioctl and tells each command: what an audit library that wraps
 * ioctl sees. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int ioctl(int fd, unsigned long command, ...)
{
	int (*next)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	char line[32];
	va_list list;
	void *args;

	va_start(list, command);
	args = va_arg(list, void *);
	va_end(list);
	if (write(2, line, (size_t)snprintf(line, sizeof line, "spy %#lx\n", command)) < 0)
		return -1;
	return next(fd, command, args);
}
