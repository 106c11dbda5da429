/* The log is shared by all processes of a run: one O_APPEND write a line, so that lines never mix. */
#include "log.h"
#include "real.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int log_fd = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Kept above the low numbers: programs that close descriptors 3 to 255 would close it. */
static void log_open(void)
{
	const char *path = settings()->log;
	int fd;

	if (!*path)
		return;
	fd = real()->open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 700);
	if (fd >= 0)
		real()->close(fd);
}

static int log_format(char *line, size_t size, const char *format, va_list args)
{
	int head = snprintf(line, size, "pid=%d ", getpid());
	int body = vsnprintf(line + head, size - (size_t)head - 1, format, args);
	int length = head + body;

	if (length > (int)size - 2)
		length = (int)size - 2;
	line[length++] = '\n';
	return length;
}

static void log_write(int fd, const char *line, int length)
{
	int error = errno;

	if (write(fd, line, (size_t)length) < 0)
		errno = error;
}

void log_line(const char *format, ...)
{
	char line[1024];
	va_list args;

	pthread_once(&once, log_open);
	if (log_fd < 0)
		return;
	va_start(args, format);
	log_write(log_fd, line, log_format(line, sizeof line, format, args));
	va_end(args);
}

void log_unknown(const char *format, ...)
{
	char line[1024];
	va_list args;
	int length;

	pthread_once(&once, log_open);
	va_start(args, format);
	length = log_format(line, sizeof line, format, args);
	va_end(args);
	if (log_fd >= 0)
		log_write(log_fd, line, length);
	log_write(STDERR_FILENO, "kfdemu: ", 8);
	log_write(STDERR_FILENO, line, length);
	if (settings()->strict)
		abort();
}
