#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

static const char *failure_parse(const char *text, size_t length, struct failure *failure)
{
	char *end = (char *)text + length;

	failure->first = *end == ':' ? strtoul(end + 1, &end, 10) : 1;
	failure->and_later = *end == '+';
	end += failure->and_later;
	if (*end == ':')
		failure->code = strtol(end + 1, &end, 0);
	end += strcspn(end, ",");
	return end + (*end == ',');
}

static int failure_find(const char *name, size_t length, const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == length && !memcmp(names[i], name, length))
			return i;
	fprintf(stderr, "softgpu: SOFTGPU_FAIL names no function: %.*s\n", (int)length, name);
	abort();
}

bool failure_load(const char *orders, const char *prefix, const char *const *names, int count,
		  struct failure *failures, int code)
{
	bool found = false;

	while (*orders) {
		struct failure failure = {.code = code};
		size_t length = strcspn(orders, ":,");
		const char *name = orders;

		orders = failure_parse(orders, length, &failure);
		if (strncmp(name, prefix, strlen(prefix)))
			continue;
		failures[failure_find(name, length, names, count)] = failure;
		found = true;
	}
	return found;
}

int failure_due(struct failure *failure)
{
	unsigned call;

	if (!failure->first)
		return 0;
	call = atomic_fetch_add(&failure->calls, 1) + 1;
	return call == failure->first || (failure->and_later && call > failure->first) ? failure->code : 0;
}
