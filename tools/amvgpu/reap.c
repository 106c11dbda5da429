/* amvgpu reap: takes the slots of dead processes back, and removes the regions of runs that are over.
 *
 * Never needed: the next request that wants the bytes does it. It is for people who like tidy numbers.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "amvgpu.h"
#include "region.h"
#include "snapshot.h"

static error_t parse(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

static const struct argp_child children[] = {{&region_argp, 0, "Which slice:", 2}, {0}};
static const struct argp argp = {
    NULL,
    parse,
    REGION_ARGS,
    "Take the slots of dead processes back; remove the files of 'amvgpu run' slices in which nobody "
    "lives." REGION_DOC,
    children,
    NULL,
    NULL,
};

enum { QUIET_S = 60 };

/* Nobody lives in it and nobody touched it lately: a process that is just opening it has changed its times.
 */
static bool is_over(const char *path)
{
	struct snapshot s;
	struct stat st;
	time_t quiet = time(NULL) - QUIET_S;
	bool empty;

	if (snapshot_take(&s, path))
		return false;
	empty = !s.count && !s.dead;
	snapshot_free(&s);
	return empty && !stat(path, &st) && st.st_mtime < quiet;
}

/* The ledger keeps a region under two names, the second hidden beside the first (region_file.h). */
static bool remove_region(const char *path)
{
	const char *base = strrchr(path, '/') + 1;
	char hidden[PATH_MAX + 16];

	snprintf(hidden, sizeof hidden, "%.*s.%s.region", (int)(base - path), path, base);
	unlink(hidden);
	return !unlink(path);
}

int verb_reap(int argc, char **argv)
{
	struct region_options options = {0};
	struct region_list regions, runs = {0};
	int status = EXIT_OK;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (!region_find(&options, &regions))
		return EXIT_NO;
	for (size_t i = 0; i < regions.count; i++) {
		int n = ledger_view_reap(regions.paths[i]);

		if (n < 0)
			status = complain(EXIT_NO, "%s: %s", regions.paths[i], strerror(-n));
		else
			printf("%s: %d slot%s taken back\n", regions.paths[i], n, n == 1 ? "" : "s");
	}
	region_of_runs(&runs);
	for (size_t i = 0; i < runs.count; i++) {
		if (is_over(runs.paths[i]) && remove_region(runs.paths[i]))
			printf("%s: nobody lives there, removed\n", runs.paths[i]);
	}
	region_list_free(&runs);
	region_list_free(&regions);
	region_list_free(&options.named);
	return status;
}
