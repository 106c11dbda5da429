/* The region's kernel locks: open-file-description record locks on bytes of the file.
 *
 * Byte LOCK_REGION is taken to reap and to queue, on a description opened and closed for the purpose:
 * programs close all descriptors and forked children keep copies, so nothing is held open across calls, and
 * it is unlocked aloud. Never needed for safety: a lost or unobtainable lock costs time, not bytes. Nests
 * inside nothing but the lock of the directory (region_file.h); no other lock is taken under it. Byte
 * LOCK_SLOT + i tells that the owner of slot i lives: see liveness.h. Never use per-process (POSIX) locks
 * here: closing any descriptor of the file would drop them.
 */
#ifndef AMVGPU_REGION_LOCK_H
#define AMVGPU_REGION_LOCK_H

#include "ledger_state.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define LOCK_REGION 0
#define LOCK_SLOT 1
#define LOCK_QUEUE (UINT64_C(1) << 41) /* + book: the one request of it that waits for calls in flight */
#define LOCK_PROBE (UINT64_C(1) << 40) /* far from all others, for region_is_held_by_mapping() */

static inline int byte_lock_call(int fd, int command, short type, uint64_t byte)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
	int result = sys_fcntl(fd, command, (long)&lock);

	if (result < 0)
		return result;
	return command == F_OFD_GETLK ? lock.l_type != F_UNLCK : 0;
}

/* 0, or -EAGAIN (somebody has it), or another -errno. */
static inline int byte_try_lock(int fd, uint64_t byte)
{
	int result = byte_lock_call(fd, F_OFD_SETLK, F_WRLCK, byte);

	return result == -EACCES ? -EAGAIN : result;
}

static inline void byte_unlock(int fd, uint64_t byte)
{
	byte_lock_call(fd, F_OFD_SETLK, F_UNLCK, byte);
}

/* 1: another description holds it; 0: nobody does; -errno. */
static inline int byte_is_held(int fd, uint64_t byte)
{
	return byte_lock_call(fd, F_OFD_GETLK, F_WRLCK, byte);
}

static inline bool is_same_file(int fd, uint64_t device, uint64_t inode)
{
	struct stat st;

	return sys_fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static inline int file_reopen(const char *name, const struct region_place *place)
{
	int fd = sys_open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);

	if (fd < 0 || is_same_file(fd, place->device, place->inode))
		return fd;
	sys_close(fd);
	return -ESTALE;
}

/* A fresh description of the region's file, or -errno: neither of its names leads to it any more. */
static inline int region_reopen(const struct region_place *place)
{
	int fd = file_reopen(place->path, place);

	return fd >= 0 ? fd : file_reopen(place->hidden, place);
}

/* 0, or -errno; -ETIMEDOUT: somebody held it until the deadline. */
static inline int byte_lock(int fd, uint64_t byte, uint64_t deadline_ns)
{
	for (unsigned round = 0;; round++) {
		int result = byte_try_lock(fd, byte);

		if (result == 0 && byte == LOCK_REGION)
			TESTPOINT(lock_held);
		if (result == 0)
			return 0;
		if (result != -EAGAIN && result != -EINTR)
			return result;
		if (ledger_now_ns() > deadline_ns)
			return -ETIMEDOUT;
		ledger_back_off(round);
	}
}

/* The descriptor that holds the byte, or -errno. */
static inline int byte_lock_open(const struct region_place *place, uint64_t byte, uint64_t deadline_ns)
{
	int fd = region_reopen(place), result;

	if (fd < 0)
		return fd;
	result = byte_lock(fd, byte, deadline_ns);
	if (result == 0)
		return fd;
	sys_close(fd);
	return result;
}

/* Unlocks aloud: a child forked meanwhile has a copy of the descriptor. */
static inline void byte_unlock_close(int fd, uint64_t byte)
{
	byte_unlock(fd, byte);
	sys_close(fd);
}

#endif
