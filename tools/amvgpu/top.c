/* amvgpu top: the same as status, full-screen, again every second (ncurses). */
#include <curses.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amvgpu.h"
#include "region.h"
#include "snapshot.h"
#include "units.h"

enum sort { SORT_USED, SORT_PID, SORT_REFUSALS, SORTS };

struct top {
	struct region_options regions;
	double delay_s;
	struct snapshot *snapshots;
	struct region_list list;
	size_t region;     /* the one on screen */
	unsigned selected; /* process */
	unsigned first;    /* process on the first line */
	enum sort sort;
	int row; /* where the next line goes */
};

static const char *const sort_words[SORTS] = {"used", "pid", "refusals"};

static const struct argp_option options[] = {
    {"delay", 'd', "SECONDS", 0, "look again every SECONDS (1)", 1},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct top *t = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &t->regions;
		return 0;
	case 'd':
		t->delay_s = strtod(argument, &end);
		if (*end || !(t->delay_s >= 0.05 && t->delay_s < 1e6))
			argp_error(state, "--delay takes a number of seconds, 0.05 or more");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&region_argp, 0, "Which slices:", 2}, {0}};
static const struct argp argp = {
    options,
    parse,
    REGION_ARGS,
    "Show devices and processes of a slice, full-screen. Keys: q quit, up and down select a process, tab the "
    "next slice, o another "
    "order." REGION_DOC,
    children,
    NULL,
    NULL,
};

enum color { COLOR_PLAIN, COLOR_GOOD, COLOR_BUSY, COLOR_BAD };

static void set_colors(void)
{
	if (!has_colors())
		return;
	start_color();
	use_default_colors();
	init_pair(COLOR_GOOD, COLOR_GREEN, -1);
	init_pair(COLOR_BUSY, COLOR_YELLOW, -1);
	init_pair(COLOR_BAD, COLOR_RED, -1);
}

static void put(struct top *t, enum color color, attr_t look, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* One whole line, cut at the edge of the screen. */
static void put(struct top *t, enum color color, attr_t look, const char *format, ...)
{
	char line[600];
	va_list arguments;

	if (t->row >= LINES - 1)
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	attrset(look | (has_colors() ? COLOR_PAIR(color) : 0));
	mvaddnstr(t->row, 0, line, -1);
	if (look & A_REVERSE)
		hline(' ', COLS);
	attrset(0);
	t->row++;
}

static enum color color_of_share(unsigned percent)
{
	return percent >= 95 ? COLOR_BAD : percent >= 75 ? COLOR_BUSY : COLOR_GOOD;
}

static void draw_devices(struct top *t, const struct snapshot *s)
{
	put(t, COLOR_PLAIN, A_BOLD, "%-6s %-10s %-10s %-29s %-10s %-10s %-10s %s", "DEVICE", "LIMIT", "USED",
	    "", "REQUESTED", "PHYSICAL", "OVERHEAD", "MANAGED");
	for (unsigned i = 0; i < LEDGER_DEVICES; i++) {
		const struct snapshot_device *d = &s->devices[i];
		unsigned percent = units_percent(d->used, d->limit);

		if (!d->shown)
			continue;
		put(t, color_of_share(percent), 0, "%-6u %-10s %-10s %s %3u%% %-10s %-10s %-10s %s", i,
		    d->limit ? units_bytes(d->limit) : "none", units_bytes(d->used),
		    units_bar(d->used, d->limit, 24), percent, units_bytes(d->requested),
		    units_bytes(d->physical), units_bytes_or_dash(d->overhead),
		    units_bytes_or_dash(d->managed));
	}
}

static uint64_t used_by(const struct snapshot_process *p)
{
	return p->requested > p->physical ? p->requested : p->physical;
}

static int compare(const void *a, const void *b, void *closure)
{
	const struct snapshot_process *p = a, *q = b;
	enum sort sort = *(enum sort *)closure;
	uint64_t x = sort == SORT_USED ? used_by(p) : sort == SORT_REFUSALS ? p->slot.refusals : 0;
	uint64_t y = sort == SORT_USED ? used_by(q) : sort == SORT_REFUSALS ? q->slot.refusals : 0;

	if (x != y)
		return x < y ? 1 : -1;
	return (p->slot.pid > q->slot.pid) - (p->slot.pid < q->slot.pid);
}

static void draw_process(struct top *t, const struct snapshot_process *p, bool selected)
{
	char pid[16];

	snprintf(pid, sizeof pid, "%u%s", p->slot.pid, p->slot.foreign_namespace ? "*" : "");
	put(t, p->state == STATE_ENFORCED ? COLOR_PLAIN : COLOR_BAD, selected ? A_REVERSE : 0,
	    "%-8s %-16s %-10s %-10s %-7lld %-9llu %s %s", pid, units_printable(p->slot.command),
	    units_bytes(p->requested), units_bytes(p->physical), (long long)p->slot.allocations,
	    (unsigned long long)p->slot.refusals, snapshot_state_word(p->state),
	    snapshot_reasons_text(p->slot.reasons));
}

/* What there is to say about the selected process, below the list. */
static void draw_selected(struct top *t, const struct snapshot_process *p)
{
	put(t, COLOR_PLAIN, A_BOLD, "%u %s: bound %u of %u symbols", p->slot.pid,
	    units_printable(p->slot.command), p->slot.symbols_bound, p->slot.symbols_wanted);
	if (p->slot.refusals)
		put(t, COLOR_BUSY, 0, "  last refusal: %s", snapshot_refusal_text(&p->slot.last));
	for (unsigned r = 0; r < LEDGER_REASONS; r++) {
		if (p->slot.reasons >> r & 1)
			put(t, COLOR_PLAIN, 0, "  %s: %s. To do: %s", ledger_reason_name(r),
			    ledger_reason_text(r), ledger_reason_remedy(r));
	}
}

static unsigned lines_for_selected(const struct snapshot_process *p)
{
	return 2 + (p->slot.refusals != 0) + (unsigned)__builtin_popcountll(p->slot.reasons);
}

static void draw_processes(struct top *t, struct snapshot *s)
{
	unsigned room;

	qsort_r(s->processes, s->count, sizeof *s->processes, compare, &t->sort);
	if (t->selected >= s->count)
		t->selected = s->count ? s->count - 1 : 0;
	t->row++;
	put(t, COLOR_PLAIN, A_BOLD, "%-8s %-16s %-10s %-10s %-7s %-9s %s", "PID", "COMMAND", "REQUESTED",
	    "PHYSICAL", "ALLOCS", "REFUSALS", "STATE");
	if (!s->count)
		return;
	room = (unsigned)(LINES - 1 - t->row);
	room = room > lines_for_selected(&s->processes[t->selected]) + 1
		   ? room - lines_for_selected(&s->processes[t->selected])
		   : 1;
	if (t->selected < t->first)
		t->first = t->selected;
	if (t->selected >= t->first + room)
		t->first = t->selected - room + 1;
	for (unsigned i = t->first; i < s->count && i < t->first + room; i++)
		draw_process(t, &s->processes[i], i == t->selected);
	t->row++;
	draw_selected(t, &s->processes[t->selected]);
}

static void draw(struct top *t)
{
	erase();
	t->row = 0;
	if (!t->list.count) {
		put(t, COLOR_PLAIN, 0, "no region: no program has used the GPU under a limit yet");
	} else {
		struct snapshot *s = &t->snapshots[t->region];

		put(t, COLOR_PLAIN, A_BOLD, "%s  (%zu of %zu)  %u processes, %s, %u dead slots",
		    s->path ? s->path : "gone", t->region + 1, t->list.count, s->count,
		    snapshot_state_word(s->state), s->dead);
		t->row++;
		draw_devices(t, s);
		draw_processes(t, s);
	}
	t->row = LINES - 2;
	put(t, COLOR_PLAIN, A_DIM, "q quit   up/down select   tab next slice   o order: %s",
	    sort_words[t->sort]);
	refresh();
}

static void forget(struct top *t)
{
	for (size_t i = 0; i < t->list.count; i++)
		snapshot_free(&t->snapshots[i]);
	free(t->snapshots);
	t->snapshots = NULL;
	region_list_free(&t->list);
}

/* The named regions stay; without names they are looked for anew, programs come and go. No words on stderr:
 * the screen is ours. */
static void look(struct top *t)
{
	forget(t);
	region_look(&t->regions, &t->list);
	t->snapshots = calloc(t->list.count + 1, sizeof *t->snapshots);
	if (!t->snapshots) {
		region_list_free(&t->list);
		return;
	}
	for (size_t i = 0; i < t->list.count; i++)
		snapshot_take(&t->snapshots[i], t->list.paths[i]);
	if (t->region >= t->list.count)
		t->region = 0;
}

/* False: quit. */
static bool obey(struct top *t, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case 27:
		return false;
	case KEY_UP:
	case 'k':
		t->selected -= t->selected > 0;
		break;
	case KEY_DOWN:
	case 'j':
		t->selected++;
		break;
	case '\t':
		t->region = t->list.count ? (t->region + 1) % t->list.count : 0;
		t->selected = t->first = 0;
		break;
	case 'o':
		t->sort = (t->sort + 1) % SORTS;
		break;
	}
	return true;
}

static volatile sig_atomic_t ended;

static void on_end(int signal)
{
	(void)signal;
	ended = 1;
}

int verb_top(int argc, char **argv)
{
	struct top t = {.delay_s = 1};
	struct sigaction end = {.sa_handler = on_end};
	int key = ERR;

	setlocale(LC_ALL, "");
	argp_parse(&argp, argc, argv, 0, NULL, &t);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return complain(EXIT_USAGE, "top needs a terminal; 'amvgpu status --watch' does without");
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	if (!newterm(NULL, stdout, stdin))
		return complain(EXIT_USAGE, "the terminal type (TERM=%s) is not known",
				getenv("TERM") ? getenv("TERM") : "");
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	set_escdelay(25);
	set_colors();
	timeout((int)(t.delay_s * 1000));
	do {
		if (key == ERR || !t.snapshots)
			look(&t);
		draw(&t);
		key = getch();
	} while (obey(&t, key) && !ended);
	endwin();
	forget(&t);
	region_list_free(&t.regions.named);
	return EXIT_OK;
}
