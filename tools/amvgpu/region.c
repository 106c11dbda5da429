/* Which region files a verb looks at, and where `amvgpu run` puts its own. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amvgpu.h"
#include "environment.h"
#include "library.h"
#include "private_region.h"
#include "region.h"
#include "../../src/multiprocess/hip_multiprocess_memory_limit.h"

#define RUN_SUFFIX ".region"
#define LEDGER_SHM_PATH "/dev/shm/hipdevshr.cache" /* as in open.h: the last place that the ledger tries */

void region_list_add(struct region_list *list, const char *path)
{
	char **more;

	for (size_t i = 0; i < list->count; i++) {
		if (!strcmp(list->paths[i], path))
			return;
	}
	more = realloc(list->paths, (list->count + 1) * sizeof *more);
	if (!more)
		return;
	list->paths = more;
	if ((more[list->count] = strdup(path)))
		list->count++;
}

void region_list_free(struct region_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->paths[i]);
	free(list->paths);
	*list = (struct region_list){0};
}

int region_probe(const char *path)
{
	struct ledger_view *view = calloc(1, ledger_view_size());
	int error = view ? ledger_view_open(view, path) : -ENOMEM;

	if (!error)
		ledger_view_close(view);
	free(view);
	return error;
}

/* The folders of `run`, best first: fast and private, then fast, then there always. */
enum { RUN_FOLDERS = 3 };

static bool run_folder(unsigned i, char *path, size_t size)
{
	static const char *const shared[] = {"/dev/shm", "/tmp"};
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (i == 0 && (!runtime || *runtime != '/'))
		return false;
	if (i == 0)
		snprintf(path, size, "%s/amvgpu", runtime);
	else
		snprintf(path, size, "%s/amvgpu-%u", shared[i - 1], (unsigned)geteuid());
	return true;
}

/* A folder in /tmp that somebody else made, or a link, is not ours. */
static bool folder_is_ours(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022) &&
	       !access(path, W_OK | X_OK);
}

bool region_name_is_valid(const char *name)
{
	if (!*name || *name == '.' || strlen(name) > 100)
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
			return false;
	}
	return true;
}

char *region_path_of_run(const char *name)
{
	char folder[PATH_MAX];
	char *path;

	for (unsigned i = 0; i < RUN_FOLDERS; i++) {
		if (!run_folder(i, folder, sizeof folder))
			continue;
		mkdir(folder, 0700);
		if (folder_is_ours(folder) && asprintf(&path, "%s/%s" RUN_SUFFIX, folder, name) > 0)
			return path;
	}
	return NULL;
}

static void add_folder(const char *folder, struct region_list *list)
{
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		const char *suffix =
		    strrchr(entries[i]->d_name, '.'); /* a dot in front: the ledger's own second name */
		char path[PATH_MAX + 300];

		snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
		if (suffix && *entries[i]->d_name != '.' && !strcmp(suffix, RUN_SUFFIX) &&
		    !region_probe(path))
			region_list_add(list, path);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
}

void region_of_runs(struct region_list *list)
{
	char folder[PATH_MAX];

	for (unsigned i = 0; i < RUN_FOLDERS; i++) {
		if (run_folder(i, folder, sizeof folder) && folder_is_ours(folder))
			add_folder(folder, list);
	}
}

/* The ledger maps a region by its second, hidden name ".NAME.region"; people know it as NAME, where that
 * still exists. */
static void add_by_public_name(struct region_list *list, const char *path)
{
	const char *base = strrchr(path, '/') + 1;
	size_t n = strlen(base), suffix = strlen(RUN_SUFFIX);
	char public[PATH_MAX + 64];

	if (*base == '.' && n > suffix + 1 && !strcmp(base + n - suffix, RUN_SUFFIX)) {
		snprintf(public, sizeof public, "%.*s%.*s", (int)(base - path), path, (int)(n - suffix - 1),
			 base + 1);
		if (!region_probe(public)) {
			region_list_add(list, public);
			return;
		}
	}
	region_list_add(list, path);
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* A line of /proc/PID/maps names a region if it is a shared writable mapping of a file that opens as one. */
void region_of_process(int pid, struct region_list *list)
{
	char maps[64], line[PATH_MAX + 200];
	FILE *file;

	snprintf(maps, sizeof maps, "/proc/%d/maps", pid);
	if (!(file = fopen(maps, "re")))
		return;
	while (fgets(line, sizeof line, file)) {
		char path[PATH_MAX + 64];
		char *name = strchr(line, '/');

		if (!strstr(line, " rw-s ") || !name)
			continue;
		name[strcspn(name, "\n")] = 0;
		snprintf(path, sizeof path, "/proc/%d/root%s", pid, name);
		if (is_same_file(path, name))
			snprintf(path, sizeof path, "%s", name);
		if (!region_probe(path))
			add_by_public_name(list, path);
	}
	fclose(file);
}

void region_of_private(int pid, struct region_list *list)
{
	int copy = private_region_copy(pid);
	char name[40];

	if (copy < 0)
		return;
	close(copy);
	snprintf(name, sizeof name, PRIVATE_REGION_PREFIX "%d", pid);
	region_list_add(list, name);
}

static bool has_our_library(const char *pid)
{
	char path[64], line[PATH_MAX + 200];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%s/maps", pid);
	if (!(maps = fopen(path, "re")))
		return false;
	while (!found && fgets(line, sizeof line, maps))
		found = strrchr(line, '/') && strstr(strrchr(line, '/'), "/" LIBRARY_STEM);
	fclose(maps);
	return found;
}

void region_of_all_private(struct region_list *list)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;

	while (processes && (entry = readdir(processes))) {
		if (isdigit((unsigned char)*entry->d_name) && has_our_library(entry->d_name))
			region_of_private(atoi(entry->d_name), list);
	}
	if (processes)
		closedir(processes);
}

void region_default(struct region_list *list)
{
	struct environment e;
	const char *set;

	environment_load(&e, "");
	set = e.policy.value[ENV_HIP_DEVICE_MEMORY_SHARED_CACHE];
	if (set && !region_probe(set))
		region_list_add(list, set);
	if (!region_probe(LEDGER_DEFAULT_PATH))
		region_list_add(list, LEDGER_DEFAULT_PATH);
	if (!region_probe(LEDGER_SHM_PATH))
		region_list_add(list, LEDGER_SHM_PATH);
	environment_free(&e);
}

static int why_not(const char *path, int error)
{
	if (error == -EPROTO)
		return complain(
		    EXIT_NO, "%s is not a region of this version; a program of the pod makes it anew", path);
	if (error == -EACCES)
		return complain(
		    EXIT_NO, "%s: permission denied; run amvgpu as the user of the pod's programs or as root",
		    path);
	return complain(EXIT_NO, "%s: %s", path, strerror(-error));
}

static void look_for_run(const char *name, struct region_list *list)
{
	struct region_list all = {0};
	char file[256];

	snprintf(file, sizeof file, "/%s" RUN_SUFFIX, name);
	region_of_runs(&all);
	for (size_t i = 0; i < all.count; i++) {
		if (!strcmp(strrchr(all.paths[i], '/'), file))
			region_list_add(list, all.paths[i]);
	}
	region_list_free(&all);
}

void region_look(const struct region_options *options, struct region_list *list)
{
	*list = (struct region_list){0};
	if (options->named.count) {
		for (size_t i = 0; i < options->named.count; i++)
			region_list_add(list, options->named.paths[i]);
	} else if (options->name) {
		look_for_run(options->name, list);
	} else if (options->pid) {
		region_of_process(options->pid, list);
		region_of_private(options->pid, list);
	} else {
		region_default(list);
		region_of_runs(list);
		region_of_all_private(list);
	}
}

/* Leaves out what cannot be read, and says why. */
static void keep_readable(struct region_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		int error = region_probe(list->paths[i]);

		if (!error) {
			list->paths[kept++] = list->paths[i];
			continue;
		}
		why_not(list->paths[i], error);
		free(list->paths[i]);
	}
	list->count = kept;
}

bool region_find(const struct region_options *options, struct region_list *list)
{
	region_look(options, list);
	if (options->named.count)
		keep_readable(list);
	else if (options->name && !list->count)
		complain(0, "no program of 'amvgpu run --name %s' has used the GPU yet", options->name);
	else if (options->pid && !list->count)
		complain(0,
			 "process %d has no region that can be read: it has not used the GPU under a limit "
			 "yet, or it is "
			 "another user's; 'amvgpu doctor' tells",
			 options->pid);
	else if (!list->count)
		complain(0, "no region found: no program has used the GPU under a limit here; "
			    "'amvgpu doctor' says whether one would be limited, a path shows another pod");
	return list->count > 0;
}

enum { OPTION_NAME = 'n', OPTION_PID = 'p' };

static const struct argp_option options_of_regions[] = {
    {"name", OPTION_NAME, "N", 0, "the slice of 'amvgpu run --name N'", 10},
    {"pid", OPTION_PID, "PID", 0, "the slice that process PID is in, whatever its container", 10},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct region_options *options = state->input;
	char *end;

	switch (key) {
	case OPTION_NAME:
		if (!region_name_is_valid(argument))
			argp_error(state, "'%s' is no name of a slice", argument);
		options->name = argument;
		return 0;
	case OPTION_PID:
		options->pid = (int)strtol(argument, &end, 10);
		if (*end || options->pid <= 0)
			argp_error(state, "'%s' is no process id", argument);
		return 0;
	case ARGP_KEY_ARG:
		region_list_add(&options->named, argument);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp region_argp = {.options = options_of_regions, .parser = parse};
