/* See demand.h. */
#include "demand.h"

#include "../sys/text.h"
#include "exec.h"

/* What is wrapped in libc. */
#define WRAPPED(F)                                                                                           \
	EXEC_FUNCTIONS(F)                                                                                    \
	F(syscall)                                                                                           \
	F(getenv)                                                                                            \
	F(secure_getenv)                                                                                     \
	F(ioctl)                                                                                             \
	F(close)

/* What gives an object names that its own symbol table lacks, or leads to the symbol tables of others. */
#define LOOKUPS(F)                                                                                           \
	F(dlsym)                                                                                             \
	F(dlvsym)                                                                                            \
	F(dlmopen)                                                                                           \
	F(dlinfo)                                                                                            \
	F(dladdr1)                                                                                           \
	F(dl_iterate_phdr)                                                                                   \
	F(_r_debug)                                                                                          \
	F(__libc_dlsym)                                                                                      \
	F(_dl_sym)                                                                                           \
	F(_dl_vsym)

enum name {
#define NAME_INDEX(name) NAME_##name,
	WRAPPED(NAME_INDEX) NAME_LOOKUPS,
	NAME_LAST_WRAPPED = NAME_LOOKUPS - 1,
	LOOKUPS(NAME_INDEX) NAME_COUNT
#undef NAME_INDEX
};

/* No pointers: they would have to be relocated in every program. */
static const char names[NAME_COUNT][16] = {
#define NAME_TEXT(name) #name,
    WRAPPED(NAME_TEXT) LOOKUPS(NAME_TEXT)
#undef NAME_TEXT
};

#define DEMAND_LIBC "libc.so.6"
#define EVERYTHING (~0u)
#define BIT(n) (1u << ((n) & 31))

_Static_assert(NAME_COUNT <= 32, "a bit for each name");

static struct {
	uint32_t wanted;       /* a bit for each name that is wrapped */
	struct link_map *libc; /* NULL: nothing waits */
	struct patch_batch batch;
} demand;

/* Most names of a program leave here. */
static inline bool may_be_known(const char *name)
{
#define FIRST(name) | BIT(#name[0])
#define SECOND(name) | BIT(#name[1])
	const uint32_t first = 0 WRAPPED(FIRST) LOOKUPS(FIRST), second = 0 WRAPPED(SECOND) LOOKUPS(SECOND);
#undef FIRST
#undef SECOND

	return *name && first >> (name[0] & 31) & second >> (name[1] & 31) & 1;
}

static unsigned name_index(const char *name)
{
	unsigned i = 0;

	while (i < NAME_COUNT && !text_equal(names[i], name))
		i++;
	return i;
}

/* What a symbol called names[index] brings into demand. Who defines dlsym has not got another one by that. */
static uint32_t demand_of(unsigned index, const Elf64_Sym *symbol)
{
	if (index < NAME_LOOKUPS)
		return BIT(index);
	return symbol->st_shndx == SHN_UNDEF ? EVERYTHING : 0;
}

/* Where the symbols that are in no hash table end. The GNU table says which is the first that is in it, or 1 where it is
 * empty; behind the symbols come, as a rule, their names. More than there are do no harm. */
static uint64_t unhashed_end(const struct elf_object *object)
{
	uintptr_t start = (uintptr_t)object->symbols, end = (uintptr_t)object->symbols_end;
	uint32_t first = object->gnu_hash && object->gnu_hash_end - object->gnu_hash > 1 ? object->gnu_hash[1] : 0;

	if ((uintptr_t)object->strings > start && (uintptr_t)object->strings < end)
		end = (uintptr_t)object->strings;
	end = (end - start) / sizeof(Elf64_Sym);
	return first > 1 && first < end ? first : end;
}

static uint32_t demand_of_unhashed(const struct elf_object *object)
{
	uint64_t end = unhashed_end(object);
	uint32_t found = 0;

	for (uint64_t i = 1; i < end && found != EVERYTHING; i++) {
		const Elf64_Sym *symbol = &object->symbols[i];
		unsigned index;

		if (symbol->st_name >= object->strings_size || !may_be_known(object->strings + symbol->st_name))
			continue;
		index = name_index(object->strings + symbol->st_name);
		if (index < NAME_COUNT)
			found |= demand_of(index, symbol);
	}
	return found;
}

/* Also an undefined symbol can be in the hash table: a function whose address the main program has fixed. */
static uint32_t demand_of_hashed(const struct elf_object *object)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < NAME_COUNT && found != EVERYTHING; i++) {
		const Elf64_Sym *symbol = elf_object_symbol(object, names[i]);

		if (symbol)
			found |= demand_of(i, symbol);
	}
	return found;
}

bool demand_has(const char *name)
{
	unsigned index = name_index(name);

	return index >= NAME_LOOKUPS || demand.wanted & BIT(index);
}

bool demand_bind(struct elf_object *object, const struct patch_batch *batch)
{
	if (demand.libc || !text_equal(object->soname, DEMAND_LIBC) || !elf_patch_can_wait(object))
		return false;
	demand.libc = object->map;
	demand.batch = *batch;
	demand.batch.is_wanted = demand_has;
	if (demand.wanted)
		elf_patch_batch(object, &demand.batch);
	demand.batch.is_late = true;
	return true;
}

/* libc may be in use by now: it is read again, for what was read of it before it was relocated is gone. */
static bool bind_late(void)
{
	struct elf_object libc;

	if (!demand.libc || !elf_object_load(&libc, demand.libc))
		return false;
	elf_patch_batch(&libc, &demand.batch);
	return true;
}

bool demand_objopen(const struct elf_object *object)
{
	uint32_t before = demand.wanted;

	if (demand.wanted == EVERYTHING || (object && text_equal(object->soname, DEMAND_LIBC)))
		return false;
	if (object)
		demand.wanted |= demand_of_unhashed(object) | demand_of_hashed(object);
	else
		demand.wanted = EVERYTHING;
	return demand.wanted != before && bind_late();
}
