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
#define DEMAND_LD_SO "ld-linux-x86-64.so.2"
#define EVERYTHING (~0u)
#define BIT(n) (1u << ((n) & 31))

enum { SYMBOLS_FEW = 256, SYMBOLS_MANY = 1024 };

_Static_assert(NAME_COUNT <= 32, "a bit for each name");

static struct {
	uint32_t wanted;       /* a bit for each name that is wrapped */
	struct link_map *libc; /* NULL: nothing waits */
	struct patch_batch batch;
} demand;

/* Which of 64 kinds two letters are of. */
#define KIND(letters) (1ull << (((letters)[0] * 3 + (letters)[1]) & 63))

/* Whether the name begins as one of ours may: nearly all of a program's leave here. */
static inline bool may_be_known(const char *name)
{
#define OR_FIRST(name) | KIND(#name)
#define OR_NEXT(name) | KIND(&#name[2])
	const uint64_t first = 0 WRAPPED(OR_FIRST) LOOKUPS(OR_FIRST),
		       next = 0 WRAPPED(OR_NEXT) LOOKUPS(OR_NEXT);
#undef OR_FIRST
#undef OR_NEXT

	return name[0] && first & KIND(name) && name[1] && name[2] && next & KIND(name + 2);
}

static inline uint32_t head_of(const char *name)
{
	uint32_t head;

	__builtin_memcpy(&head, name, sizeof head);
	return head;
}

/* name has at least three letters. */
static unsigned name_index(const char *name)
{
	uint32_t head = head_of(name);
	unsigned i = 0;

	while (i < NAME_COUNT && (head_of(names[i]) != head || !text_equal(names[i], name)))
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

/* Where the table of symbols ends at the latest: behind it come, as a rule, the names. More than there are do
 * no harm. */
static uint64_t symbols_end(const struct elf_object *object)
{
	uintptr_t start = (uintptr_t)object->symbols, end = (uintptr_t)object->symbols_end;

	if ((uintptr_t)object->strings > start && (uintptr_t)object->strings < end)
		end = (uintptr_t)object->strings;
	return (end - start) / sizeof(Elf64_Sym);
}

/* The first symbol of those that the GNU hash table has; 1 where it is empty, and 0 without one. */
static uint32_t first_hashed(const struct elf_object *object)
{
	return object->gnu_hash && object->gnu_hash_end - object->gnu_hash > 1 ? object->gnu_hash[1] : 0;
}

static uint32_t demand_in_table(const struct elf_object *object, uint64_t end)
{
	uint32_t found = 0;

	for (uint64_t i = 1; i < end && found != EVERYTHING; i++) {
		const Elf64_Sym *symbol = &object->symbols[i];
		unsigned index;

		if (symbol->st_name >= object->strings_size ||
		    !may_be_known(object->strings + symbol->st_name))
			continue;
		index = name_index(object->strings + symbol->st_name);
		if (index < NAME_COUNT)
			found |= demand_of(index, symbol);
	}
	return found;
}

/* Also an undefined symbol can be in the hash table: a function whose address the main program has fixed. */
static uint32_t demand_in_hash(const struct elf_object *object)
{
	uint32_t found = 0;

	for (unsigned i = 0; i < NAME_COUNT && found != EVERYTHING; i++) {
		const Elf64_Sym *symbol = elf_object_symbol(object, names[i]);

		if (symbol)
			found |= demand_of(i, symbol);
	}
	return found;
}

/* A large table is read up to where the hash table begins, which then answers for the rest. To read very many takes longer than
 * to bind everything. */
static uint32_t demand_of_object(const struct elf_object *object)
{
	uint64_t end = symbols_end(object), first = first_hashed(object);
	bool is_hashed = first > 1 && first < end && end > SYMBOLS_FEW;

	if (is_hashed)
		end = first;
	if (end > SYMBOLS_MANY)
		return EVERYTHING;
	return demand_in_table(object, end) | (is_hashed ? demand_in_hash(object) : 0);
}

bool demand_has(const char *name)
{
	unsigned index = may_be_known(name) ? name_index(name) : NAME_COUNT;

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

/* What these look up they look up for other objects. */
static bool asks_for_others(const struct elf_object *object)
{
	return text_equal(object->soname, DEMAND_LIBC) || text_equal(object->soname, DEMAND_LD_SO);
}

bool demand_objopen(const struct elf_object *object)
{
	uint32_t before = demand.wanted;

	if (demand.wanted == EVERYTHING || (object && asks_for_others(object)))
		return false;
	if (object)
		demand.wanted |= demand_of_object(object);
	else
		demand.wanted = EVERYTHING;
	return demand.wanted != before && bind_late();
}
