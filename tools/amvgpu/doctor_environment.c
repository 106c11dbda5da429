/* What doctor reads in the environment: LD_AUDIT, our variables, their spelling and their values; then the
 * library's file. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "doctor.h"
#include "elf_file.h"
#include "library.h"
#include "mask_check.h"
#include "units.h"

static bool is_our_library(const char *path)
{
	const char *base = strrchr(path, '/');

	return strstr(base ? base : path, "amvgpu") != NULL;
}

/* Takes a value of LD_AUDIT apart: our entry, and whether there are others. */
static void take_audit_apart(struct doctor *d, const char *value)
{
	char *copy = strdup(value), *rest = copy, *entry;

	while ((entry = strsep(&rest, ":"))) {
		if (!*entry)
			continue;
		if (is_our_library(entry) && !d->library)
			d->library = strdup(entry);
		else
			doctor_note(d, FINDING_AUDIT_OTHER, "%s", entry);
	}
	free(copy);
}

static void examine_audit(struct doctor *d)
{
	const char *mine = env_find(&d->environment.own, "LD_AUDIT"),
		   *pods = env_find(&d->environment.pod, "LD_AUDIT");

	if (mine && *mine) {
		take_audit_apart(d, mine);
		if (!d->library)
			doctor_note(d, FINDING_AUDIT_WITHOUT_US, "LD_AUDIT=%s", mine);
	} else if (pods && *pods) {
		doctor_note(d, FINDING_AUDIT_EMPTIED, "the pod has LD_AUDIT=%s", pods);
		take_audit_apart(d, pods);
	} else {
		doctor_note(d, FINDING_AUDIT_UNSET, NULL);
		d->library = library_find(NULL);
	}
}

/* Edits (insert, delete, replace, exchange of neighbours) between two names, letter case aside; more than 2
 * is "many". */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned rows[3][64];

	if (m >= 63 || n > m + 2 || m > n + 2)
		return 3;
	for (size_t j = 0; j <= m; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			bool same = toupper((unsigned char)a[i - 1]) == toupper((unsigned char)b[j - 1]);
			unsigned best = last[j - 1] + !same;

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
	}
	return rows[n % 3][m];
}

/* Every name that the product or the runtimes read, without an index. */
static const char *const known[] = {
#define ENV(name, treatment) #name,
    ENV_VARIABLES(ENV)
#undef ENV
	"LD_AUDIT",
    "HIP_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_VISIBLE_DEVICES",
};

enum { KNOWN = sizeof known / sizeof *known };

/* name without "_<number>" of a device that exists. */
static size_t length_without_index(const char *name, size_t n)
{
	size_t digits = n;

	while (digits && isdigit((unsigned char)name[digits - 1]))
		digits--;
	if (digits == n || !digits || name[digits - 1] != '_' || n - digits > 2 ||
	    strtoul(name + digits, NULL, 10) >= ENV_DEVICES)
		return n;
	return digits - 1;
}

static void examine_spelling_of(struct doctor *d, const char *entry, const char *whose)
{
	size_t n = strcspn(entry, "="), stem = length_without_index(entry, n);
	const char *near = NULL;

	for (unsigned i = 0; i < KNOWN; i++) {
		size_t m = strlen(known[i]);
		bool indexed = strstr(known[i], "MEMORY_LIMIT") != NULL;
		size_t length = indexed ? stem : n;

		if (length == m && !strncmp(entry, known[i], m))
			return;
		/* A short name has neighbours that mean something else. */
		if (distance(entry, length, known[i], m) <= (m > 10 ? 2 : 1) ||
		    (indexed && n > m && !strncmp(entry, known[i], m)))
			near = known[i];
	}
	if (near)
		doctor_note(d, FINDING_VARIABLE_MISSPELT, "%.*s in the environment of %s: did you mean %s?",
			    (int)n, entry, whose, near);
}

static void examine_spelling(struct doctor *d)
{
	const struct environment *e = &d->environment;

	for (const char *const *p = e->own.pointers; p && *p; p++)
		examine_spelling_of(d, *p, "this process");
	for (size_t i = 0; i < e->pod.size; i += strlen(e->pod.text + i) + 1) {
		size_t n = strcspn(e->pod.text + i, "=");
		char name[80];

		snprintf(name, sizeof name, "%.*s", (int)n, e->pod.text + i);
		if (!env_find(&e->own, name))
			examine_spelling_of(d, e->pod.text + i, "the pod");
	}
}

void doctor_examine_environment(struct doctor *d)
{
	const struct env_policy *policy = &d->environment.policy;
	const char *mask = policy->value[ENV_HSA_CU_MASK], *priority = policy->value[ENV_AMD_TASK_PRIORITY];
	const char *error;

	examine_audit(d);
	examine_spelling(d);
	if (policy->invalid)
		doctor_note_reason(d, LEDGER_REASON_LIMIT_INVALID, "'%s'", units_printable(policy->invalid));
	if (!policy->limited && !policy->invalid)
		doctor_note(d, FINDING_LIMIT_UNSET, NULL);
	if (policy->limit_raise_ignored)
		doctor_note_reason(d, LEDGER_REASON_LIMIT_RAISE_IGNORED, NULL);
	if (d->environment.pod_error)
		doctor_note_reason(d, LEDGER_REASON_POD_SPEC_UNREADABLE, "%s",
				   strerror(-d->environment.pod_error));
	if (mask && *mask && (error = mask_check(mask)))
		doctor_note(d, FINDING_MASK_INVALID, "HSA_CU_MASK=%s: %s", units_printable(mask), error);
	if (priority && *priority && policy->priority < 0)
		doctor_note(d, FINDING_PRIORITY_INVALID, "AMD_TASK_PRIORITY=%s", units_printable(priority));
}

void doctor_examine_library(struct doctor *d)
{
	struct statvfs fs;
	struct elf_file file;
	int error;

	if (!d->library)
		return;
	if (!strchr(d->library, '/'))
		return; /* a bare name: the loader looks in its own folders; what it found is read back */
	error = elf_file_read(d->library, &file);
	if (error == -ENOENT || error == -ENOTDIR)
		doctor_note(d, FINDING_LIBRARY_MISSING, "%s", d->library);
	else if (error == -EISDIR)
		doctor_note(d, FINDING_LIBRARY_IS_FOLDER, "%s", d->library);
	else if (error)
		doctor_note(d, FINDING_LIBRARY_UNREADABLE, "%s: %s", d->library, strerror(-error));
	if (error)
		return;
	if (!statvfs(d->library, &fs) && fs.f_flag & ST_NOEXEC)
		doctor_note(d, FINDING_LIBRARY_NOEXEC, "%s", d->library);
	if (file.kind == ELF_WRONG_ARCH)
		doctor_note(d, FINDING_LIBRARY_WRONG_ARCH, "%s", d->library);
	else if (file.kind != ELF_SHARED)
		doctor_note(d, FINDING_LIBRARY_BROKEN, "%s", d->library);
	else if (!file.is_audit)
		doctor_note(d, FINDING_LIBRARY_NOT_AUDIT, "%s", d->library);
	elf_file_free(&file);
}
