/* amvgpu doctor: whether the limit is enforced here, and if not, why and what to do. */
#include <json-c/json.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "amvgpu.h"
#include "doctor.h"
#include "units.h"

enum { OPTION_JSON = 'j', OPTION_SECONDS = 's', OPTION_SYSROOT = 0x100, OPTION_NO_PROBE, OPTION_PROBE };

struct options {
	struct doctor doctor;
	bool json;
	bool no_probe;
	int probe_fd;
};

static const struct argp_option options[] = {
    {"json", OPTION_JSON, NULL, 0, "print JSON", 1},
    {"seconds", OPTION_SECONDS, "N", 0, "stop the program after N seconds; without it, wait for its end", 1},
    {"no-probe", OPTION_NO_PROBE, NULL, 0, "do not start the small program that asks HIP and HSA", 1},
    {"sysroot", OPTION_SYSROOT, "DIR", 0, "look for /proc/1, /sys and /dev below DIR", 1},
    {"probe", OPTION_PROBE, "FD", OPTION_HIDDEN, "be that small program", 1},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;

	switch (key) {
	case OPTION_JSON:
		o->json = true;
		return 0;
	case OPTION_SECONDS:
		o->doctor.seconds = strtod(argument, &end);
		if (*end || !(o->doctor.seconds >= 0.1 && o->doctor.seconds < 1e6))
			argp_error(state, "--seconds takes a number, 0.1 or more");
		return 0;
	case OPTION_NO_PROBE:
		o->no_probe = true;
		return 0;
	case OPTION_SYSROOT:
		o->doctor.sysroot = argument;
		return 0;
	case OPTION_PROBE:
		o->probe_fd = atoi(argument);
		return 0;
	case ARGP_KEY_ARG:
		o->doctor.program = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    options,
    parse,
    "[-- PROGRAM [ARG...]]",
    "Say whether the limit is enforced here, and if not, why and what to do.\v"
    "With a program, doctor starts it under the library and says what was bound. Without one it starts a "
    "small program of its own "
    "that asks HIP and HSA. The exit status is 0 only if the limit is enforced.",
    NULL,
    NULL,
    NULL,
};

static void add_finding(struct doctor *d, struct finding f, const char *format, va_list arguments)
{
	struct finding *more;

	if (format && vasprintf(&f.detail, format, arguments) < 0)
		f.detail = NULL;
	for (unsigned i = 0; i < d->count; i++) {
		const char *old = d->findings[i].detail;

		if (!strcmp(d->findings[i].code, f.code) &&
		    (old == f.detail || (old && f.detail && !strcmp(old, f.detail)))) {
			free(f.detail);
			return;
		}
	}
	more = realloc(d->findings, (d->count + 1) * sizeof *more);
	if (!more)
		return;
	d->findings = more;
	more[d->count++] = f;
}

static const struct finding table[] = {
#define FINDING(code, level, what, remedy) {#code, LEVEL_##level, what, remedy, NULL},
#include "doctor.def"
#undef FINDING
};

void doctor_note(struct doctor *d, enum finding_code code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_finding(d, table[code], format, arguments);
	va_end(arguments);
}

void doctor_note_reason(struct doctor *d, enum ledger_reason reason, const char *format, ...)
{
	enum finding_level level =
	    snapshot_state_of_reason(reason) == STATE_ENFORCED ? LEVEL_NOTE : LEVEL_LOSS;
	struct finding f = {ledger_reason_name(reason), level, ledger_reason_text(reason),
			    ledger_reason_remedy(reason), NULL};
	va_list arguments;

	/* A process and its pod have the same reason: once is enough. */
	for (unsigned i = 0; i < d->count; i++) {
		if (!strcmp(d->findings[i].code, f.code))
			return;
	}
	va_start(arguments, format);
	add_finding(d, f, format, arguments);
	va_end(arguments);
}

bool doctor_has(const struct doctor *d, enum finding_code code)
{
	for (unsigned i = 0; i < d->count; i++) {
		if (!strcmp(d->findings[i].code, table[code].code))
			return true;
	}
	return false;
}

const char *doctor_level_word(enum finding_level level)
{
	static const char *const words[] = {
	    [LEVEL_LOSS] = "loss", [LEVEL_WARNING] = "warning", [LEVEL_NOTE] = "note"};

	return words[level];
}

static unsigned count_level(const struct doctor *d, enum finding_level level)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->count; i++)
		n += d->findings[i].level == level;
	return n;
}

/* Nothing lost is not enough: a living proof is wanted, a process with bound symbols and a slot. */
static bool is_enforced(const struct doctor *d)
{
	bool proof = false;

	for (unsigned i = 0; i < d->patient_count; i++) {
		const struct patient *p = &d->patients[i];

		if (p->is_probe == !d->program && p->has_slot && p->slot.symbols_bound &&
		    snapshot_state_of(&p->slot) == STATE_ENFORCED)
			proof = true;
	}
	return proof && !count_level(d, LEVEL_LOSS);
}

static void print_patient(const struct patient *p)
{
	printf("%-11s pid %d (%s): ", p->is_probe ? "probe" : "program", p->pid, units_printable(p->command));
	if (p->has_slot)
		printf("bound %u of %u symbols, %s, region %s\n", p->slot.symbols_bound,
		       p->slot.symbols_wanted, snapshot_state_word(snapshot_state_of(&p->slot)), p->region);
	else
		printf("library %s, GPU runtime %s, no slot\n", p->has_library ? "loaded" : "not loaded",
		       p->has_runtime ? "loaded" : "not loaded");
}

static uint64_t limit_of(const struct doctor *d, unsigned device)
{
	const struct env_policy *policy = &d->environment.policy;

	return policy->own_limit[device] ? policy->own_limit[device] : policy->limit[device];
}

/* Devices with a limit of their own, then what all others have. */
static void print_limits(const struct doctor *d)
{
	uint64_t common = limit_of(d, ENV_DEVICES - 1);
	bool any = false;

	printf("limits     ");
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		if (limit_of(d, i) == common)
			continue;
		printf(" device %u: %s,", i, limit_of(d, i) ? units_bytes(limit_of(d, i)) : "none");
		any = true;
	}
	printf(" %s: %s%s\n", any ? "others" : "every device", common ? units_bytes(common) : "none",
	       !d->environment.policy.limited         ? ""
	       : d->environment.policy.pod_has_limits ? " (the pod's)"
						      : " (this process's)");
}

static void print_facts(const struct doctor *d)
{
	printf("library     %s\n", d->library ? d->library : "none");
	print_limits(d);
	for (unsigned i = 0; i < d->patient_count; i++)
		print_patient(&d->patients[i]);
}

static void print_text(const struct doctor *d)
{
	print_facts(d);
	for (enum finding_level level = LEVEL_LOSS; level <= LEVEL_NOTE; level++) {
		for (unsigned i = 0; i < d->count; i++) {
			const struct finding *f = &d->findings[i];

			if (f->level != level)
				continue;
			printf("\n%s %s: %s\n", doctor_level_word(f->level), f->code, f->what);
			if (f->detail)
				printf("     here: %s\n", f->detail);
			printf("    to do: %s\n", f->remedy);
		}
	}
	printf("\nenforced: %s (%u lost, %u warnings)\n", is_enforced(d) ? "yes" : "no",
	       count_level(d, LEVEL_LOSS), count_level(d, LEVEL_WARNING));
}

static struct json_object *text_or_null(const char *text)
{
	return text ? json_object_new_string(text) : NULL;
}

static struct json_object *patient_object(const struct patient *p)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "pid", json_object_new_int(p->pid));
	json_object_object_add(o, "command", text_or_null(units_printable(p->command)));
	json_object_object_add(o, "probe", json_object_new_boolean(p->is_probe));
	json_object_object_add(o, "library_loaded", json_object_new_boolean(p->has_library));
	json_object_object_add(o, "runtime_loaded", json_object_new_boolean(p->has_runtime));
	json_object_object_add(o, "region", text_or_null(p->region));
	json_object_object_add(
	    o, "state", p->has_slot ? text_or_null(snapshot_state_word(snapshot_state_of(&p->slot))) : NULL);
	json_object_object_add(o, "symbols_bound", json_object_new_uint64(p->slot.symbols_bound));
	json_object_object_add(o, "symbols_wanted", json_object_new_uint64(p->slot.symbols_wanted));
	return o;
}

static void print_json(const struct doctor *d)
{
	struct json_object *all = json_object_new_object();
	struct json_object *findings = json_object_new_array(), *patients = json_object_new_array();

	json_object_object_add(all, "enforced", json_object_new_boolean(is_enforced(d)));
	json_object_object_add(all, "library", text_or_null(d->library));
	for (unsigned i = 0; i < d->count; i++) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "code", text_or_null(d->findings[i].code));
		json_object_object_add(o, "level", text_or_null(doctor_level_word(d->findings[i].level)));
		json_object_object_add(o, "what", text_or_null(d->findings[i].what));
		json_object_object_add(o, "remedy", text_or_null(d->findings[i].remedy));
		json_object_object_add(o, "detail", text_or_null(d->findings[i].detail));
		json_object_array_add(findings, o);
	}
	json_object_object_add(all, "findings", findings);
	for (unsigned i = 0; i < d->patient_count; i++)
		json_object_array_add(patients, patient_object(&d->patients[i]));
	json_object_object_add(all, "processes", patients);
	puts(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
						     JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(all);
}

static void doctor_free(struct doctor *d)
{
	for (unsigned i = 0; i < d->count; i++)
		free(d->findings[i].detail);
	for (unsigned i = 0; i < d->patient_count; i++)
		free(d->patients[i].region);
	free(d->findings);
	free(d->patients);
	free(d->library);
	environment_free(&d->environment);
}

int verb_doctor(int argc, char **argv)
{
	struct options o = {.doctor.sysroot = "", .probe_fd = -1};
	struct doctor *d = &o.doctor;
	int status;

	setlocale(LC_CTYPE, "");
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (o.probe_fd >= 0)
		return doctor_probe(o.probe_fd);
	d->is_stdout_ours = o.json;
	environment_load(&d->environment, d->sysroot);
	doctor_examine_environment(d);
	doctor_examine_library(d);
	doctor_examine_machine(d);
	doctor_examine_processes(d);
	if (d->program)
		doctor_examine_program(d);
	if (!o.no_probe)
		doctor_start_probe(d);
	if (d->program && !doctor_has(d, FINDING_PROGRAM_MISSING))
		doctor_start_program(d);
	if (o.json)
		print_json(d);
	else
		print_text(d);
	status = is_enforced(d) ? EXIT_OK : EXIT_NO;
	doctor_free(d);
	return status;
}
