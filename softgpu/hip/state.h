/* What is really held, by whom: the capacity of the stand-in hardware and the oracle of the tests.
 *
 * One region, private or a file shared by all processes of a run. Per device and per process it has one row
 * of words that only grow or are taken back by their owner: asked (announced), granted (really held, grows),
 * gone (given back, grows). Held by a process: granted - gone. There is no total: a process killed between
 * two writes leaves nothing to mend, and nobody ever waits for a lock on the way to memory.
 *
 * To take n: asked += n; if the sum of asked - gone over all rows fits, granted += n. Of two that announce at
 * the same time at least one sees the other, so the capacity is never exceeded. Otherwise the announcement is
 * taken back; it is refused only if what is granted leaves no room, and tried again while others'
 * announcements are merely in flight.
 */
#ifndef SOFTGPU_STATE_H
#define SOFTGPU_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "settings.h"

enum {
	STATE_HOST = SOFTGPU_DEVICES_MAX, /* pinned host memory: counted, not bounded */
	STATE_MANAGED,                    /* managed memory: likewise */
	STATE_ROWS,
	STATE_SLOTS = 1024,
	STATE_VERSION = 2,
};

struct state_row {
	_Atomic uint64_t asked;
	_Atomic uint64_t granted;
	_Atomic uint64_t gone;
	_Atomic uint64_t peak; /* of granted - gone */
};

enum state_life { STATE_FREE, STATE_ALIVE, STATE_ENDED };

struct state_slot {
	_Atomic uint32_t life;
	_Atomic int32_t pid;
	_Atomic uint64_t start_time;
	_Atomic uint64_t stack; /* of the program: another one after exec */
	char command[16];
};

struct state {
	char magic[8]; /* "softgpu" */
	uint32_t version;
	uint32_t bytes;
	_Atomic uint32_t devices;
	_Atomic uint32_t slots_used; /* a high-water mark */
	_Atomic uint32_t ended;      /* grows with every slot that ends */
	_Atomic uint64_t capacity[SOFTGPU_DEVICES_MAX];
	_Atomic uint64_t others[SOFTGPU_DEVICES_MAX];
	_Atomic uint64_t peak[STATE_ROWS]; /* of all processes together */
	struct state_slot slots[STATE_SLOTS];
	struct state_row rows[STATE_ROWS][STATE_SLOTS];
};

/* Joins the run and claims a slot. Returns 0 or -errno; afterwards the calls below refer to this process. */
int state_open(const struct settings *settings);
/* Gives back all that this process holds: the runtime is going away. */
void state_close(void);
/* In a child: forget the parent's slot. */
void state_forget(void);

bool state_take(int row, uint64_t bytes);
void state_give(int row, uint64_t bytes);
/* Held by everybody, and by this process alone. */
uint64_t state_held(int row);
uint64_t state_held_here(int row);
uint64_t state_capacity(int row);
uint64_t state_others(int row);

/* For the reader. NULL if the file is no state. */
struct state *state_map(const char *path, bool writable);
uint64_t state_sum_held(const struct state *state, int row);
bool state_is_alive(const struct state_slot *slot);

#endif
