/* See keep.h. */
#include "keep.h"

#include "env_policy.h"
#include "exempt.h"
#include "gate.h"
#include "../loader/exec_environment.h"
#include "../loader/program_libc.h"
#include "../sys/log.h"
#include "../sys/sys.h"

#define LIMIT "HIP_DEVICE_MEMORY_LIMIT"
#define AUDIT "LD_AUDIT="
#define OUR_NAME "libamvgpu"
#define SECURE_AUDIT OUR_NAME ".so" /* the only kind of name that ld.so takes for a program with more rights */

enum { NO_DEVICE = -1, EVERY_DEVICE = -2 };

struct ceiling {
	const char *text; /* NULL: none was given */
	uint64_t bytes;	  /* 0: no limit */
};

/* Written by keep_init only, but for two marks. What few programs have comes last: every program writes the rest, which
 * with all else that it writes of ours is one page (src/libamvgpu.ld). */
static struct {
	unsigned count;
	bool is_made;
	uint32_t is_overridden, is_logged;
	struct text texts; /* the initial block is the program's to overwrite: copies */
	struct ceiling all;
	const char *pinned[ENV_VARIABLE_COUNT]; /* our values */
	int8_t device[EXEC_KEEP_MAX];		/* whose limit the assignment is, EVERY_DEVICE, or NO_DEVICE */
	const char *assignments[EXEC_KEEP_MAX];
	char small[1024];		/* what does not fit gets a mapping */
	struct ceiling of[ENV_DEVICES]; /* of devices with a limit of their own */
} keep;

static const struct ceiling *ceiling_of(int device)
{
	return device >= 0 && keep.of[device].text ? &keep.of[device] : &keep.all;
}

/* ---- collecting ---- */

/* "NAME=value" with `prefix` in front; the value, or NULL without room. */
static const char *add(int device, const char *prefix, const char *name, const char *value, size_t value_length)
{
	char *start = keep.texts.buffer + keep.texts.length;
	size_t size = text_length(prefix) + text_length(name) + 1 + value_length + 1;
	char *kept_value = start + size - 1 - value_length;

	if (keep.count == EXEC_KEEP_MAX || keep.texts.length + size > keep.texts.size)
		return NULL;
	text_add(&keep.texts, prefix);
	text_add(&keep.texts, name);
	text_add(&keep.texts, "=");
	bytes_copy(kept_value, value, value_length);
	kept_value[value_length] = 0;
	keep.texts.length += value_length + 1;
	keep.device[keep.count] = (int8_t)device;
	keep.assignments[keep.count++] = start;
	return kept_value;
}

static size_t element_length(const char *list)
{
	size_t length = 0;

	while (list[length] && list[length] != ':')
		length++;
	return length;
}

static bool element_is_ours(const char *element, size_t length)
{
	for (size_t i = 0; i + sizeof OUR_NAME - 1 <= length; i++) {
		if (text_starts(element + i, OUR_NAME))
			return true;
	}
	return false;
}

/* Ours among the audit libraries, else the first: the file may have any name. */
static void add_audit(const char *list)
{
	const char *first = list;

	while (*list == ':')
		first = ++list;
	for (; *list; list += *list == ':') {
		size_t length = element_length(list);

		if (element_is_ours(list, length)) {
			first = list;
			break;
		}
		list += length;
	}
	if (*first)
		add(NO_DEVICE, "", "LD_AUDIT", first, element_length(first));
}

static void add_limit(struct ceiling *ceiling, int device, const char *suffix, const char *value)
{
	ceiling->text = add(device, LIMIT, suffix, value, text_length(value));
	if (!memory_size_parse(ceiling->text, &ceiling->bytes))
		ceiling->bytes = 0;
}

/* Under HIP's name also where the old one was given: a child must not find another. */
static void add_limits(const struct env_limits *limits)
{
	if (limits->global)
		add_limit(&keep.all, EVERY_DEVICE, "", limits->global);
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		char suffix[8];
		struct text text = TEXT_ON(suffix);

		if (!limits->indexed[i])
			continue;
		text_add(&text, "_");
		text_add_number(&text, i);
		add_limit(&keep.of[i], (int)i, suffix, limits->indexed[i]);
	}
}

static void add_variable(enum env_variable variable, const char *value)
{
	const char *kept = add(NO_DEVICE, "", env_variables[variable].name, value, text_length(value));

	if (env_variables[variable].treatment == ENV_PINNED)
		keep.pinned[variable] = kept;
	if (variable == ENV_LIBHIP_LOG_LEVEL && kept && kept[0] && !kept[1])
		log_set_level(kept[0] - '0');
}

/* What one look at the block finds; most programs have little of it. */
struct found {
	const char *audit;
	const char *value[ENV_VARIABLE_COUNT];
	struct env_limits limits;
	size_t size; /* enough for the copies */
};

static bool may_be_ours(char first)
{
	return first == 'A' || first == 'C' || first == 'H' || first == 'L' || first == 'R';
}

static void found_note(struct found *found, const char *entry)
{
	const char *audit = env_value(entry, "LD_AUDIT");

	found->size += text_length(entry) + 8;
	if (audit && !found->audit)
		found->audit = audit;
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		const char *value = env_value(entry, env_variables[i].name);

		if (value && !found->value[i])
			found->value[i] = value;
	}
}

static bool texts_open(size_t size)
{
	keep.texts = TEXT_ON(keep.small);
	if (size <= sizeof keep.small)
		return true;
	keep.texts.buffer = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	keep.texts.size = size;
	return !sys_is_error(keep.texts.buffer);
}

static void collect(const struct env_block *block)
{
	struct found found = { .size = sizeof AUDIT SECURE_AUDIT };
	const char *entry;
	size_t cursor = 0;

	while ((entry = env_next(block, &cursor))) {
		if (may_be_ours(*entry))
			found_note(&found, entry);
	}
	env_limits_load(&found.limits, block);
	if (!texts_open(found.size))
		return;
	if (found.audit)
		add_audit(found.audit);
	else if (program_auxv_value(AT_SECURE))
		add_audit(SECURE_AUDIT); /* ld.so took the variable away, after it had loaded us by this name */
	add_limits(&found.limits);
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		if (found.value[i])
			add_variable(i, found.value[i]);
	}
}

/* ---- judging ---- */

/* The device that entry sets a limit for, EVERY_DEVICE, or NO_DEVICE; *value is behind its '='. */
static int limit_entry(const char *entry, const char **value)
{
	struct env_limits one = { 0 };

	env_limits_add(&one, entry, LIMIT);
	if (!one.any)
		return NO_DEVICE;
	if (one.global) {
		*value = one.global;
		return EVERY_DEVICE;
	}
	for (int i = 0; i < ENV_DEVICES; i++) {
		if (one.indexed[i]) {
			*value = one.indexed[i];
			return i;
		}
	}
	return NO_DEVICE;
}

static bool is_within(const char *text, uint64_t ceiling)
{
	uint64_t bytes = 0;

	return memory_size_parse(text, &bytes) && bytes && (!ceiling || bytes <= ceiling);
}

static const char *limit_value(const char *entry)
{
	const char *value = NULL;
	int device = limit_entry(entry, &value);
	const struct ceiling *ceiling = ceiling_of(device);

	if (device == NO_DEVICE || !ceiling->bytes || is_within(value, ceiling->bytes))
		return NULL;
	return ceiling->text;
}

/* The pinned variable that entry sets to another value than ours, or ENV_VARIABLE_COUNT. */
static unsigned pinned_otherwise(const char *entry)
{
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		const char *value = keep.pinned[i] ? env_value(entry, env_variables[i].name) : NULL;

		if (value)
			return text_equal(value, keep.pinned[i]) ? ENV_VARIABLE_COUNT : i;
	}
	return ENV_VARIABLE_COUNT;
}

static const char *child_value(const char *entry)
{
	unsigned variable;

	if (*entry != 'H' && *entry != 'A')
		return NULL;
	if (text_starts(entry, LIMIT))
		return limit_value(entry);
	variable = pinned_otherwise(entry);
	return variable < ENV_VARIABLE_COUNT ? keep.pinned[variable] : NULL;
}

/* Limits need no such care: a shell that was given more may hand on less. */
static const char *own_assignment(const char *entry)
{
	unsigned variable = pinned_otherwise(entry);

	if (variable == ENV_VARIABLE_COUNT)
		return NULL;
	return keep.pinned[variable] - text_length(env_variables[variable].name) - 1;
}

/* A device's own limit stays away where the child's limit for all is smaller: it would come before that one. */
static bool is_needless(unsigned index, const char *const *given)
{
	struct env_block block = { .pointers = given };
	int device = keep.device[index];
	const char *all;

	if (device < 0 || !given)
		return false;
	all = env_find(&block, LIMIT);
	return all && is_within(all, ceiling_of(device)->bytes);
}

static void note_overridden(void)
{
	__atomic_store_n(&keep.is_overridden, 1, __ATOMIC_RELAXED);
	keep_note_slot();
	if (!__atomic_exchange_n(&keep.is_logged, 1, __ATOMIC_RELAXED))
		LOG(LOG_WARN, "a program was to be started with more than this one was given; it gets the same");
}

static const struct exec_judge judge = {
	.value = child_value,
	.own = own_assignment,
	.is_needless = is_needless,
	.note_overridden = note_overridden,
	.is_exempt = exempt_is_program,
};

void keep_init(void)
{
	struct env_block block = { .pointers = program_initial_environment() };

	if (!block.pointers || keep.is_made)
		return;
	keep.is_made = true;
	collect(&block);
	exec_keep_init(keep.assignments, keep.count);
	exec_keep_judge(&judge);
}

void keep_note_slot(void)
{
	if (__atomic_load_n(&keep.is_overridden, __ATOMIC_RELAXED) && gate_ledger())
		ledger_note_reason(gate_ledger(), LEDGER_REASON_CHILD_RAISE_IGNORED);
}
