/* Any bytes as the environment of the pod and of the process.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined test/fuzz/fuzz_environment.c -o fuzz_environment &&
 *	./fuzz_environment -dict=test/fuzz/environment.dict test/fuzz/corpus/environment
 *
 * Entries end with a newline here, a line "--" ends the pod's block and begins the process's.
 */
#include "fuzz.h"

#include "../../src/hip/env_policy.h"

enum { MOST_ENTRIES = 256 };

/* The block as text and as pointers: both must say the same. */
struct both {
	struct env_block text, pointers;
	const char *entry[MOST_ENTRIES + 1];
};

static bool split(struct both *b, char *text, size_t size)
{
	unsigned n = 0;

	for (size_t i = 0; i < size; i++) {
		if (text[i] == '\n')
			text[i] = 0;
	}
	b->text = (struct env_block){ .text = text, .size = size };
	for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
		if (n == MOST_ENTRIES)
			return false;
		b->entry[n++] = text + at;
	}
	b->entry[n] = NULL;
	b->pointers = (struct env_block){ .pointers = b->entry };
	return true;
}

static const char *find(const struct both *b, const char *name)
{
	size_t length = strlen(name);

	for (unsigned i = 0; b->entry[i]; i++) {
		if (!strncmp(b->entry[i], name, length) && b->entry[i][length] == '=')
			return b->entry[i] + length + 1;
	}
	return NULL;
}

static void check_values(const struct env_policy *p, const struct both *pod, const struct both *own)
{
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		const char *pods = find(pod, env_variables[i].name), *mine = find(own, env_variables[i].name);
		const char *expected = env_variables[i].treatment == ENV_PINNED ? (pods ? pods : mine) :
										   (mine ? mine : pods);

		if (i == ENV_HSA_CU_MASK_SKIP_INIT && p->value[ENV_HSA_CU_MASK])
			expected = "";
		must(p->value[i] == expected || (expected && p->value[i] && !strcmp(p->value[i], expected)),
		     "a variable has the wrong value");
	}
}

/* Whatever the process says, its limit is none where the pod sets none or at most the pod's. */
static void check_limits(const struct env_policy *p, const struct env_policy *alone)
{
	for (unsigned i = 0; i < ENV_DEVICES; i++) {
		if (alone->pod_has_limits)
			must(p->limit[i] == alone->limit[i], "the process changed its pod's limit");
		must(!p->own_limit[i] || !p->limit[i] || p->own_limit[i] < p->limit[i], "a limit of its own that is higher");
		must(p->limited || (!p->limit[i] && !p->own_limit[i]), "limited, and does not know");
	}
}

static void check_numbering(const struct env_policy *p, const struct both *own)
{
	struct env_numbering current = env_numbering_of(&own->text);

	for (unsigned i = 0; i < ENV_DEVICES; i++)
		must(env_device_index(&p->origin, &current, i) < ENV_DEVICES, "a device beyond all");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct both none;
	static struct both pod, own;
	char *text = fuzz_text(data, size), *middle = strstr(text, "\n--\n"), *second;
	size_t length = strlen(text), first = middle ? (size_t)(middle - text) : length;
	struct env_policy p = { 0 }, same = { 0 }, alone = { 0 };

	/* on a heap block of its own, with a NUL behind */
	second = fuzz_text((uint8_t *)(middle ? middle + 4 : text + length), middle ? length - first - 4 : 0);
	text[first] = 0;
	if (split(&pod, text, first) && split(&own, second, strlen(second))) {
		env_policy_load(&p, &pod.text, &own.text);
		env_policy_load(&same, &pod.pointers, &own.pointers);
		must(!memcmp(&p, &same, sizeof p), "the two kinds of block differ");
		env_policy_load(&alone, &pod.text, &none.text);
		check_values(&p, &pod, &own);
		check_limits(&p, &alone);
		check_numbering(&p, &own);
	}
	free(second);
	free(text);
	return 0;
}
