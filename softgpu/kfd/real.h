/* The C library's own functions below the ones this library interposes. */
#ifndef KFDEMU_REAL_H
#define KFDEMU_REAL_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

struct statx;

struct real {
	int (*open)(const char *path, int flags, ...);
	int (*openat)(int dir, const char *path, int flags, ...);
	FILE *(*fopen)(const char *path, const char *mode);
	DIR *(*opendir)(const char *path);
	int (*access)(const char *path, int mode);
	int (*faccessat)(int dir, const char *path, int mode, int flags);
	int (*fstatat)(int dir, const char *path, struct stat *out, int flags);
	int (*statx)(int dir, const char *path, int flags, unsigned int mask, struct statx *out);
	ssize_t (*readlink)(const char *path, char *buffer, size_t size);
	int (*ioctl)(int fd, unsigned long command, ...);
	int (*close)(int fd);
	int (*munmap)(void *address, size_t size);
};

/* Looks them up at the first call; any thread, also before constructors have run. */
const struct real *real(void);

#endif
