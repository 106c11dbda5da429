/* Any text as the lists of visible devices of the pod and of the process, a line each: ROCR and HIP of the one, then of the other.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined test/fuzz/fuzz_visible.c -o fuzz_visible && ./fuzz_visible test/fuzz/corpus/visible
 */
#include "fuzz.h"

#include "../../src/hip/env_policy.h"

static char *line(char **rest)
{
	char *start = *rest, *end = start ? strchr(start, '\n') : NULL;

	*rest = end ? end + 1 : NULL;
	if (end)
		*end = 0;
	return start && strcmp(start, "-") ? start : NULL; /* "-": not set */
}

/* Tokens are numbered without gaps, lie inside of their list and have no comma or edge of blanks. */
static void check_list(const char *list)
{
	struct env_token token;
	bool is_over = false;

	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		bool found = env_token_at(list, i, &token);

		must(!(found && is_over), "a token behind the end");
		is_over |= !found;
		if (!found || !token.text)
			continue;
		must(token.text >= list && token.text + token.length <= list + strlen(list), "a token outside of its list");
		must(token.length && *token.text != ' ' && token.text[token.length - 1] != ' ', "blanks or nothing");
		must(!memchr(token.text, ',', token.length), "two in one");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text;
	struct env_numbering origin, current;

	origin.rocr = line(&rest);
	origin.hip = line(&rest);
	current.rocr = line(&rest);
	current.hip = line(&rest);
	check_list(origin.rocr);
	check_list(origin.hip);
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		struct env_token a, b;
		unsigned index = env_device_index(&origin, &current, i);

		must(index < ENV_DEVICES, "a device beyond all");
		if (!env_device_token(&current, i, &a) || !env_device_token(&origin, index, &b))
			must(index == i, "an unknown device has moved");
		else
			must(index == i || env_token_equal(&a, &b), "another device");
	}
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		struct env_token token;

		if (env_device_token(&origin, i, &token))
			must(env_device_index(&origin, &origin, i) <= i, "a numbering does not find itself");
	}
	free(text);
	return 0;
}
