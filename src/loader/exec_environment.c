/* The environment that a program gives to another one, with what must not be lost put back. */
#include "exec_environment.h"

#include "../sys/text.h"

#define NOWHERE (~0u)

#define AUDIT "LD_AUDIT="
#define TUNABLES "GLIBC_TUNABLES="
#define STATIC_TLS "glibc.rtld.optional_static_tls="
#define BIND_NOW "LD_BIND_NOW="

/* With an audit library ld.so has little room for libraries with initial-exec TLS; 8192 bytes are enough for
 * those seen, and small enough for threads with a stack of 16 KiB. */
#define STATIC_TLS_VALUE STATIC_TLS "8192"

static struct {
	const char *const *assignments;
	unsigned count;
	const char *audit; /* our library, or NULL */
	bool has_bind_now;
	const struct exec_judge *judge; /* or NULL */
} keep; /* written by exec_keep_init, exec_keep_judge and exec_keep_bind_now only */

static bool is_audit(const char *entry)
{
	return text_starts(entry, AUDIT);
}

void exec_keep_init(const char *const *assignments, unsigned count)
{
	keep.assignments = assignments;
	keep.count = count < EXEC_KEEP_MAX ? count : EXEC_KEEP_MAX;
	keep.audit = NULL;
	for (unsigned i = 0; i < keep.count; i++) {
		if (is_audit(assignments[i]))
			keep.audit = assignments[i] + sizeof AUDIT - 1;
	}
}

void exec_keep_judge(const struct exec_judge *judge)
{
	keep.judge = judge;
}

const struct exec_judge *exec_keep_judge_now(void)
{
	return keep.judge;
}

bool exec_keep_is_on(void)
{
	return keep.count != 0;
}

void exec_keep_bind_now(void)
{
	keep.has_bind_now = true;
}

/* Whether entry sets the variable that assignment sets. */
static bool is_same_variable(const char *entry, const char *assignment)
{
	while (*entry && *entry == *assignment && *entry != '=') {
		entry++;
		assignment++;
	}
	return *entry == '=' && *assignment == '=';
}

/* Whether list, whose parts are separated by colons, has a part that is `part`, or starts with it. */
static bool list_has(const char *list, const char *part, bool is_start)
{
	size_t length = text_length(part);

	for (;; list++) {
		if (text_starts(list, part) && (is_start || !list[length] || list[length] == ':'))
			return true;
		while (*list && *list != ':')
			list++;
		if (!*list)
			return false;
	}
}

static size_t name_length(const char *entry)
{
	size_t length = 0;

	while (entry[length] && entry[length] != '=')
		length++;
	return length;
}

static const char *judged_value(const char *entry)
{
	return keep.judge ? keep.judge->value(entry) : NULL;
}

static void plan_note(struct exec_plan *plan, unsigned index)
{
	const char *entry = plan->given[index], *value = judged_value(entry);

	if (value) {
		plan->overridden++;
		plan->text_size += name_length(entry) + 1 + text_length(value) + 1;
	}

	for (unsigned i = 0; i < keep.count; i++)
		plan->has[i] |= is_same_variable(entry, keep.assignments[i]);
	if (is_audit(entry) && plan->audit == NOWHERE) {
		plan->audit = index;
		plan->is_audit_right = !keep.audit || list_has(entry + sizeof AUDIT - 1, keep.audit, false);
	} else if (text_starts(entry, TUNABLES) && plan->tunables == NOWHERE) {
		plan->tunables = index;
		plan->is_tunables_right = list_has(entry + sizeof TUNABLES - 1, STATIC_TLS, true);
	}
	plan->has_bind_now |= text_starts(entry, BIND_NOW) && entry[sizeof BIND_NOW - 1];
}

/* Entries that come in addition to the given ones. */
static unsigned plan_missing(struct exec_plan *plan)
{
	unsigned missing = (plan->tunables == NOWHERE) + (keep.has_bind_now && !plan->has_bind_now);

	for (unsigned i = 0; i < keep.count; i++) {
		if (!plan->has[i] && keep.judge && keep.judge->is_needless(i, plan->given))
			plan->has[i] = true;
		missing += !plan->has[i];
	}
	return missing;
}

/* Room for the texts that are neither given nor kept ones: merged lists. */
static size_t plan_text_size(const struct exec_plan *plan)
{
	size_t size = 0;

	if (plan->audit != NOWHERE && !plan->is_audit_right)
		size += text_length(plan->given[plan->audit]) + text_length(keep.audit) + 2;
	if (plan->tunables != NOWHERE && !plan->is_tunables_right)
		size += text_length(plan->given[plan->tunables]) + sizeof STATIC_TLS_VALUE + 1;
	return size;
}

void exec_plan_make(struct exec_plan *plan, const char *const *given)
{
	unsigned missing;

	*plan = (struct exec_plan){.given = given, .audit = NOWHERE, .tunables = NOWHERE};
	if (!exec_keep_is_on())
		return;
	for (; given && given[plan->given_count]; plan->given_count++)
		plan_note(plan, plan->given_count);
	missing = plan_missing(plan);
	plan->text_size += plan_text_size(plan);
	if (missing || plan->text_size)
		plan->entries = plan->given_count + missing + 1;
	plan->is_too_large = plan->text_size > EXEC_MERGED_MAX || plan->entries > EXEC_ENTRIES_MAX;
}

/* "NAME=" first ":" second, or without what is empty; returns where the next text may start. */
static char *merge(char *at, const char *name, const char *first, const char *second)
{
	struct text text = {at, (size_t)-1, 0};

	text_add(&text, name);
	text_add(&text, first);
	if (*first && *second)
		text_add(&text, ":");
	text_add(&text, second);
	return at + text.length + 1;
}

/* "NAME=value", its name as in entry; returns where the next text may start. */
static char *override(char *at, const char *entry, const char *value)
{
	size_t length = name_length(entry);
	struct text text = {at, (size_t)-1, length + 1};

	bytes_copy(at, entry, length);
	at[length] = '=';
	text_add(&text, value);
	return at + text.length + 1;
}

static char *fill_given(const struct exec_plan *plan, const char **entries, char *texts)
{
	for (unsigned i = 0; i < plan->given_count; i++) {
		const char *value = plan->overridden ? judged_value(plan->given[i]) : NULL;

		entries[i] = value ? texts : plan->given[i];
		if (value)
			texts = override(texts, plan->given[i], value);
	}
	return texts;
}

void exec_plan_fill(const struct exec_plan *plan, const char **entries, char *texts)
{
	unsigned n = plan->given_count;

	texts = fill_given(plan, entries, texts);
	if (plan->audit != NOWHERE && !plan->is_audit_right) {
		entries[plan->audit] = texts;
		texts = merge(texts, AUDIT, keep.audit, plan->given[plan->audit] + sizeof AUDIT - 1);
	}
	if (plan->tunables != NOWHERE && !plan->is_tunables_right) {
		entries[plan->tunables] = texts;
		merge(texts, TUNABLES, plan->given[plan->tunables] + sizeof TUNABLES - 1, STATIC_TLS_VALUE);
	}
	if (plan->tunables == NOWHERE)
		entries[n++] = TUNABLES STATIC_TLS_VALUE;
	if (keep.has_bind_now && !plan->has_bind_now)
		entries[n++] = BIND_NOW "1";
	for (unsigned i = 0; i < keep.count; i++) {
		if (!plan->has[i])
			entries[n++] = keep.assignments[i];
	}
	entries[n] = NULL;
}

/* As one word of the shell's. */
static void text_add_quoted(struct text *text, const char *s)
{
	char one[2] = {0, 0};

	text_add(text, "'");
	for (; *s; s++) {
		one[0] = *s;
		text_add(text, *s == '\'' ? "'\\''" : one);
	}
	text_add(text, "'");
}

static size_t quoted_size(const char *s)
{
	size_t size = 2;

	for (; *s; s++)
		size += *s == '\'' ? 4 : 1;
	return size;
}

#define EXEC_SHELL "exec /bin/sh -c -- "

size_t exec_plan_command_size(const struct exec_plan *plan, const char *command)
{
	const char **entries = __builtin_alloca(plan->entries * sizeof *entries);
	char *texts = __builtin_alloca(plan->text_size + 1);
	size_t size = sizeof EXEC_SHELL + quoted_size(command);

	exec_plan_fill(plan, entries, texts);
	for (unsigned i = 0; entries[i]; i++) {
		if (i >= plan->given_count || entries[i] != plan->given[i])
			size += sizeof "export ; " + quoted_size(entries[i]);
	}
	return size;
}

void exec_plan_command(const struct exec_plan *plan, const char *command, char *buffer, size_t size)
{
	const char **entries = __builtin_alloca(plan->entries * sizeof *entries);
	char *texts = __builtin_alloca(plan->text_size + 1);
	struct text text = {buffer, size, 0};

	exec_plan_fill(plan, entries, texts);
	for (unsigned i = 0; entries[i]; i++) {
		if (i < plan->given_count && entries[i] == plan->given[i])
			continue;
		text_add(&text, "export ");
		text_add_quoted(&text, entries[i]);
		text_add(&text, "; ");
	}
	text_add(&text, EXEC_SHELL);
	text_add_quoted(&text, command);
}
