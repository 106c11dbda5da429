#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

static struct state *state;
static uint32_t state_mine;
static const char *state_path = "";

/* What tells one program in one process from all others: pid and start time, and where its stack begins,
 * which changes with exec. */
struct process {
	uint64_t start_time;
	uint64_t size;  /* of its address space */
	uint64_t start; /* of its code; HIDDEN: not to be seen, and nor is the stack */
	uint64_t stack; /* 0 while exec is at work */
};

enum { HIDDEN = 1 };

static void process_parse(const char *fields, struct process *process)
{
	enum { STATE = 3, START_TIME = 22, SIZE = 23, START = 26, STACK = 28 };

	for (int field = STATE; fields && field <= STACK; field++) {
		if (field == START_TIME)
			process->start_time = strtoull(fields, NULL, 10);
		if (field == SIZE)
			process->size = strtoull(fields, NULL, 10);
		if (field == START)
			process->start = strtoull(fields, NULL, 10);
		if (field == STACK)
			process->stack = strtoull(fields, NULL, 10);
		fields = strchr(fields, ' ');
		fields = fields ? fields + 1 : NULL;
	}
}

/* All zero if there is no such process or thread. */
static struct process process_read(const char *path)
{
	struct process process = {0};
	char text[512], *fields;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return process;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return process;
	text[n] = 0;
	fields = strrchr(text, ')');
	if (fields && fields[1] == ' ')
		process_parse(fields + 2, &process);
	return process;
}

static struct process process_of(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return process_read(path);
}

/* The first thread that still has an address space; all zero if there is none. */
static struct process thread_of(pid_t pid)
{
	struct process found = {0};
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	while (folder && !found.size && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid, entry->d_name);
		found = process_read(path);
	}
	if (folder)
		closedir(folder);
	return found;
}

/* The driver gives memory back when the address space goes: before a killed process is a zombie. */
static bool process_is_alive(const struct state_slot *slot)
{
	pid_t pid = atomic_load(&slot->pid);
	uint64_t stack = atomic_load(&slot->stack);
	struct process now;

	if (kill(pid, 0) && errno == ESRCH)
		return false;
	now = process_of(pid);
	if (now.start_time != atomic_load(&slot->start_time))
		return false;
	if (!now.size) /* its first thread has ended */
		now = thread_of(pid);
	return now.size && (now.start == HIDDEN || !stack || now.stack == stack);
}

bool state_is_alive(const struct state_slot *slot)
{
	return atomic_load(&slot->life) == STATE_ALIVE && process_is_alive(slot);
}

static uint32_t state_used(const struct state *s)
{
	uint32_t used = atomic_load(&s->slots_used);

	return used < STATE_SLOTS ? used : STATE_SLOTS;
}

/* All granted before all gone: no more than was held at the moment between. */
uint64_t state_sum_held(const struct state *s, int row)
{
	uint32_t used = state_used(s);
	uint64_t granted = 0, gone = 0;

	for (uint32_t i = 0; i < used; i++)
		granted += atomic_load(&s->rows[row][i].granted);
	for (uint32_t i = 0; i < used; i++)
		gone += atomic_load(&s->rows[row][i].gone);
	return granted > gone ? granted - gone : 0;
}

/* Each row's gone before its asked: no less than what is held and announced. */
static uint64_t state_sum_asked(const struct state *s, int row)
{
	uint32_t used = state_used(s);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < used; i++) {
		uint64_t gone = atomic_load(&s->rows[row][i].gone);

		sum += atomic_load(&s->rows[row][i].asked) - gone;
	}
	return sum;
}

static void state_raise(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t old = atomic_load_explicit(peak, memory_order_relaxed);

	while (old < value && !atomic_compare_exchange_weak(peak, &old, value))
		;
}

static void state_end_slot(struct state *s, uint32_t slot)
{
	for (int row = 0; row < STATE_ROWS; row++) {
		struct state_row *r = &s->rows[row][slot];
		uint64_t asked = atomic_load(&r->asked);

		atomic_store(&r->granted, asked);
		atomic_store(&r->gone, asked);
	}
	atomic_store(&s->slots[slot].life, STATE_ENDED);
	atomic_fetch_add(&s->ended, 1);
}

/* Held around the kernel's lock and over a fork: a child that inherits the locked descriptor would keep the
 * lock for ever. */
static pthread_mutex_t lock_of_process = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&lock_of_process);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock_of_process);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* The kernel drops this lock with its holder, so a killed one hinders nobody. */
static int state_lock(void)
{
	struct flock whole = {.l_type = F_WRLCK};
	int fd;

	pthread_mutex_lock(&lock_of_process);
	if (!*state_path)
		return -1;
	fd = open(state_path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		while (fcntl(fd, F_OFD_SETLKW, &whole) && errno == EINTR)
			;
	return fd;
}

static void state_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&lock_of_process);
}

static bool slot_is_settled(uint32_t slot)
{
	for (int row = 0; row < STATE_ROWS; row++) {
		const struct state_row *r = &state->rows[row][slot];

		if (atomic_load(&r->asked) != atomic_load(&r->gone))
			return false;
	}
	return true;
}

/* The driver takes back what the dead held, also what threads took after the runtime had gone. Caller holds the lock. */
static bool state_reap_locked(void)
{
	uint32_t used = state_used(state);
	bool found = false;

	for (uint32_t i = 0; i < used; i++) {
		struct state_slot *slot = &state->slots[i];

		if ((atomic_load(&slot->life) == STATE_ALIVE || !slot_is_settled(i)) && !process_is_alive(slot)) {
			state_end_slot(state, i);
			found = true;
		}
	}
	return found;
}

static bool state_reap(void)
{
	int fd = state_lock();
	bool found = fd >= 0 && state_reap_locked();

	state_unlock(fd);
	return found;
}

static bool has_company(int row)
{
	uint32_t used = state_used(state);

	for (uint32_t i = 0; i < used; i++)
		if (i != state_mine && atomic_load(&state->rows[row][i].granted) !=
					   atomic_load(&state->rows[row][i].gone))
			return true;
	return false;
}

/* The sum, when all whom it counts were alive. Caller holds the lock. */
static uint64_t state_sum_living_locked(int row)
{
	uint64_t held;

	do
		held = state_sum_held(state, row);
	while (state_reap_locked());
	return held;
}

/* The dead, whom nobody may have reaped yet, held nothing. */
static void state_note_peak(int row)
{
	uint32_t ended = atomic_load(&state->ended);
	uint64_t held = state_sum_held(state, row);
	int fd;

	if (held <= atomic_load(&state->peak[row]))
		return;
	if (has_company(row)) {
		fd = state_lock();
		if (state_reap_locked() || atomic_load(&state->ended) != ended)
			held = state_sum_living_locked(row);
		state_unlock(fd);
	}
	state_raise(&state->peak[row], held);
}

static bool state_try(int row, uint64_t bytes, uint64_t room)
{
	struct state_row *mine = &state->rows[row][state_mine];

	atomic_fetch_add(&mine->asked, bytes);
	if (state_sum_asked(state, row) > room) {
		atomic_fetch_sub(&mine->asked, bytes);
		return false;
	}
	atomic_fetch_add(&mine->granted, bytes);
	state_raise(&mine->peak, state_held_here(row));
	state_note_peak(row);
	return true;
}

/* What a process has of the card and uses for nothing; no other process sees or waits for it. */
static _Atomic uint64_t kept[STATE_ROWS];
static uint64_t keep_most;

static bool kept_take(int row, uint64_t bytes)
{
	uint64_t has = atomic_load_explicit(&kept[row], memory_order_relaxed);

	while (has >= bytes) {
		if (atomic_compare_exchange_weak(&kept[row], &has, has - bytes))
			return true;
	}
	return false;
}

static bool kept_put(int row, uint64_t bytes)
{
	uint64_t has = atomic_load_explicit(&kept[row], memory_order_relaxed);

	while (has + bytes <= keep_most) {
		if (atomic_compare_exchange_weak(&kept[row], &has, has + bytes))
			return true;
	}
	return false;
}

bool state_take(int row, uint64_t bytes)
{
	uint64_t capacity = state_capacity(row), others = state_others(row);
	uint64_t room = capacity > others ? capacity - others : 0;

	if (keep_most && kept_take(row, bytes))
		return true;
	for (int tries = 0; bytes <= room; tries++) {
		if (state_try(row, bytes, room))
			return true;
		if (state_sum_held(state, row) + bytes > room && !state_reap())
			return false;
		if (tries > 1000 && !state_reap())
			return false; /* somebody stopped, and did not die, between announcing and taking */
		sched_yield();
	}
	return false;
}

void state_give(int row, uint64_t bytes)
{
	if (keep_most && kept_put(row, bytes))
		return;
	atomic_fetch_add(&state->rows[row][state_mine].gone, bytes);
}

uint64_t state_held(int row)
{
	uint64_t held = state_sum_held(state, row);

	return held;
}

uint64_t state_held_here(int row)
{
	const struct state_row *mine = &state->rows[row][state_mine];
	uint64_t granted = atomic_load(&mine->granted);

	return granted - atomic_load(&mine->gone);
}

uint64_t state_capacity(int row)
{
	return row < SOFTGPU_DEVICES_MAX ? atomic_load(&state->capacity[row]) : UINT64_MAX / 2;
}

uint64_t state_others(int row)
{
	return row < SOFTGPU_DEVICES_MAX ? atomic_load(&state->others[row]) : 0;
}

static void state_init_locked(struct state *s, const struct settings *settings)
{
	if (!memcmp(s->magic, "softgpu", 8))
		return;
	s->version = STATE_VERSION;
	s->bytes = sizeof(*s);
	s->devices = settings->devices;
	for (int i = 0; i < SOFTGPU_DEVICES_MAX; i++) {
		s->capacity[i] = settings->capacity[i];
		s->others[i] = settings->others[i];
	}
	memcpy(s->magic, "softgpu", 8);
}

/* A slot never used before keeps the record of those that ended; when there are many, the oldest is used
 * again, unless threads of its process may still be on their way out. */
static int state_claim_locked(struct state *s)
{
	enum { KEPT = 64 };
	uint32_t used = state_used(s), slot = used;
	struct process here = process_of(getpid());

	for (uint32_t i = 0; used >= KEPT && i < used; i++) {
		if (s->slots[i].life == STATE_ENDED && !process_is_alive(&s->slots[i])) {
			slot = i;
			break;
		}
	}
	if (slot == STATE_SLOTS)
		return -EUSERS;
	state_end_slot(s, slot);
	for (int row = 0; row < STATE_ROWS; row++)
		s->rows[row][slot].peak = 0;
	s->slots[slot].pid = getpid();
	s->slots[slot].start_time = here.start_time;
	s->slots[slot].stack = process_read("/proc/thread-self/stat").stack;
	snprintf(s->slots[slot].command, sizeof(s->slots[slot].command), "%s", program_invocation_short_name);
	atomic_store(&s->slots[slot].life, STATE_ALIVE);
	if (slot == used)
		atomic_store(&s->slots_used, used + 1);
	state_mine = slot;
	return 0;
}

struct state *state_map(const char *path, bool writable)
{
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	struct state *s = MAP_FAILED;

	if (fd < 0)
		return NULL;
	if (lseek(fd, 0, SEEK_END) == sizeof(*s))
		s = mmap(NULL, sizeof(*s), PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
	close(fd);
	if (s == MAP_FAILED)
		return NULL;
	if (writable || (!memcmp(s->magic, "softgpu", 8) && s->version == STATE_VERSION))
		return s;
	munmap(s, sizeof(*s));
	return NULL;
}

static struct state *state_map_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, sizeof(struct state))) {
		close(fd);
		return NULL;
	}
	close(fd);
	return state_map(path, true);
}

int state_open(const struct settings *settings)
{
	int error, fd;

	state_path = settings->state;
	keep_most = settings->keep;
	memset((void *)kept, 0, sizeof kept);
	if (*state_path) {
		state = state_map_file(state_path);
	} else {
		void *private = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		state = private == MAP_FAILED ? NULL : private;
	}
	if (!state)
		return errno ? -errno : -EINVAL;
	fd = state_lock();
	state_init_locked(state, settings);
	if (fd >= 0)
		state_reap_locked();
	error = state_claim_locked(state);
	state_unlock(fd);
	return error;
}

void state_close(void)
{
	if (!state)
		return;
	state_end_slot(state, state_mine); /* stays mapped: other threads may be on their way out */
}

void state_forget(void)
{
	if (state)
		munmap(state, sizeof(*state));
	state = NULL;
}
