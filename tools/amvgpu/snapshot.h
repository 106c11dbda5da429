/* A region at one moment, summed and judged: what status, top, metrics and doctor show. */
#ifndef AMVGPU_SNAPSHOT_H
#define AMVGPU_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "../../src/multiprocess/hip_multiprocess_memory_limit.h"

enum snapshot_state {
#define STATE(name, word, what) STATE_##name,
#include "state.def"
#undef STATE
	STATES,
};

struct snapshot_device {
	bool shown;         /* has bytes, or a limit that is not just the common one */
	uint64_t limit;     /* 0: none */
	uint64_t used;      /* the larger of the books */
	uint64_t requested; /* asked for through HIP or HSA, managed memory included */
	uint64_t physical;  /* what the driver gave; 0 where no driver is below */
	uint64_t overhead;  /* of the runtime: physical beyond requested */
	uint64_t managed;   /* managed bytes that migrated to the device */
};

struct snapshot_process {
	struct ledger_process slot;
	enum snapshot_state state;
	uint64_t requested, physical; /* over all devices */
};

struct snapshot {
	const char *path;
	struct snapshot_device devices[LEDGER_DEVICES];
	uint64_t common_limit; /* of all devices that are not shown; 0: none. The region does not know how
				  many there are. */
	struct snapshot_process *processes;
	unsigned count;
	unsigned dead; /* slots whose process has ended: their bytes are free again, the next request that
			  needs them reaps */
	enum snapshot_state state; /* the worst of its processes */
};

/* 0 or -errno. path: of a file, or "private:PID"; must outlive the snapshot. Only living processes are listed
 * and summed. */
int snapshot_take(struct snapshot *snapshot, const char *path);
void snapshot_free(struct snapshot *snapshot);

enum snapshot_state snapshot_state_of(const struct ledger_process *process);
const char *snapshot_state_word(enum snapshot_state state);
/* How far this reason takes a process from enforced; STATE_ENFORCED: worth knowing, nothing lost. */
enum snapshot_state snapshot_state_of_reason(enum ledger_reason reason);
/* "2.0 GiB of 4.0 GiB" style sentence of a refusal, in one of units.h's manners: static, for one printf. */
const char *snapshot_refusal_text(const struct ledger_refusal *refusal);
/* The names of a process's reasons, separated by commas; "" if none. Static, for one printf. */
const char *snapshot_reasons_text(uint64_t reasons);

#endif
