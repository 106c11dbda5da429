/* amvgpu env: every setting, the value that holds, and where it comes from. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amvgpu.h"
#include "environment.h"
#include "units.h"
#include "../../src/multiprocess/hip_multiprocess_memory_limit.h"

struct setting {
	const char *name;
	const char *value;  /* that holds; NULL: unset */
	const char *source; /* "pod", "process", "default", "unset" */
	const char *note;   /* NULL: nothing to say */
};

struct sink {
	struct json_object *json; /* NULL: a table */
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	(void)argument;
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	*(bool *)state->input = true;
	return 0;
}

static const struct argp_option options[] = {{"json", 'j', NULL, 0, "print JSON", 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    NULL,
    "Show the settings in force and where they come from.\v"
    "Sources: 'pod' is the environment PID 1 was started with, 'process' that of this process. A pinned "
    "setting of the pod cannot "
    "be changed by a process; a restored one comes back where a process has lost it.",
    NULL,
    NULL,
    NULL,
};

static void show(const struct sink *sink, const struct setting *s)
{
	struct json_object *o;

	if (!sink->json) {
		printf("%-31s %-28s %-8s %s\n", s->name, s->value ? units_printable(s->value) : "-",
		       s->source, s->note ? s->note : "");
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "name", json_object_new_string(s->name));
	json_object_object_add(o, "value", s->value ? json_object_new_string(s->value) : NULL);
	json_object_object_add(o, "source", json_object_new_string(s->source));
	json_object_object_add(o, "note", s->note ? json_object_new_string(s->note) : NULL);
	json_object_array_add(sink->json, o);
}

static const char *source_of(const struct environment *e, const char *value, bool from_pod)
{
	if (!value)
		return "unset";
	return from_pod && !e->pod_is_self ? "pod" : "process";
}

/* What the loader reads: it takes them from the process, whatever the pod says. */
static void show_loader(const struct sink *sink, const struct environment *e)
{
	static const char *const names[] = {"LD_AUDIT", "GLIBC_TUNABLES", "LD_BIND_NOW"};

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		const char *mine = env_find(&e->own, names[i]), *pods = env_find(&e->pod, names[i]);
		const char *note = NULL;

		if (pods && (!mine || strcmp(mine, pods)))
			note = mine ? "the pod's is another" : "the pod has it, this process has lost it";
		show(sink, &(struct setting){names[i], mine, mine ? "process" : "unset", note});
	}
}

/* HIP_DEVICE_MEMORY_LIMIT_<i>: one row for each device that has one of its own; the common one is among the
 * variables. */
static void show_limits(const struct sink *sink, const struct environment *e)
{
	struct env_limits limits = {0};

	env_limits_load(&limits, e->policy.pod_has_limits ? &e->pod : &e->own);
	for (int i = -1; i < ENV_DEVICES; i++) {
		const char *value = i < 0 ? limits.global : limits.indexed[i];
		uint64_t bytes = 0, lowered = i < 0 ? 0 : e->policy.own_limit[i];
		bool valid = value && memory_size_parse(value, &bytes);
		char name[40] = "HIP_DEVICE_MEMORY_LIMIT", note[120];

		if (!value && !lowered && i >= 0)
			continue;
		if (i >= 0)
			snprintf(name, sizeof name, "HIP_DEVICE_MEMORY_LIMIT_%d", i);
		snprintf(note, sizeof note, "%s%s%s",
			 !value   ? ""
			 : !valid ? "invalid: no limit"
			 : bytes  ? units_bytes(bytes)
				  : "no limit",
			 lowered ? ", lowered by this process to " : "", lowered ? units_bytes(lowered) : "");
		show(sink,
		     &(struct setting){name, value, source_of(e, value, e->policy.pod_has_limits), note});
	}
}

static const char *note_of(const struct environment *e, enum env_variable v, char *note, size_t size)
{
	const char *mine = env_find(&e->own, env_variables[v].name), *holds = e->policy.value[v];
	bool pinned = env_variables[v].treatment == ENV_PINNED;

	if (v == ENV_AMD_TASK_PRIORITY && holds)
		snprintf(note, size, "%s",
			 e->policy.priority < 0 ? "not a number: ignored"
			 : e->policy.priority   ? "low"
						: "high");
	else if (v == ENV_HIP_OVERSUBSCRIBE && holds)
		snprintf(note, size, "%s", e->policy.oversubscribe ? "on" : "off");
	else
		snprintf(note, size, "%s", e->policy.from_pod[v] && pinned ? "pinned" : "");
	if (pinned && e->policy.from_pod[v] && mine && strcmp(mine, holds))
		snprintf(note + strlen(note), size - strlen(note), "%sthis process's own is ignored",
			 *note ? ", " : "");
	return note;
}

static void show_policy(const struct sink *sink, const struct environment *e)
{
	for (unsigned v = 0; v < ENV_VARIABLE_COUNT; v++) {
		char note[120];
		struct setting s = {env_variables[v].name, e->policy.value[v],
				    source_of(e, e->policy.value[v], e->policy.from_pod[v]), NULL};

		s.note = note_of(e, v, note, sizeof note);
		if (v == ENV_HIP_DEVICE_MEMORY_SHARED_CACHE && !s.value) {
			s.value = LEDGER_DEFAULT_PATH;
			s.source = "default";
		}
		show(sink, &s);
	}
}

int verb_env(int argc, char **argv)
{
	struct environment e;
	struct sink sink = {NULL};
	bool json = false;

	argp_parse(&argp, argc, argv, 0, NULL, &json);
	environment_load(&e, "");
	if (json)
		sink.json = json_object_new_array();
	else
		printf("%-31s %-28s %-8s %s\n", "SETTING", "VALUE", "SOURCE", "");
	show_loader(&sink, &e);
	show_limits(&sink, &e);
	show_policy(&sink, &e);
	if (!json && e.pod_error)
		printf("\n/proc/1/environ: %s: the process's own variables are used\n",
		       strerror(-e.pod_error));
	if (json) {
		puts(json_object_to_json_string_ext(sink.json, JSON_C_TO_STRING_PRETTY |
								   JSON_C_TO_STRING_SPACED |
								   JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(sink.json);
	}
	environment_free(&e);
	return EXIT_OK;
}
