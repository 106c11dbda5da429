/* What doctor reads of the container and the machine: the GPU's device file, the kernel's memory limit, the
 * region's path. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "units.h"

static void examine_kfd(struct doctor *d)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/dev/kfd", d->sysroot);
	if (access(path, F_OK))
		doctor_note(d, FINDING_KFD_MISSING, NULL);
	else if (access(path, R_OK | W_OK))
		doctor_note(d, FINDING_KFD_DENIED, "%s: %s", path, strerror(errno));
}

/* The kernel's limits of device memory: one line for each region, "drm/0000:03:00.0/vram BYTES" or "... max".
 */
struct dmem {
	char region[64];
	uint64_t limit;
};

enum { DMEM_REGIONS = 64 };

static int dmem_compare(const void *a, const void *b)
{
	return strcmp(((const struct dmem *)a)->region, ((const struct dmem *)b)->region);
}

static unsigned dmem_read(const char *path, struct dmem *found, unsigned n)
{
	FILE *file = fopen(path, "re");
	char line[200];

	while (file && fgets(line, sizeof line, file)) {
		char region[64], value[32];
		unsigned i = 0;

		if (sscanf(line, "%63s %31s", region, value) != 2 || !strstr(region, "/vram") ||
		    !strcmp(value, "max"))
			continue;
		while (i < n && strcmp(found[i].region, region))
			i++;
		if (i == DMEM_REGIONS)
			continue;
		if (i == n) {
			strcpy(found[n].region, region);
			found[n++].limit = UINT64_MAX;
		}
		if (strtoull(value, NULL, 10) < found[i].limit)
			found[i].limit = strtoull(value, NULL, 10);
	}
	if (file)
		fclose(file);
	return n;
}

/* Our control group below the unified hierarchy, "" for its root. */
static void own_group(const char *sysroot, char *group, size_t size)
{
	char path[PATH_MAX], line[PATH_MAX / 2];
	FILE *file;

	*group = 0;
	snprintf(path, sizeof path, "%s/proc/self/cgroup", sysroot);
	if (!(file = fopen(path, "re")))
		return;
	while (fgets(line, sizeof line, file)) {
		if (strncmp(line, "0::/", 4))
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(group, size, "%s", line[4] ? line + 3 : "");
	}
	fclose(file);
}

/* A group's limit bounds those below it: the lowest on the way to the root holds. The device of a region is
 * not known without the driver; regions sorted by PCI address are taken for devices 0, 1, ... as the device
 * plugin numbers them. */
static void examine_dmem(struct doctor *d)
{
	struct dmem found[DMEM_REGIONS];
	char group[PATH_MAX / 2], path[PATH_MAX + 64];
	unsigned n = 0;

	own_group(d->sysroot, group, sizeof group);
	for (;;) {
		snprintf(path, sizeof path, "%s/sys/fs/cgroup%s/dmem.max", d->sysroot, group);
		n = dmem_read(path, found, n);
		if (!strrchr(group, '/'))
			break;
		*strrchr(group, '/') = 0;
	}
	qsort(found, n, sizeof *found, dmem_compare);
	for (unsigned i = 0; i < n && i < ENV_DEVICES; i++) {
		uint64_t limit = d->environment.policy.limit[i];

		if (limit && limit != found[i].limit)
			doctor_note(d, FINDING_DMEM_DISAGREES,
				    "device %u: the library %s, the kernel %s (%s)", i, units_bytes(limit),
				    units_bytes(found[i].limit), found[i].region);
	}
}

/* Whether the file, or a new one in its folder, can be written; the same questions that the library asks. */
static const char *region_trouble(const char *path)
{
	char folder[PATH_MAX];
	struct stat st;
	char *slash;

	if (!lstat(path, &st)) {
		if (S_ISLNK(st.st_mode))
			return "it is a symbolic link";
		if (!S_ISREG(st.st_mode))
			return "it is no regular file";
		return access(path, R_OK | W_OK) ? strerror(errno) : NULL;
	}
	snprintf(folder, sizeof folder, "%s", path);
	slash = strrchr(folder, '/');
	if (!slash)
		return "it is no absolute path";
	slash[slash == folder] = 0;
	return access(folder, W_OK | X_OK) ? strerror(errno) : NULL;
}

void doctor_examine_machine(struct doctor *d)
{
	const char *path = d->environment.policy.value[ENV_HIP_DEVICE_MEMORY_SHARED_CACHE];
	const char *trouble;

	examine_kfd(d);
	examine_dmem(d);
	if (!path || !*path)
		path = LEDGER_DEFAULT_PATH;
	trouble = region_trouble(path);
	if (trouble)
		doctor_note(d, FINDING_REGION_PATH_UNUSABLE, "%s: %s", path, trouble);
}
