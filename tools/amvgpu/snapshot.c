/* A region at one moment, summed and judged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "private_region.h"
#include "snapshot.h"
#include "units.h"

enum snapshot_state snapshot_state_of_reason(enum ledger_reason reason)
{
	switch (reason) {
	case LEDGER_REASON_REGION_PRIVATE:
	case LEDGER_REASON_SLOTS_FULL:
		return STATE_PRIVATE;
	case LEDGER_REASON_SYMBOLS_PARTIAL:
	case LEDGER_REASON_COPIES_FULL:
	case LEDGER_REASON_LIMIT_INVALID:
		return STATE_PARTIAL;
	default:
		return STATE_ENFORCED;
	}
}

enum snapshot_state snapshot_state_of(const struct ledger_process *process)
{
	enum snapshot_state worst = STATE_ENFORCED;

	for (unsigned r = 0; r < LEDGER_REASONS; r++) {
		enum snapshot_state state = snapshot_state_of_reason(r);

		if (process->reasons >> r & 1 && state > worst)
			worst = state;
	}
	if (process->symbols_bound < process->symbols_wanted && worst < STATE_PARTIAL)
		worst = STATE_PARTIAL;
	return worst;
}

const char *snapshot_state_word(enum snapshot_state state)
{
	static const char *const words[] = {
#define STATE(name, word, what) word,
#include "state.def"
#undef STATE
	};

	return words[state];
}

const char *snapshot_reasons_text(uint64_t reasons)
{
	static char text[512];

	*text = 0;
	for (unsigned r = 0; r < LEDGER_REASONS; r++) {
		if (!(reasons >> r & 1))
			continue;
		if (*text)
			strcat(text, ",");
		strcat(text, ledger_reason_name(r));
	}
	return text;
}

const char *snapshot_refusal_text(const struct ledger_refusal *refusal)
{
	static char text[320];

	snprintf(text, sizeof text, "%s of %s on device %u, %s of %s in use (%s), %s",
		 units_printable(refusal->api), units_bytes(refusal->bytes), refusal->device,
		 units_bytes(refusal->used), units_bytes(refusal->limit),
		 refusal->book == LEDGER_PHYSICAL ? "physical" : "requested",
		 units_age(refusal->realtime_ns));
	return text;
}

static void add_bytes(struct snapshot *s, const struct ledger_process *process)
{
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		s->devices[d].requested += process->bytes[LEDGER_REQUESTED][d];
		s->devices[d].physical += process->bytes[LEDGER_PHYSICAL][d];
		s->devices[d].managed += process->migrated[d];
	}
}

static int add_process(struct snapshot *s, const struct ledger_process *process)
{
	struct snapshot_process *more = realloc(s->processes, (s->count + 1) * sizeof *more);
	struct snapshot_process *p;

	if (!more)
		return -ENOMEM;
	s->processes = more;
	p = &more[s->count++];
	*p = (struct snapshot_process){.slot = *process, .state = snapshot_state_of(process)};
	p->slot.last.api[sizeof p->slot.last.api - 1] = 0;
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		p->requested += process->bytes[LEDGER_REQUESTED][d];
		p->physical += process->bytes[LEDGER_PHYSICAL][d];
	}
	if (p->state > s->state)
		s->state = p->state;
	return 0;
}

/* One variable can set the limit of all devices that there may ever be: then the last one has it too. */
static void judge_device(struct snapshot *s, unsigned index)
{
	struct snapshot_device *d = &s->devices[index];

	d->used = d->requested > d->physical ? d->requested : d->physical;
	d->overhead = d->physical > d->requested ? d->physical - d->requested : 0;
	d->shown = d->limit != s->common_limit || d->used || d->managed || (!index && d->limit);
}

/* is_private: a copy of memory, in which no lock tells who lives; its owner does, it was there a moment ago.
 */
static int fill(struct snapshot *s, const struct ledger_view *view, bool is_private)
{
	struct ledger_process process;
	unsigned slot = 0;

	while (ledger_view_next(view, &slot, &process)) {
		if (!process.alive && !is_private) {
			s->dead++;
			continue;
		}
		add_bytes(s, &process);
		if (add_process(s, &process))
			return -ENOMEM;
	}
	s->common_limit = ledger_view_limit(view, LEDGER_DEVICES - 1);
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		s->devices[d].limit = ledger_view_limit(view, d);
		judge_device(s, d);
	}
	return 0;
}

int snapshot_take(struct snapshot *s, const char *name)
{
	struct ledger_view *view = calloc(1, ledger_view_size());
	char storage[40];
	const char *path;
	int error, copy;

	*s = (struct snapshot){.path = name};
	if (!view)
		return -ENOMEM;
	path = private_region_path(name, storage, &copy);
	error = path ? ledger_view_open(view, path) : -errno;
	if (!error) {
		error = fill(s, view, copy >= 0);
		ledger_view_close(view);
	}
	if (copy >= 0)
		close(copy);
	free(view);
	if (error)
		snapshot_free(s);
	return error;
}

void snapshot_free(struct snapshot *s)
{
	free(s->processes);
	*s = (struct snapshot){0};
}
