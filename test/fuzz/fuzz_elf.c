/* Fuzzes what is read from and rewritten in a loaded object.
 *
 * A sound object in memory, with the input laid over its dynamic section (first 256 bytes) and its tables
 *(the rest) by exclusive or, so that the empty input is sound and each bit set is one bit of damage. The
 *guard page behind the object and the sanitizers are the judges; and what is not patched must be untouched.
 *
 *	clang -g -fsanitize=fuzzer,address,undefined -DELF_PATCH_TEST test/fuzz/fuzz_elf.c src/loader/elf_*.c
 */
#define _GNU_SOURCE
#include "../../src/loader/elf_object.h"
#include "../fake_object.h"

enum { WORDS_OF_CHOICE = 1, DYNAMIC_BYTES = FAKE_DYNAMIC * sizeof(Elf64_Dyn) };

static unsigned char choice;

bool elf_patch_permits(enum patch_way way)
{
	return !(choice & (way == PATCH_COPY ? 0x20 : 0x10));
}

static const struct fake_symbol symbols[] = {
    {"elsewhere", 0x111, STT_FUNC, SHN_UNDEF, 1},
    {"alpha", 0x222, STT_FUNC, 7, 2 | 0x8000},
    {"beta", 0x333, STT_FUNC, 7, 2},
    {"alpha", 0x444, STT_FUNC, 7, 3},
    {"gamma", 0x555, STT_GNU_IFUNC, 7, 2},
    {"value", 0x666, STT_OBJECT, 7, 2},
};

static void lay_over(unsigned char *to, size_t room, const uint8_t **input, size_t *size)
{
	for (size_t i = 0; i < room && *size; i++, (*size)--)
		to[i] ^= *(*input)++;
}

static void wrapper(void)
{
}

static void use(struct fake *f)
{
	static void *originals[4];
	static const struct patch list[] = {{"alpha", (void *)wrapper, &originals[0]},
					    {"beta", (void *)wrapper, &originals[1]},
					    {"gamma", (void *)wrapper, &originals[2]},
					    {"alpha", (void *)wrapper, &originals[3]}};
	unsigned char before[3 * FAKE_PAGE];
	struct elf_object object;
	struct patch_batch batch = {.count = 0};
	struct patch_result older, result;

	memset(originals, 0, sizeof originals);
	memcpy(before, f->image, sizeof before);
	if (!elf_object_load(&object, &f->map))
		return;
	elf_object_variable(&object, "value");
	elf_object_address(&object, "elsewhere");
	patch_batch_add_older(&batch, list + 3, 1, &older);
	patch_batch_add(&batch, list, 3, &result);
	elf_patch_batch(&object, &batch);
	if (result.bound > result.wanted || result.wanted > 3)
		abort();
	if ((result.way == PATCH_NONE || result.way == PATCH_SYMBIND) &&
	    memcmp(before, f->image, sizeof before))
		abort();
	elf_patch_undo(&older);
	elf_patch_undo(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct fake *f;
	int kind;

	if (size < WORDS_OF_CHOICE)
		return 0;
	choice = *input++;
	size--;
	kind = choice & (FAKE_GNU | FAKE_SYSV | FAKE_EXECUTABLE | FAKE_READ_ONLY_DYNAMIC);
	f = fake_make(kind, symbols, sizeof symbols / sizeof *symbols);
	lay_over((unsigned char *)f->dynamic, DYNAMIC_BYTES, &input, &size);
	lay_over(f->image + FAKE_PAGE, FAKE_PAGE, &input, &size);
	fake_protect(f, kind);
	use(f);
	fake_free(f);
	return 0;
}
