/* Looking at a region from outside: a copy of the file, so that nothing in it can change or vanish under the
 * reader.
 *
 * Takes no slot, writes nothing (but ledger_view_reap), trusts nothing.
 */
#ifndef AMVGPU_VIEW_H
#define AMVGPU_VIEW_H

#include "open.h"

struct ledger_view {
	struct region *copy; /* private memory */
	struct region_place place;
	uint64_t space;
};

/* The file's whole content in memory of our own. */
static inline struct region *region_copy(int fd)
{
	struct region *r =
	    sys_mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t at = 0;

	if (sys_is_error(r))
		return NULL;
	while (at < sizeof *r) {
		long got = sys_pread(fd, (char *)r + at, sizeof *r - at, at);

		if (got <= 0) {
			sys_munmap(r, sizeof *r);
			return NULL;
		}
		at += (size_t)got;
	}
	return r;
}

/* fd, or -errno; -EPROTO: no region of this version. access: O_RDONLY or O_RDWR. */
static inline int place_open(struct region_place *place, const char *path, int access)
{
	uint64_t boot[2];
	struct stat st;
	int fd;

	if (!place_set_path(place, path ? path : LEDGER_DEFAULT_PATH))
		return -ENAMETOOLONG;
	fd = sys_open(place->path, access | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	boot_read(boot);
	if (sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || file_kind(fd, &st, boot) != REGION_VALID) {
		sys_close(fd);
		return -EPROTO;
	}
	place->device = st.st_dev;
	place->inode = st.st_ino;
	return fd;
}

size_t ledger_view_size(void)
{
	return sizeof(struct ledger_view);
}

int ledger_view_open(struct ledger_view *view, const char *path)
{
	int fd = place_open(&view->place, path, O_RDONLY);

	if (fd < 0)
		return fd;
	view->copy = region_copy(fd);
	view->space = space_read();
	sys_close(fd);
	return view->copy ? 0 : -EPROTO;
}

void ledger_view_close(struct ledger_view *view)
{
	if (view->copy)
		sys_munmap(view->copy, sizeof *view->copy);
	view->copy = NULL;
}

uint64_t ledger_view_limit(const struct ledger_view *view, unsigned device)
{
	return device < LEDGER_DEVICES ? atomic_load(&view->copy->header.limit[device]) : 0;
}

static inline void view_fill_bytes(const struct ledger_view *view, unsigned slot,
				   struct ledger_process *process)
{
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		for (unsigned b = 0; b < LEDGER_BOOKS; b++)
			process->bytes[b][d] = (uint64_t)row_committed(&view->copy->row[d][b][region_row_index(slot)]);
		process->migrated[d] = atomic_load(&view->copy->status[slot].migrated[d]);
	}
}

static inline void view_fill_status(const struct ledger_view *view, unsigned slot,
				    struct ledger_process *process)
{
	const struct region_status *s = &view->copy->status[slot];

	bytes_copy(process->command, s->command, sizeof process->command);
	process->command[sizeof process->command - 1] = 0;
	for (unsigned i = 0; process->command[i]; i++) {
		if (process->command[i] < ' ' || process->command[i] > '~')
			process->command[i] = '?';
	}
	process->reasons = atomic_load(&((struct region_status *)s)->reasons);
	process->symbols_bound = (uint32_t)(atomic_load(&((struct region_status *)s)->symbols) >> 32);
	process->symbols_wanted = (uint32_t)atomic_load(&((struct region_status *)s)->symbols);
	process->allocations = (int64_t)atomic_load(&((struct region_status *)s)->allocations);
	process->refusals = atomic_load(&((struct region_status *)s)->refusals);
	status_read_last(s, &process->last);
}

bool ledger_view_next(const struct ledger_view *view, unsigned *slot, struct ledger_process *process)
{
	CLEANUP_JUDGE struct judge judge = judge_init(view->space, &view->place, -1);
	struct region *r = view->copy;

	for (; *slot < LEDGER_SLOTS; ++*slot) {
		uint64_t ident = atomic_load(&r->slot[*slot].ident),
			 space = atomic_load(&r->slot[*slot].space);

		if (!ident)
			continue;
		bytes_clear(process, sizeof *process);
		process->pid = (uint32_t)ident_pid(ident);
		process->start_time = ident & IDENT_START_MASK;
		process->foreign_namespace = !space_is_same(space, view->space);
		process->alive = !slot_is_dead(&judge, r, *slot, ident);
		view_fill_bytes(view, *slot, process);
		view_fill_status(view, *slot, process);
		++*slot;
		return true;
	}
	return false;
}

static inline int region_reap_all(struct region *r, struct judge *judge, int fd)
{
	unsigned top = region_high(r);
	int reaped = 0, result = byte_lock(fd, LOCK_REGION, ledger_now_ns() + UINT64_C(1000000) * LEDGER_WAIT_MS);

	if (result < 0)
		return result;
	for (unsigned i = 0; i < top; i++) {
		uint64_t ident = atomic_load(&r->slot[i].ident);

		if (ident && slot_is_dead(judge, r, i, ident)) {
			slot_reap_locked(r, i);
			reaped++;
		}
	}
	byte_unlock(fd, LOCK_REGION);
	return reaped;
}

int ledger_view_reap(const char *path)
{
	static struct region_place place; /* too large for a small stack; tools have one thread */
	CLEANUP_CLOSE int fd = place_open(&place, path, O_RDWR);
	struct region *r;
	int reaped;

	if (fd < 0)
		return fd;
	r = sys_mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sys_is_error(r))
		return -ENOMEM;
	guard_add(r, NULL);
	CLEANUP_JUDGE struct judge judge = judge_init(space_read(), &place, fd);
	reaped = region_reap_all(r, &judge, fd);
	guard_remove(r);
	sys_munmap(r, sizeof *r);
	return reaped;
}

#endif
