/* What the environment says: limits, mask, priority, numbering of devices.
 *
 * Two blocks count: the pod specification (the environment PID 1 was started with) and the block this process was started
 * with. Where the pod specification speaks it wins; a process may only lower its own limit. Pure functions over blocks
 * of text; callable anywhere.
 */
#ifndef AMVGPU_ENV_POLICY_H
#define AMVGPU_ENV_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory_size.h"
#include "../sys/text.h"

enum { ENV_DEVICES = 64 };

/* One environment: NUL-separated text, or the pointers a program is started with, or neither (empty). */
struct env_block {
	const char *text;
	size_t size;
	const char *const *pointers;
	size_t mapped; /* of the memory that text is in, if it is a mapping to be given back (env_read.h) */
};

/* The value if entry is "name=value", else NULL. */
static inline const char *env_value(const char *entry, const char *name)
{
	while (*name && *entry == *name) {
		entry++;
		name++;
	}
	return !*name && *entry == '=' ? entry + 1 : NULL;
}

/* The entries of a block in turn: *cursor starts at 0; NULL at the end. The text's last entry counts only as far as it
 * goes (the caller keeps a NUL behind the text). */
static inline const char *env_next(const struct env_block *block, size_t *cursor)
{
	const char *entry;

	if (block->pointers)
		return block->pointers[*cursor] ? block->pointers[(*cursor)++] : NULL;
	if (*cursor >= block->size)
		return NULL;
	entry = block->text + *cursor;
	*cursor += text_length(entry) + 1;
	return entry;
}

/* The first value of name, as getenv finds it; NULL if there is none. */
static inline const char *env_find(const struct env_block *block, const char *name)
{
	const char *entry, *value;
	size_t cursor = 0;

	while ((entry = env_next(block, &cursor))) {
		if ((value = env_value(entry, name)))
			return value;
	}
	return NULL;
}

enum env_treatment {
	ENV_PINNED,   /* the pod's value, whatever the process sets */
	ENV_RESTORED, /* the pod's value where the process has lost it */
};

/* The variables we care for, each once. */
#define ENV_VARIABLES(ENV)                                                                                             \
	ENV(HSA_CU_MASK, ENV_PINNED)                                                                                   \
	ENV(HSA_CU_MASK_SKIP_INIT, ENV_PINNED)                                                                         \
	ENV(AMD_TASK_PRIORITY, ENV_PINNED)                                                                             \
	ENV(HIP_OVERSUBSCRIBE, ENV_PINNED)                                                                             \
	ENV(ROCR_VISIBLE_DEVICES, ENV_RESTORED)                                                                        \
	ENV(HIP_VISIBLE_DEVICES, ENV_RESTORED)                                                                         \
	ENV(ROC_GLOBAL_CU_MASK, ENV_RESTORED)                                                                          \
	ENV(HIP_DEVICE_MEMORY_SHARED_CACHE, ENV_RESTORED)                                                              \
	ENV(LIBHIP_LOG_LEVEL, ENV_RESTORED)

enum env_variable {
#define ENV(name, treatment) ENV_##name,
	ENV_VARIABLES(ENV)
#undef ENV
	ENV_VARIABLE_COUNT,
};

static const struct {
	char name[32];
	enum env_treatment treatment;
} env_variables[] = {
#define ENV(name, treatment) { #name, treatment },
	ENV_VARIABLES(ENV)
#undef ENV
};

/* The limit variables of one block, collected in one pass: blocks of a megabyte exist. */
struct env_limits {
	bool any;
	const char *global;		 /* HIP_DEVICE_MEMORY_LIMIT */
	const char *indexed[ENV_DEVICES]; /* HIP_DEVICE_MEMORY_LIMIT_<i> */
};

/* The first entry of a name counts, as for getenv. */
static inline void env_limits_note(const char **place, const char *value)
{
	if (!*place)
		*place = value;
}

static inline void env_limits_add(struct env_limits *limits, const char *entry, const char *prefix)
{
	uint64_t index;

	if (!text_starts(entry, prefix))
		return;
	entry += text_length(prefix);
	if (*entry == '=') {
		env_limits_note(&limits->global, entry + 1);
		limits->any = true;
	} else if (*entry++ == '_' && (*entry != '0' || entry[1] == '=') && text_number(&entry, &index) &&
		   *entry == '=' && index < ENV_DEVICES) {
		env_limits_note(&limits->indexed[index], entry + 1);
		limits->any = true;
	}
}

/* Zeroed by the caller. CUDA_DEVICE_MEMORY_LIMIT, which older pods carry, counts where no HIP name is there at all. */
static inline void env_limits_load(struct env_limits *limits, const struct env_block *block)
{
	static const char prefixes[][28] = { "HIP_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT" };

	for (unsigned i = 0; i < 2 && !limits->any; i++) {
		const char *entry;
		size_t cursor = 0;

		while ((entry = env_next(block, &cursor)))
			env_limits_add(limits, entry, prefixes[i]);
	}
}

/* The text that sets the device's limit: indexed before global. NULL: none. */
static inline const char *env_limit_text(const struct env_limits *limits, unsigned index)
{
	return limits->indexed[index] ? limits->indexed[index] : limits->global;
}

/* 0 high, 1 low (any larger number), -1: leave the runtime's default. */
static inline int env_priority_parse(const char *text)
{
	uint64_t value;

	if (!text || !text_number(&text, &value) || *text)
		return -1;
	return value ? 1 : 0;
}

static inline bool env_is_true(const char *text)
{
	static const char word[] = "true";
	unsigned i = 0;

	if (!text)
		return false;
	if (text_equal(text, "1"))
		return true;
	while (word[i] && (text[i] | 0x20) == word[i])
		i++;
	return !word[i] && !text[i];
}

/* The list of one *_VISIBLE_DEVICES variable; NULL is "all, in order". */
struct env_token {
	const char *text; /* NULL: the device of this number */
	size_t length;
	uint64_t number;
};

static inline bool env_token_at(const char *list, unsigned n, struct env_token *token)
{
	if (!list) {
		*token = (struct env_token){ NULL, 0, n };
		return true;
	}
	for (;; list++) {
		size_t length = 0;
		const char *end;

		while (*list == ' ')
			list++;
		while (list[length] && list[length] != ',')
			length++;
		end = list + length;
		while (length && list[length - 1] == ' ')
			length--;
		if (!length)
			return false; /* an empty entry ends the list, as in the runtimes */
		if (!n--) {
			const char *digits = list;
			uint64_t number;

			if (text_number(&digits, &number) && digits == list + length)
				*token = (struct env_token){ NULL, 0, number };
			else
				*token = (struct env_token){ list, length, 0 };
			return true;
		}
		if (!*end)
			return false;
		list = end;
	}
}

static inline bool env_token_equal(const struct env_token *a, const struct env_token *b)
{
	if (!a->text || !b->text)
		return !a->text && !b->text && a->number == b->number;
	if (a->length != b->length)
		return false;
	for (size_t i = 0; i < a->length; i++) {
		if (a->text[i] != b->text[i])
			return false;
	}
	return true;
}

/* How one environment numbers devices. HIP's list counts in the numbering that ROCr's leaves. */
struct env_numbering {
	const char *rocr;
	const char *hip;
};

static inline struct env_numbering env_numbering_of(const struct env_block *block)
{
	struct env_numbering n = { env_find(block, "ROCR_VISIBLE_DEVICES"), env_find(block, "HIP_VISIBLE_DEVICES") };

	if (!n.hip)
		n.hip = env_find(block, "CUDA_VISIBLE_DEVICES"); /* HIP takes it as a synonym */
	return n;
}

static inline bool env_device_token(const struct env_numbering *n, unsigned ordinal, struct env_token *token)
{
	if (!env_token_at(n->hip, ordinal, token))
		return false;
	return token->text || token->number >= ENV_DEVICES || env_token_at(n->rocr, (unsigned)token->number, token);
}

/* The index, in the numbering of origin, of the device that current calls ordinal. A device that origin does not name
 * keeps its ordinal. */
static inline unsigned env_device_index(const struct env_numbering *origin, const struct env_numbering *current,
					unsigned ordinal)
{
	struct env_token wanted, token;

	if (env_device_token(current, ordinal, &wanted)) {
		for (unsigned i = 0; i < ENV_DEVICES && env_device_token(origin, i, &token); i++) {
			if (env_token_equal(&wanted, &token))
				return i;
		}
	}
	return ordinal;
}

struct env_policy {
	uint64_t limit[ENV_DEVICES];	 /* the pod's; 0: none */
	uint64_t own_limit[ENV_DEVICES]; /* a lower one of this process; 0: none */
	bool limited;			 /* some device has a limit */
	bool limit_raise_ignored;	 /* this process asks for more than its pod has */
	const char *invalid;		 /* the first limit value that could not be read */
	bool pod_has_limits;		 /* the limits are the pod specification's, not this process's own */
	struct env_numbering origin;	 /* in which the limits count */
	const char *value[ENV_VARIABLE_COUNT]; /* what holds: the pod's or else this process's; NULL: unset */
	bool from_pod[ENV_VARIABLE_COUNT];
	int priority; /* -1 untouched, 0 high, 1 low */
	bool oversubscribe;
};

static inline void env_policy_load_limit(struct env_policy *p, unsigned index, const char *origin, const char *own)
{
	uint64_t mine;

	if (origin && !memory_size_parse(origin, &p->limit[index]) && !p->invalid)
		p->invalid = origin;
	if (p->pod_has_limits && own && memory_size_parse(own, &mine) && mine) {
		if (!p->limit[index] || mine < p->limit[index])
			p->own_limit[index] = mine;
		else if (mine > p->limit[index])
			p->limit_raise_ignored = true;
	}
	if (p->limit[index] || p->own_limit[index])
		p->limited = true;
}

static inline void env_policy_load_limits(struct env_policy *p, const struct env_block *pod,
					  const struct env_block *own)
{
	struct env_limits limits[2] = { 0 };

	env_limits_load(&limits[0], pod);
	env_limits_load(&limits[1], own);
	p->pod_has_limits = limits[0].any;
	p->origin = env_numbering_of(p->pod_has_limits ? pod : own);
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		const char *mine = env_limit_text(&limits[1], i);

		env_policy_load_limit(p, i, p->pod_has_limits ? env_limit_text(&limits[0], i) : mine, mine);
	}
}

/* Zeroed by the caller. Keeps pointers into both blocks. */
static inline void env_policy_load(struct env_policy *p, const struct env_block *pod, const struct env_block *own)
{
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		const char *pods = env_find(pod, env_variables[i].name);
		const char *mine = env_find(own, env_variables[i].name);
		bool pods_holds = pods && (env_variables[i].treatment == ENV_PINNED || !mine);

		p->value[i] = pods_holds ? pods : mine;
		p->from_pod[i] = pods_holds;
	}
	if (p->value[ENV_HSA_CU_MASK]) /* it would undo the mask */
		p->value[ENV_HSA_CU_MASK_SKIP_INIT] = "";
	p->priority = env_priority_parse(p->value[ENV_AMD_TASK_PRIORITY]);
	p->oversubscribe = env_is_true(p->value[ENV_HIP_OVERSUBSCRIBE]);
	env_policy_load_limits(p, pod, own);
}

#endif
