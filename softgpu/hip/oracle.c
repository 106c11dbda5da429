/* oracle FILE [--json]: what is really held, by whom, as the state of a run says.
 * oracle FILE --others DEVICE BYTES: from now on somebody outside of the run holds that much. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

static const char *row_name(int row)
{
	static char name[16];

	if (row >= STATE_HOST)
		return row == STATE_HOST ? "host" : "managed";
	snprintf(name, sizeof(name), "%d", row);
	return name;
}

static bool is_shown(const struct state *s, int row)
{
	return row >= STATE_HOST || row < (int)s->devices;
}

static uint64_t row_held(const struct state_row *row)
{
	uint64_t granted = row->granted;

	return granted - row->gone;
}

/* The dead hold nothing, reaped or not. */
static uint64_t held_by_living(const struct state *s, int row)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->slots_used && i < STATE_SLOTS; i++)
		if (state_is_alive(&s->slots[i]))
			sum += row_held(&s->rows[row][i]);
	return sum;
}

static void print_device(const struct state *s, int row, bool json)
{
	uint64_t capacity = row < SOFTGPU_DEVICES_MAX ? s->capacity[row] : 0;
	uint64_t others = row < SOFTGPU_DEVICES_MAX ? s->others[row] : 0;
	const char *format = json ? "\"%s\": {\"capacity\": %" PRIu64 ", \"others\": %" PRIu64
				    ", \"held\": %" PRIu64 ", \"peak\": %" PRIu64 "}"
				  : "device %-8s capacity %" PRIu64 " others %" PRIu64 " held %" PRIu64
				    " peak %" PRIu64 "\n";

	printf(format, row_name(row), capacity, others, held_by_living(s, row), (uint64_t)s->peak[row]);
}

static void print_row(const struct state *s, int row, uint32_t slot, bool json)
{
	const struct state_row *r = &s->rows[row][slot];
	bool alive = state_is_alive(&s->slots[slot]);

	printf(json ? "\"%s\": {\"held\": %" PRIu64 ", \"peak\": %" PRIu64 "}"
		    : "  device %-8s held %" PRIu64 " peak %" PRIu64 "\n",
	       row_name(row), alive ? row_held(r) : 0, (uint64_t)r->peak);
}

static void print_rows(const struct state *s, int slot, bool json)
{
	const char *separator = "";

	for (int row = 0; row < STATE_ROWS; row++) {
		if (!is_shown(s, row))
			continue;
		if (json)
			printf("%s", separator);
		if (slot < 0)
			print_device(s, row, json);
		else
			print_row(s, row, slot, json);
		separator = ", ";
	}
}

static void print_state(const struct state *s, bool json)
{
	if (json)
		printf("{\"devices\": {");
	print_rows(s, -1, json);
	if (json)
		printf("}, \"processes\": [");
	for (uint32_t i = 0; i < s->slots_used && i < STATE_SLOTS; i++) {
		const struct state_slot *slot = &s->slots[i];
		bool alive = state_is_alive(slot);

		if (json)
			printf("%s{\"pid\": %d, \"command\": \"%s\", \"alive\": %s, \"devices\": {",
			       i ? ", " : "", slot->pid, slot->command, alive ? "true" : "false");
		else
			printf("process %d %s%s\n", slot->pid, slot->command, alive ? "" : " (ended)");
		print_rows(s, i, json);
		if (json)
			printf("}}");
	}
	if (json)
		printf("]}\n");
}

int main(int argc, char **argv)
{
	bool sets_others = argc == 5 && !strcmp(argv[2], "--others");
	struct state *s = argc > 1 ? state_map(argv[1], sets_others) : NULL;
	int device = sets_others ? atoi(argv[3]) : 0;

	if (argc < 2 || (argc > 2 && !sets_others && strcmp(argv[2], "--json"))) {
		fprintf(stderr, "usage: oracle FILE [--json | --others DEVICE BYTES]\n");
		return 2;
	}
	if (!s) {
		fprintf(stderr, "oracle: %s is no state of softgpu\n", argv[1]);
		return 1;
	}
	if (sets_others && (device < 0 || device >= SOFTGPU_DEVICES_MAX))
		return 2;
	if (sets_others)
		atomic_store(&s->others[device], settings_parse_size(argv[4], NULL));
	else
		print_state(s, argc > 2);
	return 0;
}
