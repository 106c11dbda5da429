/* What brings libc's names into demand, and when they are bound.
 *
 *	gcc -g -fsanitize=address,undefined -DELF_PATCH_TEST -o T test/test_demand.c src/loader/elf_*.c
 */
#define _GNU_SOURCE
#include "../src/loader/demand.c"

#include "fake_object.h"
#include "test.h"

enum { DEFINED = 7 };

static bool is_in_place_forbidden;

bool elf_patch_permits(enum patch_way way)
{
	return !(way == PATCH_IN_PLACE && is_in_place_forbidden);
}

static void *original_getenv, *original_execve, *original_unlisted;

static void wrapper(void)
{
}

static const struct patch list[] = {
    {"getenv", (void *)wrapper, &original_getenv},
    {"execve", (void *)wrapper, &original_execve},
    {"unlisted", (void *)wrapper, &original_unlisted},
};

static const struct fake_symbol libc_symbols[] = {
    {"getenv", 0x111, STT_FUNC, DEFINED, 2},
    {"execve", 0x222, STT_FUNC, DEFINED, 2},
};

static void reset(void)
{
	memset(&demand, 0, sizeof demand);
	original_getenv = original_execve = original_unlisted = NULL;
	is_in_place_forbidden = false;
}

/* Opens an object with one symbol. */
static void open_one(int kind, const char *name, uint16_t section)
{
	struct fake_symbol symbol = {name, section ? 0x333 : 0, STT_FUNC, section, 2};
	struct fake *f = fake_make(kind, &symbol, 1);
	struct elf_object object;

	CHECK(elf_object_load(&object, &f->map));
	demand_objopen(&object);
	fake_free(f);
}

static struct fake *open_libc(int kind, bool *can_wait)
{
	static struct patch_result result;
	struct patch_batch batch = {.count = 0};
	struct fake *f = fake_make(kind, libc_symbols, 2);
	struct elf_object object;

	strcpy(f->strings + fake_entry(f, DT_SONAME)->d_un.d_val, "libc.so.6");
	fake_protect(f, kind);
	CHECK(elf_object_load(&object, &f->map));
	patch_batch_add(&batch, list, 3, &result);
	*can_wait = demand_bind(&object, &batch);
	return f;
}

static bool leads_to_us(const struct fake *f, unsigned index)
{
	return (uintptr_t)f->image + f->symbols[index].st_value == (uintptr_t)wrapper;
}

TEST(a_program_that_names_none_of_them_brings_nothing_into_demand)
{
	reset();
	open_one(FAKE_GNU, "puts", SHN_UNDEF);
	open_one(FAKE_GNU, "execvpf", SHN_UNDEF);
	open_one(FAKE_GNU, "geten", SHN_UNDEF);
	CHECK_EQ(demand.wanted, 0);
}

TEST(a_name_is_in_demand_if_an_object_has_a_symbol_of_it_whichever_its_hash_table)
{
	static const int kinds[] = {FAKE_GNU, FAKE_SYSV, FAKE_GNU | FAKE_SYSV};
	static const uint16_t sections[] = {SHN_UNDEF, DEFINED};

	for (unsigned i = 0; i < 6; i++) {
		reset();
		open_one(kinds[i % 3], "execve", sections[i / 3]);
		CHECK(demand_has("execve") && !demand_has("execv") && !demand_has("getenv"));
	}
}

TEST(an_object_with_very_many_names_of_its_own_to_read_brings_everything_into_demand)
{
	static Elf64_Sym symbols[SYMBOLS_MANY + 1]; /* all without a name */
	struct elf_object object = {.symbols = symbols, .strings = "", .strings_size = 1};

	object.symbols_end = &symbols[SYMBOLS_MANY];
	CHECK_EQ(demand_of_object(&object), 0);
	object.symbols_end = &symbols[SYMBOLS_MANY + 1];
	CHECK_EQ(demand_of_object(&object), EVERYTHING);
}

/* A linker writes so where an object exports nothing. */
TEST(names_are_found_beside_an_empty_gnu_hash_table)
{
	struct fake_symbol symbol = {"posix_spawnp", 0, STT_FUNC, SHN_UNDEF, 2};
	struct fake *f = fake_make(FAKE_GNU, &symbol, 1);
	struct elf_object object;

	reset();
	f->gnu_hash[1] = 1;
	memset(f->gnu_hash + 4, 0, 12);
	CHECK(elf_object_load(&object, &f->map));
	demand_objopen(&object);
	CHECK(demand_has("posix_spawnp") && !demand_has("posix_spawn"));
	fake_free(f);
}

TEST(an_undefined_function_whose_address_the_program_fixed_is_in_demand)
{
	struct fake_symbol symbol = {"getenv", 0x444, STT_FUNC, DEFINED, 2};
	struct fake *f = fake_make(FAKE_GNU, &symbol, 1);
	struct elf_object object;

	reset();
	f->symbols[1].st_shndx = SHN_UNDEF;
	CHECK(elf_object_load(&object, &f->map));
	demand_objopen(&object);
	CHECK(demand_has("getenv") && !demand_has("execve"));
	fake_free(f);
}

TEST(whoever_can_look_names_up_by_text_brings_all_into_demand)
{
	for (unsigned i = NAME_LOOKUPS; i < NAME_COUNT; i++) {
		reset();
		open_one(FAKE_GNU, names[i], SHN_UNDEF);
		CHECK(demand_has("execve") && demand_has("getenv"));
	}
}

TEST(whoever_defines_dlsym_has_not_got_another_one_by_that)
{
	reset();
	open_one(FAKE_GNU, "dlsym", DEFINED);
	open_one(FAKE_SYSV, "dlsym", DEFINED);
	CHECK_EQ(demand.wanted, 0);
}

TEST(an_object_that_cannot_be_read_brings_all_into_demand)
{
	reset();
	demand_objopen(NULL);
	CHECK(demand_has("execve") && demand_has("getenv"));
}

TEST(a_name_on_no_list_is_always_in_demand)
{
	reset();
	CHECK(demand_has("unlisted") && demand_has("dlsym") && !demand_has("execve"));
}

TEST(names_are_bound_in_libc_as_they_come_into_demand)
{
	bool can_wait;
	struct fake *f;

	reset();
	open_one(FAKE_GNU, "getenv", SHN_UNDEF);
	f = open_libc(FAKE_GNU, &can_wait);
	CHECK(can_wait && leads_to_us(f, 1) && !leads_to_us(f, 2));
	CHECK(original_getenv == f->image + 0x111);
	CHECK(original_execve == f->image + 0x222); /* a wrapper of another name may call it */
	open_one(FAKE_GNU, "execve", SHN_UNDEF);
	CHECK(leads_to_us(f, 1) && leads_to_us(f, 2));
	CHECK(original_getenv == f->image + 0x111 && original_execve == f->image + 0x222);
	fake_free(f);
}

TEST(nothing_of_libc_is_written_without_demand)
{
	bool can_wait;
	struct fake *f;

	reset();
	f = open_libc(FAKE_GNU, &can_wait);
	CHECK(can_wait && !leads_to_us(f, 1) && !leads_to_us(f, 2));
	fake_free(f);
}

/* Its dynamic section is read-only by then. */
TEST(a_relocated_libc_gets_no_copy_of_its_table)
{
	bool can_wait;
	struct fake *f;

	reset();
	f = open_libc(FAKE_GNU, &can_wait);
	CHECK(can_wait);
	mprotect(f->image + 2 * FAKE_PAGE, FAKE_PAGE, PROT_READ);
	is_in_place_forbidden = true;
	open_one(FAKE_GNU, "execve", SHN_UNDEF);
	CHECK(!leads_to_us(f, 2));
	fake_free(f);
}

TEST(a_table_among_code_cannot_wait_nor_one_that_cannot_be_made_writable)
{
	bool can_wait;

	reset();
	fake_free(open_libc(FAKE_GNU | FAKE_EXECUTABLE, &can_wait));
	CHECK(!can_wait);
	is_in_place_forbidden = true;
	fake_free(open_libc(FAKE_GNU, &can_wait));
	CHECK(!can_wait);
}

TEST_MAIN()
