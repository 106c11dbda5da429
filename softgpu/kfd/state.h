/* The cards and who holds their memory: one file mapped by every process of a run. This is the oracle.
 *
 * It exists so that several processes compete for one card, and so that a test can ask at any time what the
 * driver really gave, and to whom. Words: card     an emulated GPU process  a row for each process that
 * opened the driver; identified by pid and start time extent   a piece of card or system memory backed by the
 * run's memory file; has a creator, who is charged, and holders kind     what the memory is for gauge bytes
 * now, and the most they ever were The extents are the truth; gauges follow them, and are added up anew when
 * a lock owner died between two writes. All functions ending in _locked need state_lock(), which nests under
 * every other lock here. Any thread; not in signal handlers. Gauges may be read without the lock. */
#ifndef KFDEMU_STATE_H
#define KFDEMU_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define STATE_MAGIC 0x656c6361726f666bull /* "kforacle" */
#define STATE_VERSION 1u

enum { MAX_CARDS = 8, MAX_PROCESSES = 256, MAX_EXTENTS = 65536, HOLDER_WORDS = MAX_PROCESSES / 64 };

enum kind { KIND_USER, KIND_CODE, KIND_SCRATCH, KIND_QUEUE, KIND_SVM, KIND_OTHER, KINDS };
extern const char *const kind_name[KINDS];

enum process_status { PROCESS_FREE, PROCESS_ALIVE, PROCESS_ENDED };

enum { STATE_DONE = 0, STATE_NO_VRAM = 1, STATE_NO_ROW = 2 };

struct state_gauge {
	uint64_t now, peak;
};

struct state_process {
	uint64_t start_time; /* clock ticks after boot, from /proc/PID/stat */
	int32_t pid;
	uint32_t status;
	int32_t memory_fd; /* its descriptor of the run's memory file */
	uint32_t ended_order;
	char name[16];
	struct state_gauge by_kind[MAX_CARDS][KINDS];
	struct state_gauge total[MAX_CARDS];
};

struct state_card {
	uint64_t capacity;
	uint64_t aligned; /* bytes in use, each extent rounded up to 2 MiB, as the kernel's available-memory
			     answer counts */
	struct state_gauge used;
	uint64_t refused; /* allocations that got ENOMEM */
	uint64_t gpu_id;  /* as the KFD names the card */
};

struct state_extent {
	uint64_t offset, size; /* in the memory file; size 0: free row */
	uint64_t holders[HOLDER_WORDS];
	uint16_t creator;
	uint8_t card, kind, is_vram, is_executable;
	uint8_t pad[2];
	uint64_t serial; /* never used twice in a run */
};

/* What a process attached to an extent for others to read (DRM's GEM metadata). */
struct state_metadata {
	uint64_t flags, tiling;
	uint32_t bytes;
	uint32_t words[64];
};

struct state {
	uint64_t magic;
	uint32_t version, size_of_process, size_of_extent, cards;
	uint32_t extents_high, ended_count; /* extents_high: no row at or above it was ever used */
	uint64_t run;                       /* tells one run's dma-bufs from another's */
	uint64_t next_offset, next_serial, next_tag;
	pthread_mutex_t mutex;
	struct state_card card[MAX_CARDS];
	struct state_process process[MAX_PROCESSES];
	struct state_extent extent[MAX_EXTENTS];
	struct state_metadata metadata[MAX_EXTENTS]; /* of the extent in the same row */
};

struct state_identity {
	int32_t pid;
	uint64_t start_time;
};

/* Called for each extent that a reap frees, with the lock held. */
typedef void state_freed(const struct state_extent *extent, void *context);

/* Maps PATH, made if absent; NULL path: anonymous, shared with forked children only. NULL and errno on
 * failure; EINVAL: the file is no oracle of this version. */
struct state *state_open(const char *path);
void state_close(struct state *state);

void state_lock(struct state *state);
void state_unlock(struct state *state);

struct state_identity state_self(void);
bool is_alive(const struct state_identity *who);

/* A row for this process, after reaping the dead; -1 when all are taken by the living. */
int state_claim_locked(struct state *state, const struct state_identity *self, state_freed *freed,
		       void *context);
/* Frees what dead processes alone hold, and hands what others hold too to one of those. */
void state_reap_locked(struct state *state, state_freed *freed, void *context);

/* A new extent held by its creator. STATE_DONE and its row, or the reason why not, with nothing changed. */
int state_take_locked(struct state *state, int process, int card, uint64_t size, bool is_vram, enum kind kind,
		      int *row);
void state_hold_locked(struct state *state, int row, int process);
/* True when PROCESS was the last holder: the row is free and the caller discards the memory behind it. */
bool state_drop_locked(struct state *state, int row, int process);
void state_set_kind_locked(struct state *state, int row, enum kind kind);
uint64_t state_available_locked(struct state *state, int card);

/* Adds up every gauge anew from the extents. */
void state_recount_locked(struct state *state);
/* Every gauge equals the sum of its extents. */
bool state_is_valid_locked(struct state *state);

#endif
