/* What is read from a loaded object, and what is rewritten in it.
 *
 *	gcc -g -fsanitize=address,undefined -DELF_PATCH_TEST -o T test/test_elf_object.c src/loader/elf_*.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#include "../src/loader/elf_object.h"
#include "fake_object.h"
#include "test.h"

enum { DEFINED = 7, HIDDEN_VERSION = 0x8000 };

static bool forbidden[PATCH_SYMBIND + 1];

bool elf_patch_permits(enum patch_way way)
{
	return !forbidden[way];
}

static const struct fake_symbol usual[] = {
    {"elsewhere", 0x111, STT_FUNC, SHN_UNDEF, 1}, {"alpha", 0x222, STT_FUNC, DEFINED, 2},
    {"beta", 0x333, STT_FUNC, DEFINED, 2},        {"value", 0x444, STT_OBJECT, DEFINED, 2},
    {"gamma", 0x555, STT_FUNC, DEFINED, 2},
};

static struct fake *usual_fake(int kind)
{
	return fake_make(kind, usual, sizeof usual / sizeof *usual);
}

static void *at(const struct fake *f, uint64_t value)
{
	return (void *)((uintptr_t)f->image + value);
}

static void wrapper_a(void)
{
}

static void wrapper_b(void)
{
}

static void *original_a, *original_b;

static const struct patch both[] = {
    {"alpha", (void *)wrapper_a, &original_a},
    {"beta", (void *)wrapper_b, &original_b},
};

static void reset(void)
{
	original_a = original_b = NULL;
	memset(forbidden, 0, sizeof forbidden);
}

/* The protections of the fake's three pages, as the kernel has them. */
static void protections(const struct fake *f, char text[3][5])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], flags[5];
	unsigned long start, end;

	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, flags) != 3)
			continue;
		for (unsigned i = 0; i < 3; i++) {
			unsigned long page = (unsigned long)f->image + i * FAKE_PAGE;

			if (page >= start && page < end)
				strcpy(text[i], flags);
		}
	}
	fclose(maps);
}

static void check_lookup(int kind)
{
	struct fake *f = usual_fake(kind);
	struct elf_object object;

	fake_protect(f, kind);
	CHECK(elf_object_load(&object, &f->map));
	CHECK(elf_object_address(&object, "alpha") == at(f, 0x222));
	CHECK(elf_object_address(&object, "gamma") == at(f, 0x555));
	CHECK(elf_object_address(&object, "delta") == NULL);
	CHECK(elf_object_address(&object, "alph") == NULL);
	CHECK(elf_object_find(&object, "alpha", elf_object_find(&object, "alpha", NULL)) == NULL);
	CHECK_TEXT(object.soname, "libfake.so.1");
	fake_free(f);
}

TEST(a_function_is_found_through_the_gnu_hash_table)
{
	check_lookup(FAKE_GNU);
}

TEST(a_function_is_found_through_the_sysv_hash_table)
{
	check_lookup(FAKE_SYSV);
}

TEST(a_function_is_found_when_ld_so_could_not_relocate_the_dynamic_section)
{
	check_lookup(FAKE_GNU | FAKE_READ_ONLY_DYNAMIC);
}

TEST(an_undefined_symbol_with_an_address_is_no_definition)
{
	struct fake *f = usual_fake(FAKE_GNU | FAKE_SYSV);
	struct elf_object object;

	f->gnu_hash[1] = f->gnu_hash[6] = f->hash[2] = 1; /* also if a table lists it */
	CHECK(elf_object_load(&object, &f->map));
	CHECK(elf_object_find(&object, "elsewhere", NULL) == NULL);
	object.gnu_hash = NULL;
	CHECK(elf_object_find(&object, "elsewhere", NULL) == NULL);
	fake_free(f);
}

TEST(a_variable_is_not_a_function_and_a_function_is_not_a_variable)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	CHECK(elf_object_load(&object, &f->map));
	CHECK(elf_object_find(&object, "value", NULL) == NULL);
	CHECK(elf_object_variable(&object, "value") == at(f, 0x444));
	CHECK(elf_object_variable(&object, "alpha") == NULL);
	fake_free(f);
}

static const struct fake_symbol versions[] = {
    {"alpha", 0x100, STT_FUNC, DEFINED, 2 | HIDDEN_VERSION},
    {"alpha", 0x200, STT_FUNC, DEFINED, 3 | HIDDEN_VERSION},
    {"beta", 0x300, STT_FUNC, DEFINED, 2 | HIDDEN_VERSION},
    {"alpha", 0x200, STT_FUNC, DEFINED, 4},
    {"beta", 0x300, STT_FUNC, DEFINED, 4},
};

TEST(every_version_of_a_name_is_found_in_turn)
{
	struct fake *f = fake_make(FAKE_GNU, versions, 5);
	struct elf_object object;
	Elf64_Sym *s = NULL;
	unsigned found = 0;

	CHECK(elf_object_load(&object, &f->map));
	while ((s = elf_object_find(&object, "alpha", s)))
		found++;
	CHECK_EQ(found, 3);
	fake_free(f);
}

TEST(in_place_only_the_named_symbols_change_and_the_pages_are_as_protected_as_before)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;
	struct patch_result result;
	char before[3][5], after[3][5];

	reset();
	fake_protect(f, FAKE_GNU);
	protections(f, before);
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, both, 2);
	protections(f, after);
	CHECK_EQ(result.way, PATCH_IN_PLACE);
	CHECK_EQ(result.wanted, 2);
	CHECK_EQ(result.bound, 2);
	CHECK(original_a == at(f, 0x222) && original_b == at(f, 0x333));
	CHECK(elf_object_address(&object, "alpha") == (void *)wrapper_a);
	CHECK(elf_object_address(&object, "beta") == (void *)wrapper_b);
	CHECK(elf_object_address(&object, "gamma") == at(f, 0x555));
	CHECK_EQ(f->symbols[2].st_size, 8);
	for (unsigned i = 0; i < 3; i++)
		CHECK_TEXT(after[i], before[i]);
	CHECK_TEXT(after[1], "r--p");
	fake_free(f);
}

static void check_copy(int kind)
{
	struct fake *f = usual_fake(kind);
	struct elf_object object, again;
	struct patch_result result;
	Elf64_Sym before[FAKE_SYMBOLS];
	char pages[3][5];

	fake_protect(f, kind);
	memcpy(before, f->symbols, sizeof before);
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, both, 2);
	CHECK_EQ(result.way, PATCH_COPY);
	CHECK_EQ(result.bound, 2);
	CHECK(!memcmp(before, f->symbols, sizeof before));
	CHECK(fake_entry(f, DT_SYMTAB)->d_un.d_ptr == (uintptr_t)result.copy);
	CHECK_EQ(result.copy_size, 6 * sizeof(Elf64_Sym));
	CHECK(((Elf64_Sym *)result.copy)[2].st_value + (uintptr_t)f->image == (uintptr_t)wrapper_a);
	CHECK(!memcmp((Elf64_Sym *)result.copy + 4, f->symbols + 4, 2 * sizeof(Elf64_Sym)));
	protections(f, pages);
	CHECK_TEXT(pages[1], kind & FAKE_EXECUTABLE ? "r-xp" : "r--p");
	elf_patch_undo(&result);
	CHECK(result.copy == NULL);
	CHECK(!elf_object_load(&again, &f->map) || again.symbols != object.symbols);
	fake_free(f);
}

TEST(a_table_among_code_is_copied_and_its_pages_stay_executable_and_untouched)
{
	reset();
	check_copy(FAKE_GNU | FAKE_EXECUTABLE);
	check_copy(FAKE_SYSV | FAKE_EXECUTABLE);
	check_copy(FAKE_GNU | FAKE_SYSV | FAKE_EXECUTABLE);
}

TEST(where_pages_may_not_be_made_writable_the_table_is_copied)
{
	reset();
	forbidden[PATCH_IN_PLACE] = true;
	check_copy(FAKE_GNU);
}

TEST(a_table_among_code_is_patched_in_place_where_the_dynamic_section_is_read_only)
{
	int kind = FAKE_GNU | FAKE_EXECUTABLE | FAKE_READ_ONLY_DYNAMIC;
	struct fake *f = usual_fake(kind);
	struct elf_object object;
	char pages[3][5];

	reset();
	fake_protect(f, kind);
	CHECK(elf_object_load(&object, &f->map));
	CHECK_EQ(elf_patch(&object, both, 2).way, PATCH_IN_PLACE);
	CHECK(elf_object_address(&object, "alpha") == (void *)wrapper_a);
	protections(f, pages);
	CHECK_TEXT(pages[1], "r-xp");
	CHECK_TEXT(pages[2], "r--p");
	fake_free(f);
}

TEST(a_copy_is_readable_until_the_next_one_is_closed)
{
	struct fake *f = usual_fake(FAKE_GNU | FAKE_EXECUTABLE), *g = usual_fake(FAKE_GNU | FAKE_EXECUTABLE);
	struct elf_object object;
	struct patch_result first, second;
	unsigned char resident;
	void *copy;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	first = elf_patch(&object, both, 2);
	reset();
	CHECK(elf_object_load(&object, &g->map));
	second = elf_patch(&object, both, 2);
	copy = first.copy;
	elf_patch_undo(&first);
	CHECK(mincore(copy, FAKE_PAGE, &resident) == 0);
	elf_patch_undo(&second);
	CHECK(mincore(copy, FAKE_PAGE, &resident) != 0);
	fake_free(f);
	fake_free(g);
}

TEST(where_nothing_can_be_rewritten_nothing_is_and_la_symbind_is_asked_for)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;
	struct patch_result result;

	reset();
	forbidden[PATCH_IN_PLACE] = forbidden[PATCH_COPY] = true;
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, both, 2);
	CHECK_EQ(result.way, PATCH_SYMBIND);
	CHECK_EQ(result.wanted, 2);
	CHECK_EQ(result.bound, 0);
	CHECK(!original_a && !original_b);
	CHECK(elf_object_address(&object, "alpha") == at(f, 0x222));
	CHECK(elf_patch_symbind(both, 2, "alpha", 0x1222) == (void *)wrapper_a);
	CHECK(original_a == (void *)0x1222);
	CHECK(elf_patch_symbind(both, 2, "alpha", 0x1333) == NULL);
	CHECK(elf_patch_symbind(both, 2, "gamma", 0x1222) == NULL);
	fake_free(f);
}

TEST(an_object_that_exports_nothing_of_the_list_is_left_alone)
{
	static void *original;
	static const struct patch list[] = {{"omega", (void *)wrapper_a, &original}};
	struct fake *f = usual_fake(FAKE_GNU | FAKE_EXECUTABLE);
	struct elf_object object;
	struct patch_result result;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, list, 1);
	CHECK_EQ(result.way, PATCH_NONE);
	CHECK_EQ(result.wanted, 0);
	CHECK(!result.copy && !original);
	fake_free(f);
}

TEST(the_default_version_is_the_original_and_an_older_one_with_other_code_is_left_alone_and_told)
{
	struct fake *f = fake_make(FAKE_GNU, versions, 5);
	struct elf_object object;
	struct patch_result result;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, both, 2);
	CHECK_EQ(result.wanted, 2);
	CHECK_EQ(result.bound, 1);
	CHECK(original_a == at(f, 0x200) && original_b == at(f, 0x300));
	CHECK_EQ(f->symbols[1].st_value, 0x100);
	CHECK((void *)(f->symbols[2].st_value + f->map.l_addr) == (void *)wrapper_a);
	CHECK((void *)(f->symbols[4].st_value + f->map.l_addr) == (void *)wrapper_a);
	CHECK((void *)(f->symbols[3].st_value + f->map.l_addr) == (void *)wrapper_b);
	CHECK((void *)(f->symbols[5].st_value + f->map.l_addr) == (void *)wrapper_b);
	fake_free(f);
}

TEST(an_older_version_with_other_code_is_led_to_a_wrapper_of_its_own)
{
	static void *older;
	static const struct patch list[] = {{"alpha", (void *)wrapper_b, &older},
					    {"beta", (void *)wrapper_b, &older}};

	for (int kind = FAKE_GNU; kind <= (FAKE_GNU | FAKE_EXECUTABLE); kind += FAKE_EXECUTABLE) {
		struct fake *f = fake_make(kind, versions, 5);
		struct patch_batch batch = {.count = 0};
		struct patch_result first, second;
		struct elf_object object;

		reset();
		older = NULL;
		CHECK(elf_object_load(&object, &f->map));
		patch_batch_add_older(&batch, list, 2, &first);
		patch_batch_add(&batch, both, 2, &second);
		elf_patch_batch(&object, &batch);
		CHECK_EQ(first.wanted, 1);
		CHECK_EQ(first.bound, 1);
		CHECK_EQ(second.wanted, 2);
		CHECK_EQ(second.bound, 2);
		CHECK(original_a == at(f, 0x200) && older == at(f, 0x100));
		CHECK((void *)(object.symbols[1].st_value + f->map.l_addr) == (void *)wrapper_b);
		CHECK((void *)(object.symbols[2].st_value + f->map.l_addr) == (void *)wrapper_a);
		CHECK((void *)(object.symbols[4].st_value + f->map.l_addr) == (void *)wrapper_a);
		elf_patch_undo(&first);
		fake_free(f);
	}
}

TEST(a_name_without_an_older_version_is_not_wanted_in_one)
{
	static void *older;
	static const struct patch list[] = {{"beta", (void *)wrapper_b, &older}};
	struct fake *f = fake_make(FAKE_GNU, versions, 5);
	struct patch_batch batch = {.count = 0};
	struct patch_result result;
	struct elf_object object;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	patch_batch_add_older(&batch, list, 1, &result);
	elf_patch_batch(&object, &batch);
	CHECK(result.way == PATCH_NONE && !result.wanted && !older);
	fake_free(f);
}

TEST(a_second_list_keeps_what_the_first_one_rewrote)
{
	for (int kind = FAKE_GNU; kind <= (FAKE_GNU | FAKE_EXECUTABLE); kind += FAKE_EXECUTABLE) {
		struct fake *f = usual_fake(kind);
		struct elf_object object;
		struct patch_result first, second;

		reset();
		fake_protect(f, kind);
		CHECK(elf_object_load(&object, &f->map));
		first = elf_patch(&object, &both[0], 1);
		second = elf_patch(&object, &both[1], 1);
		CHECK_EQ(first.way, second.way);
		CHECK_EQ(first.bound + second.bound, 2);
		CHECK(!second.copy);
		CHECK(elf_object_address(&object, "alpha") == (void *)wrapper_a);
		CHECK(elf_object_address(&object, "beta") == (void *)wrapper_b);
		CHECK(original_a == at(f, 0x222) && original_b == at(f, 0x333));
		if (first.copy)
			CHECK(fake_entry(f, DT_SYMTAB)->d_un.d_ptr == (uintptr_t)first.copy);
		elf_patch_undo(&first);
		fake_free(f);
	}
}

TEST(an_ifunc_is_left_alone_and_told)
{
	static const struct fake_symbol symbols[] = {{"alpha", 0x100, STT_GNU_IFUNC, DEFINED, 2}};
	struct fake *f = fake_make(FAKE_GNU, symbols, 1);
	struct elf_object object;
	struct patch_result result;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	CHECK(elf_object_find(&object, "alpha", NULL) != NULL);
	CHECK(elf_object_address(&object, "alpha") == NULL);
	result = elf_patch(&object, both, 2);
	CHECK_EQ(result.wanted, 1);
	CHECK_EQ(result.bound, 0);
	CHECK(!original_a);
	CHECK_EQ(f->symbols[1].st_value, 0x100);
	fake_free(f);
}

TEST(an_ifunc_beside_a_function_of_the_same_name_is_not_rewritten)
{
	static const struct fake_symbol symbols[] = {
	    {"alpha", 0x100, STT_GNU_IFUNC, DEFINED, 2},
	    {"alpha", 0x200, STT_FUNC, DEFINED, 3 | HIDDEN_VERSION},
	    {"alpha", 0x200, STT_GNU_IFUNC, DEFINED, 4 | HIDDEN_VERSION},
	};
	struct fake *f = fake_make(FAKE_GNU, symbols, 3);
	struct elf_object object;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	CHECK_EQ(elf_patch(&object, both, 2).bound, 0);
	CHECK(original_a == at(f, 0x200));
	CHECK_EQ(f->symbols[1].st_value, 0x100);
	CHECK_EQ(f->symbols[3].st_value, 0x200);
	CHECK((void *)(f->symbols[2].st_value + f->map.l_addr) == (void *)wrapper_a);
	fake_free(f);
}

TEST(a_copy_is_never_made_shorter_than_what_is_rewritten_in_it)
{
	struct fake *f = usual_fake(FAKE_SYSV | FAKE_EXECUTABLE);
	struct elf_object object;

	reset();
	f->hash[1] = 2; /* says: two symbols; alpha is the third */
	CHECK(elf_object_load(&object, &f->map));
	CHECK_EQ(elf_patch(&object, both, 2).way, PATCH_IN_PLACE);
	fake_free(f);
}

TEST(a_copy_is_named_by_its_offset_where_ld_so_has_not_relocated_the_dynamic_section)
{
	struct fake *f = usual_fake(FAKE_GNU | FAKE_EXECUTABLE);
	struct elf_object object;
	struct patch_result result;

	reset();
	fake_entry(f, DT_SYMTAB)->d_un.d_ptr -= f->map.l_addr;
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, both, 2);
	CHECK_EQ(result.way, PATCH_COPY);
	CHECK(fake_entry(f, DT_SYMTAB)->d_un.d_ptr + f->map.l_addr == (uintptr_t)result.copy);
	elf_patch_undo(&result);
	fake_free(f);
}

TEST(a_segment_that_cannot_be_read_is_not_read)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	f->headers[1].p_flags = PF_X;
	CHECK(!elf_object_load(&object, &f->map));
	fake_free(f);
}

TEST(a_slot_that_holds_another_copys_original_is_not_taken_over)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;
	struct patch_result result;

	reset();
	original_a = (void *)0x4711;
	CHECK(elf_object_load(&object, &f->map));
	result = elf_patch(&object, both, 2);
	CHECK_EQ(result.bound, 1);
	CHECK(original_a == (void *)0x4711);
	CHECK(elf_object_address(&object, "alpha") == at(f, 0x222));
	fake_free(f);
}

TEST(patching_twice_does_not_make_a_wrapper_its_own_original)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	reset();
	CHECK(elf_object_load(&object, &f->map));
	elf_patch(&object, both, 2);
	CHECK_EQ(elf_patch(&object, both, 2).bound, 0);
	CHECK(original_a == at(f, 0x222));
	fake_free(f);
}

TEST(program_headers_that_are_not_mapped_are_read_from_the_file)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;
	int fd;

	strcpy(f->name, "/tmp/fake_object.XXXXXX");
	fd = mkstemp(f->name);
	f->header->e_phoff = 5 * FAKE_PAGE;
	CHECK_EQ(pwrite(fd, f->image, FAKE_PAGE, 0), FAKE_PAGE);
	CHECK_EQ(pwrite(fd, f->headers, 4 * sizeof(Elf64_Phdr), 5 * FAKE_PAGE), 4 * sizeof(Elf64_Phdr));
	memset(f->headers, 0, 4 * sizeof(Elf64_Phdr));
	CHECK(elf_object_load(&object, &f->map));
	CHECK(elf_object_address(&object, "alpha") == at(f, 0x222));
	unlink(f->name);
	CHECK(!elf_object_load(&object, &f->map));
	close(fd);
	fake_free(f);
}

TEST(program_headers_of_another_object_are_not_believed)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	f->headers[3].p_vaddr += sizeof(Elf64_Dyn);
	CHECK(!elf_object_load(&object, &f->map));
	fake_free(f);
}

TEST(an_object_whose_start_is_not_mapped_is_refused)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	mprotect(f->image, FAKE_PAGE, PROT_NONE);
	CHECK(!elf_object_load(&object, &f->map));
	f->map.l_addr = 0;
	CHECK(!elf_object_load(&object, &f->map));
	f->map.l_addr = 4096ull << 40;
	CHECK(!elf_object_load(&object, &f->map));
	fake_free(f);
}

/* Loads and, if that works, looks up and patches; the sanitizers and the guard page are the judges. */
static void survive(struct fake *f)
{
	struct elf_object object;

	reset();
	if (!elf_object_load(&object, &f->map))
		return;
	elf_object_find(&object, "alpha", NULL);
	elf_object_variable(&object, "value");
	forbidden[PATCH_IN_PLACE] = true;
	elf_patch(&object, both, 2);
	reset();
	if (elf_object_load(&object, &f->map))
		elf_patch(&object, both, 2);
}

TEST(pointers_out_of_the_segments_are_refused)
{
	static const Elf64_Sxword tags[] = {DT_SYMTAB, DT_STRTAB, DT_GNU_HASH};

	for (unsigned i = 0; i < 3; i++) {
		struct fake *f = usual_fake(FAKE_GNU);
		struct elf_object object;

		fake_entry(f, tags[i])->d_un.d_ptr = (uintptr_t)f->image + 3 * FAKE_PAGE;
		CHECK(!elf_object_load(&object, &f->map));
		fake_entry(f, tags[i])->d_un.d_ptr = (uintptr_t)f->image + FAKE_PAGE + 2;
		survive(f);
		fake_free(f);
	}
}

TEST(tables_at_the_very_end_of_a_segment_are_not_read_past_it)
{
	static const Elf64_Sxword tags[] = {DT_SYMTAB, DT_STRTAB, DT_VERSYM, DT_GNU_HASH, DT_HASH};

	for (unsigned i = 0; i < 5; i++) {
		for (unsigned back = 1; back <= 64; back++) {
			struct fake *f = usual_fake(i == 4 ? FAKE_SYSV : FAKE_GNU);

			memset(f->image + 3 * FAKE_PAGE - 128, 0x11, 128);
			fake_entry(f, tags[i])->d_un.d_ptr = (uintptr_t)f->image + 3 * FAKE_PAGE - back;
			survive(f);
			fake_free(f);
		}
	}
}

TEST(a_dynamic_section_without_an_end_stops_at_its_segment)
{
	struct fake *f = usual_fake(FAKE_GNU);

	for (Elf64_Dyn *d = f->dynamic; d + 1 <= (Elf64_Dyn *)(f->image + 3 * FAKE_PAGE); d++) {
		if (d->d_tag == DT_NULL)
			d->d_tag = DT_DEBUG;
	}
	survive(f);
	f->headers[2].p_memsz = 20;
	survive(f);
	fake_free(f);
}

TEST(a_sysv_chain_that_bites_its_tail_ends)
{
	struct fake *f = usual_fake(FAKE_SYSV);
	struct elf_object object;

	f->hash[3 + f->count - 1] = 2;
	f->hash[1] = UINT32_MAX; /* and nothing in the table says how long it may be */
	CHECK(elf_object_load(&object, &f->map));
	CHECK(elf_object_find(&object, "delta", NULL) == NULL);
	CHECK(elf_object_find(&object, "gamma", NULL) != NULL);
	fake_free(f);
}

TEST(hash_tables_with_absurd_counts_find_nothing)
{
	static const uint32_t absurd[] = {0, 0x7fffffff, 0x80000000, 0xffffffff};

	for (unsigned word = 0; word < 8; word++) {
		for (unsigned i = 0; i < 4; i++) {
			struct fake *f = usual_fake(FAKE_GNU), *g = usual_fake(FAKE_SYSV);

			f->gnu_hash[word] = g->hash[word] = absurd[i];
			survive(f);
			survive(g);
			fake_free(f);
			fake_free(g);
		}
	}
}

TEST(a_string_table_without_an_end_is_cut_at_its_last_terminator)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	memset(f->strings, 'x', 512);
	CHECK(!elf_object_load(&object, &f->map) || object.strings_size == 0);
	survive(f);
	f->strings[1] = 0;
	fake_entry(f, DT_SONAME)->d_un.d_val = 400;
	CHECK(elf_object_load(&object, &f->map));
	CHECK_EQ(object.strings_size, 2);
	CHECK_TEXT(object.soname, "");
	fake_free(f);
}

TEST(more_segments_than_there_is_room_for_are_refused)
{
	struct fake *f = usual_fake(FAKE_GNU);
	struct elf_object object;

	for (unsigned i = 4; i < 40; i++)
		f->headers[i] = f->headers[0];
	f->header->e_phnum = 40;
	CHECK(!elf_object_load(&object, &f->map));
	f->header->e_phnum = 0;
	CHECK(!elf_object_load(&object, &f->map));
	fake_free(f);
}

TEST(the_real_libc_answers_as_dlsym_does)
{
	static const char *const names[] = {"getenv", "setenv", "execve", "posix_spawn", "__register_atfork"};
	struct link_map *map = dlopen("libc.so.6", RTLD_LAZY);
	struct elf_object object;

	CHECK(map && elf_object_load(&object, map));
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		CHECK(elf_object_address(&object, names[i]) == dlsym(map, names[i]));
	CHECK_TEXT(object.soname, "libc.so.6");
}

TEST(the_kernels_vdso_and_every_object_of_this_process_can_be_read_without_harm)
{
	struct link_map *map = dlopen(NULL, RTLD_LAZY);
	unsigned seen = 0;

	for (; map; map = map->l_next, seen++) {
		struct elf_object object;

		if (elf_object_load(&object, map))
			CHECK(elf_object_find(&object, "no such function", NULL) == NULL);
	}
	CHECK(seen > 2);
}

TEST_MAIN()
