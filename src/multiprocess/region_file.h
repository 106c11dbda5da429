/* Finding or making the region's file.
 *
 * A region has two names in its directory: the public one and a hidden one (".NAME.region"), links to one
 * inode. It is made whole under the hidden name and appears under the public one in one step, so nobody ever
 * sees half a region and a maker that is killed leaves nothing that the next would trip over. And who deletes
 * or replaces the public name while processes live takes nothing from them: a newcomer finds their region by
 * the hidden one and links it back.
 *
 * What stands at the public name and is no region of ours is never written into (somebody may have it
 * mapped): a region of an older version or boot and an empty file are unlinked, foreign content is moved
 * aside to "NAME.unusable". A region of a future version, a symbolic link, a directory and whatever we may
 * not open are left alone: the path cannot be used.
 *
 * Mode 0666 whatever the umask, and any owner is accepted: all users of one container share its limit, the
 * content is not trusted, and no process may hold more than its own settings say. Space is allocated before
 * anything is mapped, so a full file system is an error here and not a SIGBUS later.
 */
#ifndef AMVGPU_REGION_FILE_H
#define AMVGPU_REGION_FILE_H

#include <sys/file.h>

#include "liveness.h"

struct region_finder {
	uint64_t boot[2];
	uint64_t deadline_ns;
	bool is_replaced; /* something unusable stood in the way */
};

static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Zero where it cannot be read: equal to every boot. */
static inline void boot_read(uint64_t boot[2])
{
	char text[64];
	unsigned digits = 0;

	boot[0] = boot[1] = 0;
	if (file_read("/proc/sys/kernel/random/boot_id", text, sizeof text) < 36)
		return;
	for (const char *p = text; *p && digits < 32; p++) {
		int digit = hex_digit(*p);

		if (digit < 0)
			continue;
		boot[digits / 16] = boot[digits / 16] << 4 | (uint64_t)digit;
		digits++;
	}
}

static inline enum region_kind file_kind(int fd, const struct stat *st, const uint64_t boot[2])
{
	struct region_stamp stamp = {.magic = 0};

	if (sys_pread(fd, &stamp, sizeof stamp, 0) != (long)sizeof stamp)
		return REGION_GARBAGE;
	return region_kind(&stamp, (uint64_t)st->st_size, boot);
}

/* The region at path. -ENOENT: nothing is there; -ESTALE: something that may be replaced, *is_foreign says
 * whether its content is not ours; another -errno: the path cannot be used. */
static inline int file_open(const char *path, const uint64_t boot[2], bool *is_foreign)
{
	int fd = sys_open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	int result = -EPROTO;
	struct stat st;

	if (fd < 0)
		return fd;
	if (sys_fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		enum region_kind kind = file_kind(fd, &st, boot);

		if (kind == REGION_VALID)
			return fd;
		*is_foreign = kind == REGION_GARBAGE && st.st_size > 0;
		if (kind != REGION_FUTURE)
			result = -ESTALE;
	}
	sys_close(fd);
	return result;
}

static inline int file_fill_zero(int fd, uint64_t size)
{
	static const char zeros[4096];

	for (uint64_t at = 0; at < size; at += sizeof zeros) {
		uint64_t rest = size - at;
		long written = sys_pwrite(fd, zeros, rest < sizeof zeros ? rest : sizeof zeros, at);

		if (written <= 0)
			return written < 0 ? (int)written : -ENOSPC;
	}
	return 0;
}

static inline int file_allocate(int fd, uint64_t size)
{
	int result;

	do {
		result = sys_fallocate(fd, 0, 0, size);
	} while (result == -EINTR);
	return result == -EOPNOTSUPP || result == -ENOSYS ? file_fill_zero(fd, size) : result;
}

static inline int file_write_region(int fd, const uint64_t boot[2])
{
	struct region_stamp stamp = region_stamp_make(boot);
	int result = file_allocate(fd, sizeof(struct region));

	if (result < 0)
		return result;
	TESTPOINT(file_allocated);
	if (sys_pwrite(fd, &stamp, sizeof stamp, 0) != (long)sizeof stamp)
		return -EIO;
	TESTPOINT(file_written);
	return 0;
}

/* A whole region under the hidden name, or -errno and nothing. The directory is locked. */
static inline int file_create(const char *hidden, const uint64_t boot[2])
{
	int fd = sys_open(hidden, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666), result;

	if (fd < 0)
		return fd;
	TESTPOINT(file_created);
	sys_fchmod(fd, 0666);
	result = file_write_region(fd, boot);
	if (result == 0)
		return fd;
	sys_unlink(hidden);
	sys_close(fd);
	return result;
}

/* One maker at a time: nobody else's file is half made while we hold this. Protects the two names; the
 * region's own lock nests inside. A descriptor that holds it, or -errno. */
static inline int directory_lock(const struct region_finder *f, struct region_place *place)
{
	char first = place->hidden[place->directory_length];
	int fd, result;

	place->hidden[place->directory_length] = 0;
	fd = sys_open(place->hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	place->hidden[place->directory_length] = first;
	if (fd < 0)
		return fd;
	for (unsigned round = 0; (result = (int)SYS_CALL(SYS_flock, fd, LOCK_EX | LOCK_NB, 0)) != 0;
	     round++) {
		if ((result != -EAGAIN && result != -EINTR) || ledger_now_ns() > f->deadline_ns) {
			sys_close(fd);
			return result;
		}
		ledger_back_off(round);
	}
	TESTPOINT(file_directory_locked);
	return fd;
}

static inline int file_move_aside(struct region_finder *f, const struct region_place *place, bool is_foreign)
{
	f->is_replaced = true;
	return is_foreign ? sys_rename(place->path, place->aside) : sys_unlink(place->path);
}

/* The public name may have been lost while the region lives on under the hidden one. */
static inline int file_open_hidden(const struct region_finder *f, const struct region_place *place)
{
	bool is_foreign = false;
	int fd = file_open(place->hidden, f->boot, &is_foreign);

	if (fd >= 0)
		return fd;
	sys_unlink(place->hidden);
	return file_create(place->hidden, f->boot);
}

/* Where the file system has no links the hidden name becomes the public one. */
static inline int file_link(const struct region_place *place)
{
	int result = sys_link(place->hidden, place->path);

	if (result == 0 || result == -EEXIST)
		return result;
	return sys_rename(place->hidden, place->path);
}

static inline int file_make_locked(struct region_finder *f, const struct region_place *place)
{
	bool is_foreign = false;
	int result = -EAGAIN;

	for (int tries = 0; tries < 4; tries++) {
		int fd = file_open(place->path, f->boot, &is_foreign);

		if (fd >= 0 || (fd != -ENOENT && fd != -ESTALE))
			return fd;
		if (fd == -ESTALE && (result = file_move_aside(f, place, is_foreign)) < 0)
			return result;
		fd = file_open_hidden(f, place);
		if (fd < 0)
			return fd;
		result = file_link(place);
		TESTPOINT(file_linked);
		if (result == 0)
			return fd;
		sys_close(fd);
	}
	return result;
}

/* A descriptor of the region at the place, made if need be, or -errno: the path cannot be used. */
static inline int region_file_open(struct region_finder *f, struct region_place *place)
{
	bool is_foreign = false;
	int fd = file_open(place->path, f->boot, &is_foreign), directory;

	if (fd >= 0 || (fd != -ENOENT && fd != -ESTALE))
		return fd;
	directory = directory_lock(f, place);
	if (directory < 0)
		return directory;
	fd = file_make_locked(f, place);
	SYS_CALL(SYS_flock, directory, LOCK_UN, 0);
	sys_close(directory);
	return fd;
}

/* Does a mapping keep the description it was made through, and so its locks, when the descriptor is closed?
 * It does on every file system but overlayfs, which maps another file than the one opened. Tried on a byte
 * far from all others. */
static inline bool region_is_held_by_mapping(const struct region_place *place, int fd)
{
	uint64_t byte = LOCK_PROBE + (ledger_now_ns() & ((UINT64_C(1) << 60) - 1));
	int probe = region_reopen(place);
	void *mapping;
	bool is_held;

	if (probe < 0)
		return false;
	mapping = sys_mmap(NULL, 4096, PROT_READ, MAP_SHARED, probe, 0);
	is_held = !sys_is_error(mapping) && byte_try_lock(probe, byte) == 0;
	sys_close(probe);
	is_held = is_held && byte_is_held(fd, byte) == 1;
	if (!sys_is_error(mapping))
		sys_munmap(mapping, 4096);
	return is_held;
}

#endif
