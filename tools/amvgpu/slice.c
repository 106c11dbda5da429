/* A slice as the command line describes it, and the environment that makes a program live in it. */
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amvgpu.h"
#include "library.h"
#include "mask_check.h"
#include "region.h"
#include "slice.h"

enum {
	OPTION_MEMORY = 'm',
	OPTION_PRIORITY = 'P',
	OPTION_CUS = 'c',
	OPTION_OVERSUBSCRIBE = 'o',
	OPTION_NAME = 'n',
	OPTION_LIBRARY = 'l'
};

static const struct argp_option options[] = {
    {"memory", OPTION_MEMORY, "SIZE[,DEVICE:SIZE...]", 0,
     "the limit of every device, and of single ones: digits with K, M, G or T; 0 is no limit", 1},
    {"priority", OPTION_PRIORITY, "high|low", 0, "the priority of its queues", 1},
    {"cus", OPTION_CUS, "DEVICE:LIST[;...]", 0, "the compute units it may use, as in 0:0-15,32-47;1:0-15", 1},
    {"oversubscribe", OPTION_OVERSUBSCRIBE, NULL, 0, "let it have more than the card has: managed memory", 1},
    {"name", OPTION_NAME, "N", 0, "programs run with one name share one slice", 1},
    {"library", OPTION_LIBRARY, "PATH", 0, "the libamvgpu.so to use", 1},
    {0},
};

/* One part of --memory: "4G" or "1:8G". NULL, or what is wrong. */
static const char *parse_limit(struct slice *slice, const char *part)
{
	const char *size = strchr(part, ':');
	char *place = slice->limit_all;
	uint64_t bytes, device;

	if (size) {
		if (!text_number(&part, &device) || part != size || device >= ENV_DEVICES)
			return "a device is a number up to 63";
		place = slice->limit[device];
		size++;
	} else {
		size = part;
	}
	if (!memory_size_parse(size, &bytes) || strlen(size) >= sizeof slice->limit_all || strchr(size, '\n'))
		return "a size is digits with at most one of K, M, G, T behind them, as in 4G or 512m (no "
		       "fractions, no 'GiB')";
	if (*place)
		return "a device is named twice";
	strcpy(place, size);
	return NULL;
}

static void parse_memory(struct slice *slice, const char *argument, struct argp_state *state)
{
	char *copy = strdup(argument), *rest = copy, *part;

	*slice->limit_all = 0;
	memset(slice->limit, 0, sizeof slice->limit);
	slice->has_memory = true;
	while ((part = strsep(&rest, ","))) {
		const char *error = parse_limit(slice, part);

		if (error)
			argp_error(state, "--memory %s: %s", argument, error);
	}
	free(copy);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct slice *slice = state->input;
	const char *error;

	switch (key) {
	case OPTION_MEMORY:
		parse_memory(slice, argument, state);
		return 0;
	case OPTION_PRIORITY:
		slice->priority = !strcmp(argument, "high") ? 0 : !strcmp(argument, "low") ? 1 : -1;
		if (slice->priority < 0)
			argp_error(state, "--priority is high or low, not '%s'", argument);
		return 0;
	case OPTION_CUS:
		if ((error = mask_check(argument)))
			argp_error(state, "--cus %s: %s", argument, error);
		slice->cus = argument;
		return 0;
	case OPTION_OVERSUBSCRIBE:
		slice->oversubscribe = true;
		return 0;
	case OPTION_NAME:
		if (!region_name_is_valid(argument))
			argp_error(state, "--name takes letters, digits, '-', '_' and '.', not '%s'",
				   argument);
		slice->name = argument;
		return 0;
	case OPTION_LIBRARY:
		slice->library = argument;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp slice_argp = {.options = options, .parser = parse};

/* value, put first in the colon-separated list of a variable, where it is not in it yet. */
static void put_first(const char *variable, const char *value)
{
	const char *old = getenv(variable);
	char *merged;

	if (!old || !*old) {
		setenv(variable, value, 1);
		return;
	}
	for (const char *p = old; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		size_t n = strcspn(p, ":");

		if (n == strlen(value) && !strncmp(p, value, n))
			return;
	}
	if (asprintf(&merged, "%s:%s", value, old) > 0) {
		setenv(variable, merged, 1);
		free(merged);
	}
}

/* With an audit library glibc fixes the size of static TLS before it has mapped the program's libraries; 8192
 * lets libraries such as jemalloc start, and threads with 16 KiB of stack too. A larger value of the user's
 * stays. */
#define TLS_TUNABLE "glibc.rtld.optional_static_tls"
#define TLS_BYTES 8192

static void set_tunable(void)
{
	const char *old = getenv("GLIBC_TUNABLES");
	char *copy = strdup(old ? old : ""), *rest = copy, *part;
	char *merged = malloc(strlen(copy) + 64);

	if (!copy || !merged)
		return;
	*merged = 0;
	while ((part = strsep(&rest, ":"))) {
		if (!strncmp(part, TLS_TUNABLE "=", sizeof TLS_TUNABLE)) {
			if (strtoull(part + sizeof TLS_TUNABLE, NULL, 0) >= TLS_BYTES)
				goto done;
			continue;
		}
		if (*part)
			strcat(strcat(merged, part), ":");
	}
	sprintf(merged + strlen(merged), TLS_TUNABLE "=%d", TLS_BYTES);
	setenv("GLIBC_TUNABLES", merged, 1);
done:
	free(merged);
	free(copy);
}

void slice_set_loader(const char *library)
{
	put_first("LD_AUDIT", library);
	set_tunable();
	/* Before 2.35 any audit library makes every call through the PLT cost 170 ns, unless it is bound at
	 * start. */
	if (strverscmp(gnu_get_libc_version(), "2.35") < 0)
		setenv("LD_BIND_NOW", "1", 1);
}

void slice_set_limits(const struct slice *slice)
{
	char name[40];

	for (unsigned i = 0; slice->has_memory && i < ENV_DEVICES; i++) {
		snprintf(name, sizeof name, "HIP_DEVICE_MEMORY_LIMIT_%u", i);
		if (*slice->limit[i])
			setenv(name, slice->limit[i], 1);
		else
			unsetenv(name);
	}
	if (*slice->limit_all)
		setenv("HIP_DEVICE_MEMORY_LIMIT", slice->limit_all, 1);
	else if (slice->has_memory)
		unsetenv("HIP_DEVICE_MEMORY_LIMIT");
	if (slice->cus)
		setenv("HSA_CU_MASK", slice->cus, 1);
	if (slice->priority >= 0)
		setenv("AMD_TASK_PRIORITY", slice->priority ? "1" : "0", 1);
	if (slice->oversubscribe)
		setenv("HIP_OVERSUBSCRIBE", "true", 1);
}
