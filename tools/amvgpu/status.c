/* amvgpu status: who has how much of which device, as a table or as JSON. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amvgpu.h"
#include "json_view.h"
#include "region.h"
#include "snapshot.h"
#include "units.h"

enum { OPTION_JSON = 'j', OPTION_WATCH = 'w', BAR = 20 };

struct status {
	struct region_options regions;
	bool json;
	double watch_s; /* 0: once */
};

static const struct argp_option options[] = {
    {"json", OPTION_JSON, NULL, 0, "print JSON; with --watch one object a line", 1},
    {"watch", OPTION_WATCH, "SECONDS", OPTION_ARG_OPTIONAL, "print again every SECONDS (1) until interrupted",
     1},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct status *s = state->input;
	char *end = "";

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->regions;
		return 0;
	case OPTION_JSON:
		s->json = true;
		return 0;
	case OPTION_WATCH:
		s->watch_s = argument ? strtod(argument, &end) : 1;
		if (*end || !(s->watch_s >= 0.05 && s->watch_s < 1e6))
			argp_error(state, "--watch takes a number of seconds, 0.05 or more");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&region_argp, 0, "Which slice:", 2}, {0}};
static const struct argp argp = {
    options, parse, REGION_ARGS, "Show devices and processes of a slice." REGION_DOC, children, NULL, NULL,
};

static void print_devices(const struct snapshot *s)
{
	printf("%-6s %-10s %-10s %-26s %-10s %-10s %-10s %s\n", "DEVICE", "LIMIT", "USED", "", "REQUESTED",
	       "PHYSICAL", "OVERHEAD", "MANAGED");
	for (unsigned d = 0; d < LEDGER_DEVICES; d++) {
		const struct snapshot_device *device = &s->devices[d];
		char share[8] = "";

		if (!device->shown)
			continue;
		if (device->limit)
			snprintf(share, sizeof share, "%3u%%", units_percent(device->used, device->limit));
		printf("%-6u %-10s %-10s %s %-5s %-10s %-10s %-10s %s\n", d,
		       device->limit ? units_bytes(device->limit) : "none", units_bytes(device->used),
		       units_bar(device->used, device->limit, BAR), share, units_bytes(device->requested),
		       units_bytes(device->physical), units_bytes_or_dash(device->overhead),
		       units_bytes_or_dash(device->managed));
	}
}

static void print_common_limit(const struct snapshot *s)
{
	if (s->common_limit)
		printf("%-6s %-10s %s\n", "others", units_bytes(s->common_limit), "each");
}

static void print_process(const struct snapshot_process *p)
{
	char pid[16];

	snprintf(pid, sizeof pid, "%u%s", p->slot.pid, p->slot.foreign_namespace ? "*" : "");
	printf("%-8s %-16s %-10s %-10s %-7lld %-9llu %s\n", pid, units_printable(p->slot.command),
	       units_bytes(p->requested), units_bytes(p->physical), (long long)p->slot.allocations,
	       (unsigned long long)p->slot.refusals, snapshot_state_word(p->state));
	if (p->slot.refusals)
		printf("         last refusal: %s\n", snapshot_refusal_text(&p->slot.last));
	if (p->slot.symbols_bound < p->slot.symbols_wanted)
		printf("         bound %u of %u symbols\n", p->slot.symbols_bound, p->slot.symbols_wanted);
	for (unsigned r = 0; r < LEDGER_REASONS; r++) {
		if (p->slot.reasons >> r & 1)
			printf("         %s: %s\n", ledger_reason_name(r), ledger_reason_text(r));
	}
}

static void print_snapshot(const struct snapshot *s)
{
	bool foreign = false;

	printf("%s: %u process%s, %s\n\n", s->path, s->count, s->count == 1 ? "" : "es",
	       s->count ? snapshot_state_word(s->state) : "nobody to limit");
	print_devices(s);
	print_common_limit(s);
	if (s->count)
		printf("\n%-8s %-16s %-10s %-10s %-7s %-9s %s\n", "PID", "COMMAND", "REQUESTED", "PHYSICAL",
		       "ALLOCS", "REFUSALS", "STATE");
	for (unsigned i = 0; i < s->count; i++) {
		print_process(&s->processes[i]);
		foreign |= s->processes[i].slot.foreign_namespace;
	}
	if (foreign)
		puts("* as its own container numbers it");
	if (s->dead)
		printf("%u slot%s of ended processes; the next request that needs their bytes takes them "
		       "back, or 'amvgpu reap'\n",
		       s->dead, s->dead == 1 ? "" : "s");
}

/* One round over all regions. A region that vanished meanwhile is left out. */
static unsigned print_round(const struct status *o, const struct region_list *regions)
{
	struct json_object *all = o->json ? json_view_begin() : NULL;
	unsigned shown = 0;

	for (size_t i = 0; i < regions->count; i++) {
		struct snapshot s;
		int error = snapshot_take(&s, regions->paths[i]);

		if (error) {
			complain(0, "%s: %s", regions->paths[i], strerror(-error));
			continue;
		}
		if (o->json) {
			json_view_add(all, &s);
		} else {
			if (shown)
				putchar('\n');
			print_snapshot(&s);
		}
		shown++;
		snapshot_free(&s);
	}
	if (o->json)
		json_view_print(all, o->watch_s == 0);
	return shown;
}

int verb_status(int argc, char **argv)
{
	struct status o = {0};
	struct region_list regions;
	unsigned shown;

	setlocale(LC_CTYPE, "");
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	do {
		bool found = region_find(&o.regions, &regions);

		if (!found && !o.watch_s)
			return EXIT_NO;
		if (o.watch_s && !o.json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		shown = print_round(&o, &regions);
		region_list_free(&regions);
		if (fflush(stdout))
			return EXIT_NO;
		if (o.watch_s)
			usleep((useconds_t)(o.watch_s * 1e6));
	} while (o.watch_s);
	region_list_free(&o.regions.named);
	return shown ? EXIT_OK : EXIT_NO;
}
