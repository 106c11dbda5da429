/* Processes of this container that use the GPU where the library does not see it: static and musl programs, programs that
 * were started by a system call of their own, whatever lost the library on its way. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "region.h"
#include "units.h"

static bool link_is(const char *path, const char *target)
{
	char text[PATH_MAX];
	ssize_t length = readlink(path, text, sizeof text - 1);

	if (length < 0)
		return false;
	text[length] = 0;
	return !strcmp(text, target);
}

static bool has_kfd_open(const char *process)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool has = false;
	DIR *folder;

	snprintf(path, sizeof path, "%s/fd", process);
	if (!(folder = opendir(path)))
		return false;
	while (!has && (entry = readdir(folder))) {
		snprintf(path, sizeof path, "%s/fd/%s", process, entry->d_name);
		has = link_is(path, "/dev/kfd");
	}
	closedir(folder);
	return has;
}

/* Of another container, as seen from the host: its limit is its own matter. */
static bool is_elsewhere(const char *sysroot, const char *process)
{
	char path[PATH_MAX], own[256];
	ssize_t length;

	snprintf(path, sizeof path, "%s/proc/self/ns/mnt", sysroot);
	length = readlink(path, own, sizeof own - 1);
	if (length < 0)
		return false;
	own[length] = 0;
	snprintf(path, sizeof path, "%s/ns/mnt", process);
	return !link_is(path, own);
}

static bool has_library(const struct doctor *d, const char *process)
{
	char path[PATH_MAX], line[PATH_MAX + 128];
	bool has = false;
	FILE *maps;

	snprintf(path, sizeof path, "%s/maps", process);
	if (!(maps = fopen(path, "re")))
		return false;
	while (!has && fgets(line, sizeof line, maps))
		has = strstr(line, "/libamvgpu.so") || (d->library && strstr(line, d->library));
	fclose(maps);
	return has;
}

static bool has_region(int pid)
{
	struct region_list list = {0};
	bool has;

	region_of_process(pid, &list);
	has = list.count != 0;
	region_list_free(&list);
	return has;
}

static void name_of(const char *process, char *name, size_t size)
{
	char path[PATH_MAX];
	FILE *file;

	*name = 0;
	snprintf(path, sizeof path, "%s/comm", process);
	if (!(file = fopen(path, "re")))
		return;
	if (fgets(name, (int)size, file))
		name[strcspn(name, "\n")] = 0;
	fclose(file);
}

static void examine(struct doctor *d, const char *pid)
{
	char process[PATH_MAX / 2], name[32];

	snprintf(process, sizeof process, "%s/proc/%s", d->sysroot, pid);
	if (atoi(pid) == getpid() || !has_kfd_open(process) || is_elsewhere(d->sysroot, process) ||
	    has_library(d, process) || has_region(atoi(pid)))
		return;
	name_of(process, name, sizeof name);
	doctor_note(d, FINDING_PROCESS_UNWATCHED, "pid %s (%s)", pid, units_printable(name));
}

void doctor_examine_processes(struct doctor *d)
{
	char path[PATH_MAX / 2];
	struct dirent *entry;
	DIR *processes;

	snprintf(path, sizeof path, "%s/proc", d->sysroot);
	if (!(processes = opendir(path)))
		return;
	while ((entry = readdir(processes))) {
		if (isdigit((unsigned char)entry->d_name[0]))
			examine(d, entry->d_name);
	}
	closedir(processes);
}
