/* The functions of the C library (and one of libdrm's) that the emulation stands in for. Everything that is
 * not a device node or an emulated file goes to the original untouched. */
#define _GNU_SOURCE
#include "driver.h"
#include "drm.h"
#include "events.h"
#include "kernels.h"
#include "kfd.h"
#include "memory.h"
#include "queues.h"
#include "real.h"
#include "svm.h"
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define EXPORT __attribute__((visibility("default")))
#define PATH_BYTES 4096

enum { NOT_A_DEVICE = 1, FIRST_MINOR = 128, DRM_MAJOR = 226 };

/* ---- device nodes ---- */

static int open_kfd(int flags)
{
	int fd = fcntl(driver()->kfd_fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 3);

	return fd < 0 ? -errno : fd;
}

static int open_card(int card, bool is_primary, int flags)
{
	int fd = card < 0 || card >= driver()->cards ? -ENOENT : drm_open(card, is_primary);

	if (fd >= 0 && !(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	return fd;
}

/* A descriptor, -errno, or NOT_A_DEVICE in *KIND. */
static int open_device(const char *path, int flags, int *kind)
{
	int minor, length = 0;

	*kind = 0;
	if (path && !strcmp(path, "/dev/kfd"))
		return open_kfd(flags);
	if (path && sscanf(path, "/dev/dri/renderD%d%n", &minor, &length) == 1 && !path[length])
		return open_card(minor - FIRST_MINOR, false, flags);
	if (path && sscanf(path, "/dev/dri/card%d%n", &minor, &length) == 1 && !path[length])
		return open_card(minor, true, flags);
	*kind = NOT_A_DEVICE;
	return 0;
}

static int open_any(int dir, const char *path, int flags, mode_t mode)
{
	char buffer[PATH_BYTES];
	int kind, fd = open_device(path, flags, &kind);

	if (kind == NOT_A_DEVICE)
		return real()->openat(dir, topology_redirect(path, buffer, sizeof buffer), flags, mode);
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

static bool is_device(const char *path)
{
	int minor;

	if (!path || strncmp(path, "/dev/", 5))
		return false;
	if (sscanf(path, "/dev/dri/card%d", &minor) == 1)
		return minor >= 0 && minor < driver()->cards;
	return !strcmp(path, "/dev/kfd") || (sscanf(path, "/dev/dri/renderD%d", &minor) == 1 &&
					     minor >= FIRST_MINOR && minor < FIRST_MINOR + driver()->cards);
}

/* ---- opening ---- */

#define OPEN(name)                                                                                           \
	EXPORT int name(const char *path, int flags, ...)                                                    \
	{                                                                                                    \
		mode_t mode = 0;                                                                             \
		va_list args;                                                                                \
                                                                                                             \
		va_start(args, flags);                                                                       \
		if (flags & (O_CREAT | __O_TMPFILE))                                                         \
			mode = va_arg(args, mode_t);                                                         \
		va_end(args);                                                                                \
		return open_any(AT_FDCWD, path, flags, mode);                                                \
	}

#define OPENAT(name)                                                                                         \
	EXPORT int name(int dir, const char *path, int flags, ...)                                           \
	{                                                                                                    \
		mode_t mode = 0;                                                                             \
		va_list args;                                                                                \
                                                                                                             \
		va_start(args, flags);                                                                       \
		if (flags & (O_CREAT | __O_TMPFILE))                                                         \
			mode = va_arg(args, mode_t);                                                         \
		va_end(args);                                                                                \
		return open_any(dir, path, flags, mode);                                                     \
	}

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

EXPORT int __open_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags)
{
	return open_any(AT_FDCWD, path, flags, 0);
}

static FILE *fopen_any(const char *path, const char *mode)
{
	char buffer[PATH_BYTES];

	return real()->fopen(topology_redirect(path, buffer, sizeof buffer), mode);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
	return fopen_any(path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return fopen_any(path, mode);
}

EXPORT DIR *opendir(const char *path)
{
	char buffer[PATH_BYTES];

	return real()->opendir(topology_redirect(path, buffer, sizeof buffer));
}

/* ---- asking about files ---- */

EXPORT int access(const char *path, int mode)
{
	char buffer[PATH_BYTES];

	if (is_device(path))
		return 0;
	return real()->access(topology_redirect(path, buffer, sizeof buffer), mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	char buffer[PATH_BYTES];

	if (is_device(path))
		return 0;
	return real()->faccessat(dir, topology_redirect(path, buffer, sizeof buffer), mode, flags);
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict target, size_t size)
{
	char buffer[PATH_BYTES];

	return real()->readlink(topology_redirect(path, buffer, sizeof buffer), target, size);
}

static int stat_any(int dir, const char *path, struct stat *out, int flags)
{
	char buffer[PATH_BYTES];

	if (is_device(path)) { /* any character device will do; /dev/null is everywhere */
		path = "/dev/null";
		flags = 0;
	}
	return real()->fstatat(dir, topology_redirect(path, buffer, sizeof buffer), out, flags);
}

EXPORT int stat(const char *restrict path, struct stat *restrict out)
{
	return stat_any(AT_FDCWD, path, out, 0);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict out)
{
	return stat_any(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstatat(int dir, const char *restrict path, struct stat *restrict out, int flags)
{
	return stat_any(dir, path, out, flags);
}

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one structure for both names");

EXPORT int stat64(const char *restrict path, struct stat64 *restrict out)
{
	return stat_any(AT_FDCWD, path, (struct stat *)out, 0);
}

EXPORT int lstat64(const char *restrict path, struct stat64 *restrict out)
{
	return stat_any(AT_FDCWD, path, (struct stat *)out, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstatat64(int dir, const char *restrict path, struct stat64 *restrict out, int flags)
{
	return stat_any(dir, path, (struct stat *)out, flags);
}

EXPORT int statx(int dir, const char *restrict path, int flags, unsigned int mask, struct statx *restrict out)
{
	char buffer[PATH_BYTES];

	return real()->statx(dir, topology_redirect(path, buffer, sizeof buffer), flags, mask, out);
}

/* A node's descriptor is a character device with the node's number, as libdrm and others expect. */
EXPORT int fstat(int fd, struct stat *out)
{
	uint64_t tag;
	int result = real()->fstatat(fd, "", out, AT_EMPTY_PATH);

	if (!result && driver_is_connected() && driver_identify(fd, &tag) == NODE_RENDER) {
		out->st_mode = S_IFCHR | 0666;
		out->st_rdev = makedev(DRM_MAJOR, (tag & DRM_PRIMARY ? 0 : FIRST_MINOR) + tag % MAX_CARDS);
	}
	return result;
}

EXPORT int fstat64(int fd, struct stat64 *out)
{
	return fstat(fd, (struct stat *)out);
}

/* ---- descriptors ---- */

static int device_command(int fd, enum driver_node node, uint64_t tag, unsigned long command, void *args)
{
	int error;

	if (node == NODE_FOREIGN_KFD)
		error = -EBADF;
	else if (node == NODE_KFD)
		error = kfd_command(command, args);
	else
		error = drm_command(fd, tag, command, args);
	if (!error)
		return 0;
	errno = -error;
	return -1;
}

EXPORT int ioctl(int fd, unsigned long command, ...)
{
	char type = (char)(command >> 8);
	enum driver_node node = NODE_NONE;
	uint64_t tag = 0;
	va_list list;
	void *args;

	va_start(list, command);
	args = va_arg(list, void *);
	va_end(list);
	if (type == 'K' || type == 'd')
		node = driver_identify(fd, &tag);
	if (node == NODE_NONE)
		return real()->ioctl(fd, command, args);
	return device_command(fd, node, tag, command, args);
}

EXPORT int close(int fd)
{
	int result = real()->close(fd);
	int error = errno;

	if (driver_is_connected()) {
		drm_collect();
		memory_collect();
	}
	errno = error;
	return result;
}

EXPORT int munmap(void *address, size_t size)
{
	int result = real()->munmap(address, size);

	if (!result)
		svm_note_unmap((uint64_t)(uintptr_t)address, size);
	return result;
}

/* ---- libdrm ---- */

/* libdrm tells cards apart by this name, which it finds by the node's device number; ours have none. */
EXPORT char *drmGetPrimaryDeviceNameFromFd(int fd)
{
	uint64_t tag;
	char name[32];

	if (driver_identify(fd, &tag) != NODE_RENDER)
		return NULL;
	snprintf(name, sizeof name, "/dev/dri/card%d", (int)(tag % MAX_CARDS));
	return strdup(name);
}

/* ---- fork ---- */

/* A child has no KFD state: every module forgets the parent's. */
static void forget(void)
{
	driver_forget();
	queues_forget();
	events_forget();
	svm_forget();
	drm_forget();
	memory_forget();
	kernels_forget();
}

__attribute__((constructor)) static void start(void)
{
	real();
	pthread_atfork(NULL, NULL, forget);
}
