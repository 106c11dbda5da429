/* Starts the program, and the probe, under the library, and judges what was read back of them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "mask_check.h"
#include "slice.h"
#include "units.h"
#include "../../src/hip/cu_mask.h"

static void judge_slot(struct doctor *d, const struct patient *p)
{
	if (!p->slot.symbols_bound || p->slot.symbols_bound < p->slot.symbols_wanted)
		doctor_note_reason(d, LEDGER_REASON_SYMBOLS_PARTIAL, "pid %d (%s): bound %u of %u", p->pid,
				   units_printable(p->command), p->slot.symbols_bound,
				   p->slot.symbols_wanted);
	for (unsigned r = 0; r < LEDGER_REASONS; r++) {
		if (p->slot.reasons >> r & 1)
			doctor_note_reason(d, r, "pid %d (%s)", p->pid, units_printable(p->command));
	}
}

static void judge(struct doctor *d, const struct patient *p)
{
	if (!p->has_library)
		doctor_note(d, FINDING_LIBRARY_NOT_LOADED, "pid %d (%s)", p->pid,
			    units_printable(p->command));
	else if (p->has_slot)
		judge_slot(d, p);
	else if (d->environment.policy.limited) /* without a limit there is nothing to have a slot in */
		doctor_note(d, FINDING_SLOT_MISSING, "pid %d (%s)", p->pid, units_printable(p->command));
}

/* Those without a GPU runtime (a shell that starts the program) are not worth a word, unless there is nobody
 * else. */
static unsigned judge_all(struct doctor *d, bool probes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->patient_count; i++) {
		if (d->patients[i].is_probe != probes || !d->patients[i].has_runtime)
			continue;
		judge(d, &d->patients[i]);
		n++;
	}
	return n;
}

/* The program gets the library whether or not the environment has it: what the environment lacks has been
 * noted. */
static void set_library(struct doctor *d)
{
	if (d->library && strchr(d->library, '/') && !access(d->library, R_OK))
		slice_set_loader(d->library);
}

static bool any_library_loaded(const struct doctor *d)
{
	for (unsigned i = 0; i < d->patient_count; i++) {
		if (!d->patients[i].is_probe && d->patients[i].has_library)
			return true;
	}
	return false;
}

void doctor_start_program(struct doctor *d)
{
	set_library(d);
	d->program_status = patient_watch(d, d->program, false, d->seconds);
	if (WIFEXITED(d->program_status) && WEXITSTATUS(d->program_status) == 127)
		doctor_note(d, FINDING_PROGRAM_FAILED_TO_START, NULL);
	if (judge_all(d, false))
		return;
	if (!any_library_loaded(d))
		doctor_note(d, FINDING_LIBRARY_NOT_LOADED, NULL);
	doctor_note(d, FINDING_RUNTIME_NOT_LOADED, NULL);
}

/* --- the probe's answers, one fact a line
 * ------------------------------------------------------------------------------ */

/* "total ORDINAL BYTES": the ordinal counts as this process does, the limit as the pod does. */
static void hear_total(struct doctor *d, const char *line)
{
	const struct env_policy *policy = &d->environment.policy;
	struct env_numbering mine = env_numbering_of(&d->environment.own);
	unsigned long long bytes;
	unsigned ordinal, index;
	uint64_t limit;

	if (sscanf(line, "total %u %llu", &ordinal, &bytes) != 2)
		return;
	index = env_device_index(&policy->origin, &mine, ordinal);
	if (index >= ENV_DEVICES)
		return;
	limit = policy->own_limit[index] ? policy->own_limit[index] : policy->limit[index];
	if (limit && bytes > limit)
		doctor_note(d, FINDING_TOTAL_WRONG, "device %u: %s, the limit is %s", ordinal,
			    units_bytes(bytes), units_bytes(limit));
}

/* "mask ORDINAL COUNT W0 W1...": what a queue got, in 32-bit words, of COUNT compute units. True if it says
 * something. */
static bool hear_mask(struct doctor *d, const char *line, const char *text)
{
	unsigned ordinal, count;
	struct cu_mask wanted;
	int n;

	if (sscanf(line, "mask %u %u%n", &ordinal, &count, &n) != 2)
		return false;
	wanted = cu_mask_of(text, ordinal);
	if (!wanted.is_set)
		return false;
	line += n;
	for (unsigned i = 0; i < CU_MASK_WORDS && i * 32 < count; i++) {
		uint32_t exist = count - i * 32 >= 32 ? UINT32_MAX : (1u << (count - i * 32)) - 1;
		unsigned got;

		if (sscanf(line, " %x%n", &got, &n) != 1)
			break;
		line += n;
		if ((got & exist) == (wanted.word[i] & exist))
			continue;
		doctor_note(d, FINDING_MASK_NOT_IN_FORCE, "device %u, CUs %u to %u: %08x instead of %08x",
			    ordinal, i * 32, i * 32 + 31, got & exist, wanted.word[i] & exist);
		break;
	}
	return true;
}

static void hear(struct doctor *d, FILE *from)
{
	const char *mask = d->environment.policy.value[ENV_HSA_CU_MASK];
	bool has_mask, heard_mask = false, has_device = false;
	char line[1024];

	has_mask = mask && *mask && !mask_check(mask);
	while (fgets(line, sizeof line, from)) {
		unsigned devices = 0;

		if (!strncmp(line, "hip ", 4))
			d->has_hip = true;
		if (sscanf(line, "devices %u", &devices) == 1 && devices)
			has_device = true;
		hear_total(d, line);
		if (has_mask && hear_mask(d, line, mask))
			heard_mask = true;
	}
	if (has_mask && !heard_mask)
		doctor_note(d, FINDING_MASK_UNREADABLE, NULL);
	if (d->program)
		return; /* it may bring a runtime of its own */
	if (!d->has_hip)
		doctor_note(d, FINDING_HIP_MISSING, NULL);
	else if (!has_device)
		doctor_note(d, FINDING_NO_DEVICE, NULL);
}

/* Its messages are the runtime's, not for the reader of our report; the loader's are, but the program's run
 * shows them. */
void doctor_start_probe(struct doctor *d)
{
	char number[16], self[4096] = "", *argv[] = {self, "doctor", "--probe", number, NULL};
	int ends[2];
	FILE *from;

	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 || pipe(ends))
		return;
	fcntl(ends[0], F_SETFD, FD_CLOEXEC);
	snprintf(number, sizeof number, "%d", ends[1]);
	if (d->program)
		set_library(d);
	patient_watch(d, argv, true, 20);
	close(ends[1]);
	from = fdopen(ends[0], "r");
	if (from) {
		hear(d, from);
		fclose(from);
	}
	if (!d->program)
		judge_all(d, true);
}
