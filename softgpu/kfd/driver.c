/* See driver.h. */
#define _GNU_SOURCE
#include "driver.h"
#include "log.h"
#include "real.h"
#include "settings.h"
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_GPU_ID 0x1001
#define DOORBELL_BYTES                                                                                       \
	((off_t)MAX_CARDS << 33) /* the card's number is in bits 33 and up of a doorbell offset */
#define MEMORY_BYTES ((off_t)1 << 55)

enum { MAX_FOREIGN = 64 };

static struct driver self = {.memory_fd = -1, .kfd_fd = -1, .process = -1};
static atomic_bool connected;
static pthread_mutex_t connecting = PTHREAD_MUTEX_INITIALIZER;
static struct stat memory_stat, kfd_stat;
static ino_t foreign[MAX_FOREIGN];
static int foreigners;

static void die(const char *what)
{
	perror(what);
	abort();
}

int driver_gpu_id(int card)
{
	return FIRST_GPU_ID + card;
}

int driver_card(uint32_t gpu_id)
{
	int card = (int)gpu_id - FIRST_GPU_ID;

	return card >= 0 && card < self.cards ? card : -1;
}

int driver_raise(int fd)
{
	int high;

	if (fd < 0)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 600);
	if (high < 0)
		return fd;
	real()->close(fd);
	return high;
}

int driver_reopen(int fd)
{
	char path[32];
	int fresh;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	fresh = real()->open(path, O_RDWR | O_CLOEXEC);
	return fresh < 0 ? -errno : fresh;
}

void driver_discard(uint64_t offset, uint64_t size)
{
	fallocate(self.memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
}

static void discard_extent(const struct state_extent *extent, void *context)
{
	(void)context;
	if (self.memory_fd >= 0)
		driver_discard(extent->offset, extent->size);
}

void driver_reap(void)
{
	state_lock(self.state);
	state_reap_locked(self.state, discard_extent, NULL);
	state_unlock(self.state);
}

/* ---- connecting ---- */

/* Programs close descriptors that they know nothing of, and then open others. */
static bool is_memory_file(int fd)
{
	struct stat file;

	return fd >= 0 && !fstat(fd, &file) && file.st_size == MEMORY_BYTES;
}

static int open_memory_of(const struct state_process *process)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", process->pid, process->memory_fd);
	fd = real()->open(path, O_RDWR | O_CLOEXEC);
	if (is_memory_file(fd))
		return fd;
	if (fd >= 0)
		real()->close(fd);
	return -1;
}

/* The run's memory file, from any process that has it; -1 when no other process lives. A second file beside
 * the first would be a second set of cards, so one that cannot be reached is the end. */
static int adopt_memory_locked(void)
{
	bool has_others = false;

	for (int i = 0; i < MAX_PROCESSES; i++) {
		const struct state_process *process = &self.state->process[i];
		struct state_identity who = {process->pid, process->start_time};
		int fd = process->status == PROCESS_ALIVE && i != self.process ? open_memory_of(process) : -1;

		if (fd >= 0)
			return fd;
		has_others =
		    has_others || (process->status == PROCESS_ALIVE && i != self.process && is_alive(&who));
	}
	if (has_others)
		die("kfdemu: the memory of this run's other processes cannot be reached");
	return -1;
}

static uint64_t capacity_of(int card)
{
	const char *text = settings()->vram_mb;
	char *end = NULL;
	uint64_t mib = 0;

	for (int i = 0; i <= card && *text; i++) {
		mib = strtoull(text, &end, 10);
		text = *end == ',' ? end + 1 : end;
	}
	return mib << 20;
}

static void set_up_cards_locked(void)
{
	long cards = settings()->cards;

	self.state->cards = (uint32_t)(cards < 0 ? 0 : cards > MAX_CARDS ? MAX_CARDS : cards);
	for (int card = 0; card < MAX_CARDS; card++) {
		self.state->card[card].capacity = card < cards ? capacity_of(card) : 0;
		self.state->card[card].gpu_id = (uint64_t)driver_gpu_id(card);
	}
	self.state->next_offset = 0;
}

/* The first process of a run decides what cards there are. */
static void join_run_locked(void)
{
	struct state_identity who = state_self();

	self.process = state_claim_locked(self.state, &who, discard_extent, NULL);
	if (self.process < 0)
		die("kfdemu: no row left in the oracle");
	if (!is_memory_file(self.memory_fd))
		self.memory_fd = driver_raise(adopt_memory_locked());
	if (self.memory_fd < 0) {
		set_up_cards_locked();
		self.memory_fd = driver_raise(memfd_create("kfdemu-memory", MFD_CLOEXEC));
		if (self.memory_fd < 0 || ftruncate(self.memory_fd, MEMORY_BYTES))
			die("kfdemu: memory file");
	}
	self.state->process[self.process].memory_fd = self.memory_fd;
	self.cards = (int)self.state->cards;
}

static void connect_driver(void)
{
	const char *path = settings()->oracle;

	if (!self.state)
		self.state = state_open(*path ? path : NULL);
	if (!self.state)
		die("kfdemu: oracle");
	state_lock(self.state);
	join_run_locked();
	state_unlock(self.state);
	self.kfd_fd = driver_raise(memfd_create("kfdemu-kfd", MFD_CLOEXEC));
	if (self.kfd_fd < 0 || ftruncate(self.kfd_fd, DOORBELL_BYTES) || fstat(self.kfd_fd, &kfd_stat) ||
	    fstat(self.memory_fd, &memory_stat))
		die("kfdemu: device files");
	topology_write(self.state);
	log_line("CONNECT cards=%d gfx=%ld vram0=%lu", self.cards, settings()->gfx,
		 self.state->card[0].capacity);
}

const struct driver *driver(void)
{
	if (!atomic_load_explicit(&connected, memory_order_acquire)) { /* pairs with the release below */
		pthread_mutex_lock(&connecting);
		if (!atomic_load_explicit(&connected, memory_order_relaxed))
			connect_driver();
		atomic_store_explicit(&connected, true, memory_order_release);
		pthread_mutex_unlock(&connecting);
	}
	return &self;
}

bool driver_is_connected(void)
{
	return atomic_load_explicit(&connected, memory_order_acquire);
}

enum driver_node driver_identify(int fd, uint64_t *tag)
{
	struct stat file;

	if ((!driver_is_connected() && !foreigners) || fd < 0 || real()->fstatat(fd, "", &file, AT_EMPTY_PATH))
		return NODE_NONE;
	if (driver_is_connected() && file.st_dev == kfd_stat.st_dev && file.st_ino == kfd_stat.st_ino)
		return NODE_KFD;
	if (file.st_dev == memory_stat.st_dev && file.st_ino == memory_stat.st_ino) {
		*tag = (uint64_t)lseek(fd, 0, SEEK_CUR);
		return NODE_RENDER;
	}
	for (int i = 0; i < foreigners; i++)
		if (file.st_dev == kfd_stat.st_dev && file.st_ino == foreign[i])
			return NODE_FOREIGN_KFD;
	return NODE_NONE;
}

void driver_forget(void)
{
	if (driver_is_connected() && foreigners < MAX_FOREIGN)
		foreign[foreigners++] = kfd_stat.st_ino;
	if (self.kfd_fd >= 0)
		real()->close(self.kfd_fd);
	self.kfd_fd = -1;
	self.process = -1;
	topology_forget();
	atomic_store(&connected, false);
	pthread_mutex_init(&connecting, NULL);
}
