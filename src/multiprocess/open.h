/* Opening: from settings to a mapped region with a slot, or to a private one with a reason. */
#ifndef AMVGPU_OPEN_H
#define AMVGPU_OPEN_H

#include "region_file.h"
#include "slots.h"
#include "status.h"

#define LEDGER_SHM_PATH "/dev/shm/hipdevshr.cache"

enum { KERNEL_PR_GET_TSC = 25, KERNEL_PR_TSC_ENABLE = 1 };
enum { LIFETIME_FD_FROM = 900 }; /* out of the way of programs that expect the lowest numbers */

/* A process may have forbidden itself the time stamp counter (prctl PR_SET_TSC). */
static inline bool clock_is_tsc(void)
{
	int mode = 0;

	return SYS_CALL(SYS_prctl, KERNEL_PR_GET_TSC, &mode, 0) == 0 && mode == KERNEL_PR_TSC_ENABLE;
}

static inline void reason_note(struct ledger *l, enum ledger_reason reason)
{
	struct region_status *s = status_of(l);

	atomic_fetch_or(&l->state.reasons, UINT64_C(1) << reason);
	if (s)
		atomic_fetch_or(&s->reasons, UINT64_C(1) << reason);
}

/* The search: named, default, shared memory. NULL behind the last; a path equal to an earlier one is "". */
static inline const char *candidate_path(const struct ledger *l, unsigned i)
{
	const char *named = l->kept.settings.path ? l->kept.settings.path : LEDGER_DEFAULT_PATH;

	if (i == 0)
		return named;
	if (i == 1)
		return text_equal(named, LEDGER_DEFAULT_PATH) ? "" : LEDGER_DEFAULT_PATH;
	if (i == 2)
		return text_equal(named, LEDGER_SHM_PATH) ? "" : LEDGER_SHM_PATH;
	return NULL;
}

/* The two other names beside place->path. */
static inline void place_set_names(struct region_place *place)
{
	struct text hidden = {place->hidden, sizeof place->hidden, 0};
	struct text aside = {place->aside, sizeof place->aside, 0};

	for (size_t i = 0; place->path[i]; i++) {
		if (place->path[i] == '/')
			place->directory_length = i + 1;
	}
	text_add(&hidden, place->path);
	hidden.length = place->directory_length;
	text_add(&hidden, ".");
	text_add(&hidden, place->path + place->directory_length);
	text_add(&hidden, ".region");
	text_add(&aside, place->path);
	text_add(&aside, ".unusable");
}

/* Absolute, so that a later chdir does not lead elsewhere. False: no path, or too long for its names beside
 * it. */
static inline bool place_set_path(struct region_place *place, const char *path)
{
	struct text out = {place->path, sizeof place->path, 0};

	if (path[0] != '/') {
		if (SYS_CALL(SYS_getcwd, place->path, sizeof place->path, 0) <= 0 || place->path[0] != '/')
			return false;
		out.length = text_length(place->path);
		text_add(&out, "/");
	}
	text_add(&out, path);
	if (!path[0] || out.length + sizeof ".unusable" >= out.size)
		return false;
	place_set_names(place);
	return true;
}

/* A descriptor that lives as long as the process, where only one keeps the slot's byte. Takes over fd. */
static inline void lifetime_fd_keep(struct ledger *l, int fd)
{
	int high = sys_fcntl(fd, F_DUPFD_CLOEXEC, LIFETIME_FD_FROM);

	if (high >= 0)
		sys_close(fd);
	l->kept.lifetime_fd = high >= 0 ? high : fd;
	l->kept.lifetime_device = l->state.place.device;
	l->kept.lifetime_inode = l->state.place.inode;
}

/* A forked child has a copy of its parent's, which would keep the parent's byte beyond the parent's death. */
static inline void lifetime_fd_drop(struct ledger *l)
{
	int fd = l->kept.lifetime_fd;

	l->kept.lifetime_fd = -1;
	if (fd >= 0 && is_same_file(fd, l->kept.lifetime_device, l->kept.lifetime_inode))
		sys_close(fd);
}

/* A program that closed all descriptors closed ours, and its byte is free: lock it again on a new one. */
static inline void lifetime_fd_renew(struct ledger *l)
{
	int fd;

	if (l->state.is_held_by_mapping || atomic_load(&l->state.is_private))
		return;
	fd = region_reopen(&l->state.place);
	if (fd < 0)
		return;
	if (byte_try_lock(fd, LOCK_SLOT + l->state.slot) == 0)
		lifetime_fd_keep(l, fd);
	else
		sys_close(fd);
}

static inline void region_unmap(struct ledger *l, struct region *r)
{
	guard_remove(r);
	atomic_store(&l->state.mapping, NULL);
	sys_munmap(r, sizeof *r);
}

/* NULL when it cannot be mapped. A child gets none of it: no lock of ours may outlive us in a child. */
static inline struct region *region_map(struct ledger *l, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	struct region *r = sys_mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (sys_is_error(r))
		return NULL;
	sys_madvise(r, sizeof *r, MADV_DONTFORK);
	atomic_store(&l->state.mapping, r);
	if (fd >= 0)
		guard_add(r, l);
	return r;
}

static inline void limits_learn(struct ledger *l, struct region *r)
{
	for (unsigned i = 0; i < LEDGER_DEVICES; i++) {
		uint64_t limit = atomic_load(&r->header.limit[i]);

		l->state.pod_limit[i] = limit;
		if (limit && l->kept.settings.limit[i] > limit)
			reason_note(l, LEDGER_REASON_LIMIT_RAISE_IGNORED);
	}
}

/* fd: of a region; taken over. 0, LEDGER_REASON_SLOTS_FULL + 1, or -errno. A slot needs the lock less than a
 * request does: it waits a quarter as long. */
static inline int region_attach(struct ledger *l, int fd)
{
	struct stat st;
	struct region *r;

	if (sys_fstat(fd, &st) != 0 || !(r = region_map(l, fd))) {
		sys_close(fd);
		return -ENOMEM;
	}
	l->state.place.device = st.st_dev;
	l->state.place.inode = st.st_ino;
	l->state.is_held_by_mapping = region_is_held_by_mapping(&l->state.place, fd);
	if (slot_claim(l, r, fd, ledger_now_ns() + l->kept.wait_ns / 4) != 0) {
		region_unmap(l, r);
		sys_close(fd);
		return LEDGER_REASON_SLOTS_FULL + 1;
	}
	if (l->state.is_held_by_mapping)
		sys_close(fd);
	else
		lifetime_fd_keep(l, fd);
	limits_learn(l, r);
	status_reset(l, r);
	atomic_store(&l->state.region, r);
	return 0;
}

/* Limits this process alone, for want of a region that others can see. */
static inline int private_attach(struct ledger *l, enum ledger_reason reason)
{
	struct region *r = region_map(l, -1);

	atomic_store(&l->state.is_private, true);
	l->state.private_reason = (int)reason;
	reason_note(l, reason);
	if (!r)
		return -ENOMEM;
	l->state.slot = 0;
	region_fill_private(r, l, l->kept.settings.limit);
	status_reset(l, r);
	atomic_store(&l->state.region, r);
	return 0;
}

static inline int ledger_attach(struct ledger *l)
{
	struct region_finder f = {.deadline_ns = ledger_now_ns() + l->kept.wait_ns};
	const char *path;

	boot_read(f.boot);
	l->state.ident = ident_read();
	l->state.space = space_read();
	for (unsigned i = 0; (path = candidate_path(l, i)); i++) {
		int fd =
		    place_set_path(&l->state.place, path) ? region_file_open(&f, &l->state.place) : -ENOENT;
		int result = fd < 0 ? fd : region_attach(l, fd);

		if (result > 0)
			return private_attach(l, LEDGER_REASON_SLOTS_FULL);
		if (result < 0)
			continue;
		if (i > 0)
			reason_note(l, LEDGER_REASON_REGION_MOVED);
		if (f.is_replaced)
			reason_note(l, LEDGER_REASON_REGION_REPLACED);
		return 0;
	}
	return private_attach(l, LEDGER_REASON_REGION_PRIVATE);
}

/* Another may have opened between the caller's look and its turn. */
static inline void ledger_open_alone(struct ledger *l)
{
	int result = 0;

	if (!atomic_load(&l->state.region)) {
		lifetime_fd_drop(l);
		l->kept.opener_pid = sys_getpid();
		atomic_store(&l->state.clock_is_tsc, clock_is_tsc());
		result = ledger_attach(l);
	}
	atomic_store(&l->state.opening, result < 0 ? OPENING_FAILED : OPENING_NOBODY);
}

/* One thread opens; the others wait until it has. NULL: not even a private region could be mapped. */
static inline struct region *ledger_open_once(struct ledger *l)
{
	uint64_t deadline = 0;

	for (unsigned round = 0;; round++) {
		struct region *r = atomic_load(&l->state.region);
		uint32_t nobody = OPENING_NOBODY;

		if (r || atomic_load(&l->state.opening) == OPENING_FAILED)
			return r;
		if (atomic_compare_exchange_strong(&l->state.opening, &nobody, OPENING_SOMEBODY)) {
			ledger_open_alone(l);
			continue;
		}
		if (!deadline)
			deadline = ledger_now_ns() + 3 * l->kept.wait_ns;
		if (ledger_now_ns() > deadline)
			return NULL;
		ledger_pause(round);
	}
}

#endif
