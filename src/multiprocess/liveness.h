/* Who lives: identities of processes and the judgement over a slot.
 *
 * Wrongly dead breaks the limit, wrongly alive only delays others, so whatever cannot be known is alive.
 *
 * Each owner holds the lock byte of its slot. Where the file system lets a mapping keep the description that
 * it was made through (all but overlayfs), the byte is locked on that description and the descriptor is
 * closed: the kernel then holds the byte exactly as long as the address space has the region mapped. Exit,
 * SIGKILL and exec end it; a zombie, a forked child (MADV_DONTFORK), a used-again pid, closing all
 * descriptors and the end of the main thread do not confuse it; it means the same in every namespace and
 * without /proc. Such slots carry SLOT_MAPPED. On overlayfs the byte hangs on a descriptor instead, which
 * programs close and children inherit. There /proc decides within one pid and time namespace, and the byte
 * between two.
 */
#ifndef AMVGPU_LIVENESS_H
#define AMVGPU_LIVENESS_H

#include "region_lock.h"

enum { IDENT_START_BITS = 42 };
#define IDENT_START_MASK ((UINT64_C(1) << IDENT_START_BITS) - 1)
#define SPACE_UNKNOWN 1u /* a namespace that could not be told: equal to none, not even to itself */

struct process_stat {
	char state;
	uint64_t threads;
	uint64_t start_time;
};

/* Reads a small file whole; the terminated length or -errno. */
static inline long file_read(const char *path, char *buffer, size_t size)
{
	CLEANUP_CLOSE int fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
	long length;

	if (fd < 0)
		return fd;
	length = sys_read(fd, buffer, size - 1);
	if (length >= 0)
		buffer[length] = 0;
	return length;
}

/* Fields 3, 20 and 22 of /proc/pid/stat. The command may hold anything, so counting starts at its last ')'.
 */
static inline bool process_stat_parse(const char *text, struct process_stat *out)
{
	const char *p = NULL;
	uint64_t value = 0;

	for (; *text; text++) {
		if (*text == ')')
			p = text;
	}
	if (!p || p[1] != ' ' || !p[2])
		return false;
	out->state = p[2];
	p += 3;
	for (int field = 4; field <= 22; field++) {
		if (*p++ != ' ')
			return false;
		if (*p == '-')
			p++;
		if (!text_number(&p, &value))
			return false;
		if (field == 20)
			out->threads = value;
	}
	out->start_time = value & IDENT_START_MASK;
	return true;
}

static inline int process_stat_read(int pid, struct process_stat *out)
{
	char path[40], buffer[512];
	struct text name = TEXT_ON(path);
	long length;

	text_add(&name, "/proc/");
	text_add_number(&name, (uint64_t)pid);
	text_add(&name, "/stat");
	length = file_read(path, buffer, sizeof buffer);
	if (length < 0)
		return (int)length;
	return process_stat_parse(buffer, out) ? 0 : -EPROTO;
}

/* The inode of /proc/self/ns/NAME, or SPACE_UNKNOWN. */
static inline uint32_t namespace_read(const char *path)
{
	char link[64];
	long length = sys_readlink(path, link, sizeof link - 1);
	const char *p = link;
	uint64_t inode;

	if (length <= 0)
		return SPACE_UNKNOWN;
	link[length] = 0;
	while (*p && *p != '[')
		p++;
	if (*p++ != '[' || !text_number(&p, &inode) || inode > UINT32_MAX || inode <= SPACE_UNKNOWN)
		return SPACE_UNKNOWN;
	return (uint32_t)inode;
}

/* A /proc of another pid namespace numbers processes differently: nothing in it may be believed. */
static inline bool proc_is_ours(void)
{
	char link[24];
	long length = sys_readlink("/proc/self", link, sizeof link - 1);
	const char *p = link;
	uint64_t pid;

	if (length <= 0)
		return false;
	link[length] = 0;
	return text_number(&p, &pid) && pid == (uint64_t)sys_getpid();
}

/* Never 0. A kernel without time namespaces has one: it counts as 2. */
static inline uint64_t space_read(void)
{
	uint32_t pid = proc_is_ours() ? namespace_read("/proc/self/ns/pid") : SPACE_UNKNOWN;
	uint32_t time = sys_access("/proc/self/ns/time", 0) ? 2 : namespace_read("/proc/self/ns/time");

	return (uint64_t)pid << 32 | time;
}

static inline uint64_t ident_make(int pid, uint64_t start_time)
{
	return (uint64_t)pid << IDENT_START_BITS | (start_time & IDENT_START_MASK);
}

/* Start time 0 where /proc cannot tell it. Never 0 as a whole. */
static inline uint64_t ident_read(void)
{
	int pid = sys_getpid();
	struct process_stat st = {.start_time = 0};

	if (proc_is_ours() && process_stat_read(pid, &st) != 0)
		st.start_time = 0;
	return ident_make(pid, st.start_time);
}

static inline int ident_pid(uint64_t ident)
{
	return (int)(ident >> IDENT_START_BITS);
}

/* A judge looks from one process's namespaces at one file. The file is opened when a byte must be asked. */
struct judge {
	uint64_t space;
	const struct region_place *place;
	int fd; /* -1: not opened yet; another negative: cannot be opened */
	bool fd_is_borrowed;
};

static inline struct judge judge_init(uint64_t space, const struct region_place *place, int fd)
{
	return (struct judge){
	    .space = space, .place = place, .fd = fd < 0 ? -1 : fd, .fd_is_borrowed = fd >= 0};
}

static inline void judge_fini(struct judge *judge)
{
	if (judge->fd >= 0 && !judge->fd_is_borrowed)
		sys_close(judge->fd);
}
#define CLEANUP_JUDGE __attribute__((cleanup(judge_fini)))

/* 1, 0 or -errno. */
static inline int judge_byte(struct judge *judge, unsigned slot)
{
	if (judge->fd == -1) {
		judge->fd = region_reopen(judge->place);
		if (judge->fd < 0)
			judge->fd = -2;
	}
	return judge->fd < 0 ? -EBADF : byte_is_held(judge->fd, LOCK_SLOT + slot);
}

static inline bool space_is_same(uint64_t a, uint64_t b)
{
	return a == b && (uint32_t)a != SPACE_UNKNOWN && a >> 32 != SPACE_UNKNOWN;
}

/* Within one pid namespace; without a system call beyond one when there is no such process. */
static inline bool ident_is_gone(uint64_t ident)
{
	return sys_kill(ident_pid(ident), 0) == -ESRCH;
}

static inline bool ident_is_dead(uint64_t ident)
{
	struct process_stat st = {0};

	if (ident_is_gone(ident))
		return true;
	if (!(ident & IDENT_START_MASK) || process_stat_read(ident_pid(ident), &st) != 0)
		return false; /* hidden is not dead; a race is seen next time */
	if (st.start_time != (ident & IDENT_START_MASK))
		return true;
	/* A main thread may end and leave others behind. */
	return (st.state == 'Z' || st.state == 'X') && st.threads <= 1;
}

/* ident: the slot's identity as the caller read it, not 0. Safe with and without the region's lock.
 * Where /proc may be believed (same namespaces) and the byte alone does not tell, /proc decides; else the
 * byte. */
static inline bool slot_is_dead(struct judge *judge, struct region *r, unsigned slot, uint64_t ident)
{
	struct region_slot *s = &r->slot[slot];
	uint64_t space = atomic_load(&s->space), flags = atomic_load(&s->flags);
	bool is_here = space && space_is_same(space, judge->space);
	int held;

	if (atomic_load(&s->ident) != ident)
		return false;
	if (is_here && !(flags & SLOT_MAPPED))
		return ident_is_dead(ident);
	held = judge_byte(judge, slot);
	if (held >= 0)
		return !held;
	return is_here && ident_is_dead(ident);
}

/* The part of slot_is_dead() that costs one system call and no file. */
static inline bool slot_is_plainly_dead(uint64_t my_space, struct region *r, unsigned slot, uint64_t ident)
{
	uint64_t space = atomic_load(&r->slot[slot].space);

	return atomic_load(&r->slot[slot].ident) == ident && space && space_is_same(space, my_space) &&
	       ident_is_gone(ident);
}

#endif
