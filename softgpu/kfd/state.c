/* See state.h. A process may be killed at any instruction: its mutex is robust, and whoever gets it next
 * recounts. */
#define _GNU_SOURCE
#include "state.h"
#include "real.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ull
#define ALIGN_2M (2ull << 20)

const char *const kind_name[KINDS] = {"user", "code", "scratch", "queue", "svm", "other"};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static void gauge_add(struct state_gauge *gauge, uint64_t bytes)
{
	gauge->now += bytes;
	if (gauge->now > gauge->peak)
		gauge->peak = gauge->now;
}

/* ---- processes ---- */

/* Fields of /proc/PID/stat after the name, which may hold blanks and brackets: state, number of threads,
 * start time. */
static int read_stat(int32_t pid, char *status, long *threads, uint64_t *start_time)
{
	char path[32], text[1024];
	const char *field;
	ssize_t length;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	fd = real()->open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof text - 1);
	real()->close(fd);
	if (length <= 0)
		return -ESRCH;
	text[length] = 0;
	field = strrchr(text, ')');
	if (!field ||
	    sscanf(field + 1,
		   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %lu", status,
		   threads, start_time) != 3)
		return -EINVAL;
	return 0;
}

struct state_identity state_self(void)
{
	struct state_identity self = {.pid = getpid()};
	char status;
	long threads;

	if (read_stat(self.pid, &status, &threads, &self.start_time))
		self.start_time = 0;
	return self;
}

bool is_alive(const struct state_identity *who)
{
	char status;
	long threads;
	uint64_t start_time;
	int error = read_stat(who->pid, &status, &threads, &start_time);

	if (error)
		return error != -ENOENT && error != -ESRCH;
	if (start_time != who->start_time)
		return false;
	return !((status == 'Z' || status == 'X') && threads <= 1);
}

static bool is_row_alive(const struct state_process *process)
{
	struct state_identity who = {process->pid, process->start_time};

	return process->status == PROCESS_ALIVE && is_alive(&who);
}

/* ---- opening ---- */

static void init_mutex(struct state *state)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&state->mutex, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

static bool is_ours(const struct state *state)
{
	return state->magic == STATE_MAGIC && state->version == STATE_VERSION &&
	       state->size_of_process == sizeof(struct state_process) &&
	       state->size_of_extent == sizeof(struct state_extent);
}

static void init_state(struct state *state)
{
	init_mutex(state);
	state->version = STATE_VERSION;
	state->size_of_process = sizeof(struct state_process);
	state->size_of_extent = sizeof(struct state_extent);
	state->run = (uint64_t)getpid() << 32 ^ (uint64_t)time(NULL);
	state->next_tag = 1;
	state->next_serial = 1;
	state->magic = STATE_MAGIC;
}

static int open_file(const char *path, int *fd)
{
	*fd = path ? real()->open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)
		   : memfd_create("kfdemu-state", MFD_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

/* Under the file's lock. A file with other content is somebody else's: left alone. */
static int map_file_locked(int fd, struct state **out)
{
	struct stat file;
	struct state *state;
	bool is_new;

	if (fstat(fd, &file))
		return -errno;
	is_new = file.st_size == 0;
	if (!is_new && file.st_size != sizeof *state)
		return -EINVAL;
	if (is_new && ftruncate(fd, sizeof *state))
		return -errno;
	state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (state == MAP_FAILED)
		return -errno;
	if (state->magic == 0) /* new, or its maker died here */
		init_state(state);
	*out = state;
	if (is_ours(state))
		return 0;
	state_close(state);
	return -EINVAL;
}

struct state *state_open(const char *path)
{
	struct state *state = NULL;
	int fd, error = open_file(path, &fd);

	if (error) {
		errno = -error;
		return NULL;
	}
	flock(fd, LOCK_EX);
	error = map_file_locked(fd, &state);
	flock(fd, LOCK_UN);
	real()->close(fd);
	errno = -error;
	return error ? NULL : state;
}

void state_close(struct state *state)
{
	real()->munmap(state, sizeof *state);
}

void state_lock(struct state *state)
{
	if (pthread_mutex_lock(&state->mutex) == EOWNERDEAD) {
		state_recount_locked(state);
		pthread_mutex_consistent(&state->mutex);
	}
}

void state_unlock(struct state *state)
{
	pthread_mutex_unlock(&state->mutex);
}

/* ---- extents ---- */

static void charge(struct state *state, const struct state_extent *extent)
{
	struct state_process *process = &state->process[extent->creator];

	if (!extent->is_vram)
		return;
	gauge_add(&process->by_kind[extent->card][extent->kind], extent->size);
	gauge_add(&process->total[extent->card], extent->size);
	gauge_add(&state->card[extent->card].used, extent->size);
	state->card[extent->card].aligned += round_up(extent->size, ALIGN_2M);
}

static void discharge(struct state *state, const struct state_extent *extent)
{
	struct state_process *process = &state->process[extent->creator];

	if (!extent->is_vram)
		return;
	process->by_kind[extent->card][extent->kind].now -= extent->size;
	process->total[extent->card].now -= extent->size;
	state->card[extent->card].used.now -= extent->size;
	state->card[extent->card].aligned -= round_up(extent->size, ALIGN_2M);
}

static int find_free_row(struct state *state)
{
	for (uint32_t row = 0; row < state->extents_high; row++)
		if (!state->extent[row].size)
			return (int)row;
	return state->extents_high < MAX_EXTENTS ? (int)state->extents_high++ : -1;
}

int state_take_locked(struct state *state, int process, int card, uint64_t size, bool is_vram, enum kind kind,
		      int *row)
{
	struct state_card *where = &state->card[card];
	struct state_extent *extent;
	uint64_t bytes = round_up(size, PAGE);

	if (is_vram && (bytes > where->capacity || where->used.now > where->capacity - bytes)) {
		where->refused++;
		return STATE_NO_VRAM;
	}
	*row = find_free_row(state);
	if (*row < 0)
		return STATE_NO_ROW;
	extent = &state->extent[*row];
	*extent = (struct state_extent){.offset = state->next_offset,
					.creator = (uint16_t)process,
					.card = (uint8_t)card,
					.kind = (uint8_t)kind,
					.is_vram = is_vram,
					.serial = state->next_serial++};
	extent->holders[process / 64] = 1ull << process % 64;
	if (state->metadata[*row].bytes)
		state->metadata[*row] = (struct state_metadata){0};
	state->next_offset += round_up(bytes, ALIGN_2M);
	extent->size = bytes;
	charge(state, extent);
	return STATE_DONE;
}

void state_hold_locked(struct state *state, int row, int process)
{
	state->extent[row].holders[process / 64] |= 1ull << process % 64;
}

static int first_holder(const struct state_extent *extent)
{
	for (int word = 0; word < HOLDER_WORDS; word++)
		if (extent->holders[word])
			return word * 64 + __builtin_ctzll(extent->holders[word]);
	return -1;
}

bool state_drop_locked(struct state *state, int row, int process)
{
	struct state_extent *extent = &state->extent[row];
	int heir;

	extent->holders[process / 64] &= ~(1ull << process % 64);
	heir = first_holder(extent);
	if (heir >= 0 && state->process[extent->creator].status == PROCESS_ALIVE)
		return false;
	discharge(state, extent);
	if (heir < 0) {
		extent->size = 0;
		return true;
	}
	extent->creator = (uint16_t)heir;
	charge(state, extent);
	return false;
}

void state_set_kind_locked(struct state *state, int row, enum kind kind)
{
	struct state_extent *extent = &state->extent[row];
	struct state_process *process = &state->process[extent->creator];

	if (extent->is_vram && extent->kind != kind) {
		process->by_kind[extent->card][extent->kind].now -= extent->size;
		gauge_add(&process->by_kind[extent->card][kind], extent->size);
	}
	extent->kind = (uint8_t)kind;
}

uint64_t state_available_locked(struct state *state, int card)
{
	const struct state_card *where = &state->card[card];

	return where->aligned >= where->capacity ? 0
						 : (where->capacity - where->aligned) / ALIGN_2M * ALIGN_2M;
}

/* ---- the dead ---- */

static void bury(struct state *state, int dead, state_freed *freed, void *context)
{
	state->process[dead].status = PROCESS_ENDED;
	state->process[dead].ended_order = ++state->ended_count;
	for (uint32_t row = 0; row < state->extents_high; row++) {
		struct state_extent *extent = &state->extent[row];
		struct state_extent copy = *extent;

		if (!extent->size || !(extent->holders[dead / 64] >> dead % 64 & 1))
			continue;
		if (state_drop_locked(state, (int)row, dead) && freed)
			freed(&copy, context);
	}
}

void state_reap_locked(struct state *state, state_freed *freed, void *context)
{
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (state->process[i].status == PROCESS_ALIVE && !is_row_alive(&state->process[i]))
			bury(state, i, freed, context);
}

/* A free row, or else the one whose process ended first: ended rows keep their peaks as long as possible. */
static int find_process_row(const struct state *state)
{
	int best = -1;

	for (int i = 0; i < MAX_PROCESSES; i++) {
		const struct state_process *process = &state->process[i];

		if (process->status == PROCESS_FREE)
			return i;
		if (process->status == PROCESS_ENDED &&
		    (best < 0 || process->ended_order < state->process[best].ended_order))
			best = i;
	}
	return best;
}

/* Not /proc/self/comm: that says ld.so where ld.so was told to run the program. */
static void read_name(struct state_process *process)
{
	snprintf(process->name, sizeof process->name, "%s", program_invocation_short_name);
}

int state_claim_locked(struct state *state, const struct state_identity *self, state_freed *freed,
		       void *context)
{
	int row;

	state_reap_locked(state, freed, context);
	for (int i = 0; i < MAX_PROCESSES; i++) /* this process before it called exec */
		if (state->process[i].status == PROCESS_ALIVE && state->process[i].pid == self->pid)
			bury(state, i, freed, context);
	row = find_process_row(state);
	if (row < 0)
		return -1;
	state->process[row] =
	    (struct state_process){.pid = self->pid, .start_time = self->start_time, .memory_fd = -1};
	read_name(&state->process[row]);
	state->process[row].status = PROCESS_ALIVE;
	return row;
}

/* ---- adding up ---- */

static void clear_now(struct state *state)
{
	for (int card = 0; card < MAX_CARDS; card++) {
		state->card[card].used.now = 0;
		state->card[card].aligned = 0;
		for (int i = 0; i < MAX_PROCESSES; i++) {
			state->process[i].total[card].now = 0;
			for (int kind = 0; kind < KINDS; kind++)
				state->process[i].by_kind[card][kind].now = 0;
		}
	}
}

/* What a release or a burial left that was cut off by death: the ended hold nothing, and what nobody holds is free. */
static void mend(struct state *state, struct state_extent *extent)
{
	int heir;

	for (int i = 0; i < MAX_PROCESSES; i++)
		if (state->process[i].status != PROCESS_ALIVE)
			extent->holders[i / 64] &= ~(1ull << i % 64);
	heir = first_holder(extent);
	if (heir < 0)
		extent->size = 0;
	else if (state->process[extent->creator].status != PROCESS_ALIVE)
		extent->creator = (uint16_t)heir;
}

void state_recount_locked(struct state *state)
{
	clear_now(state);
	for (uint32_t row = 0; row < state->extents_high; row++) {
		if (state->extent[row].size)
			mend(state, &state->extent[row]);
		if (state->extent[row].size)
			charge(state, &state->extent[row]);
	}
}

bool state_is_valid_locked(struct state *state)
{
	uint64_t sum[MAX_CARDS] = {0}, rows[MAX_CARDS] = {0};
	bool valid = true;

	for (uint32_t row = 0; row < state->extents_high; row++)
		if (state->extent[row].size && state->extent[row].is_vram)
			rows[state->extent[row].card] += state->extent[row].size;
	for (int card = 0; card < MAX_CARDS; card++) {
		for (int i = 0; i < MAX_PROCESSES; i++)
			sum[card] += state->process[i].total[card].now;
		valid = valid && sum[card] == rows[card] && rows[card] == state->card[card].used.now;
	}
	return valid;
}
