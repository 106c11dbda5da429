/* Rewrites the symbol table of an object that was just mapped, before anything is bound to it.
 *
 * Two ways, tried in the order that leaves the object most as it was. In place: the pages are made writable
 * and get back exactly what their PT_LOAD says. A copy, where .dynsym lies among code (making changed pages
 * executable again is what SELinux calls execmod, and refuses) or where mprotect is refused. What neither can
 * do is left untouched.
 */
#include "elf_object.h"

#include "../sys/sys.h"
#include "../sys/text.h"

/* Tests forbid a way to see the next one; the library has no such switch. */
#ifdef ELF_PATCH_TEST
bool elf_patch_permits(enum patch_way way);
#else
static inline bool elf_patch_permits(enum patch_way way)
{
	(void)way;
	return true;
}
#endif

enum { PAGE = 4096, VERSION_HIDDEN = 0x8000 };

static bool is_default_version(const struct elf_object *object, const Elf64_Sym *symbol)
{
	uint64_t index = (uint64_t)(symbol - object->symbols);

	if (!object->versions || index >= (uint64_t)(object->versions_end - object->versions))
		return true;
	return !(object->versions[index] & VERSION_HIDDEN);
}

static uintptr_t address_of(const struct elf_object *object, const Elf64_Sym *symbol)
{
	return object->base + symbol->st_value;
}

/* What the name means to a program linked today; 0 where it has no definition that can be wrapped. */
static uintptr_t original_of(const struct elf_object *object, const struct patch *patch)
{
	uintptr_t first = 0;

	for (Elf64_Sym *s = NULL; (s = elf_object_find(object, patch->name, s));) {
		if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !s->st_value)
			continue;
		if (is_default_version(object, s))
			return address_of(object, s);
		if (!first)
			first = address_of(object, s);
	}
	return first;
}

/* The address all definitions to be rewritten have, or 0: the caller's slot already belongs to another one.
 */
static uintptr_t accepted_original(const struct elf_object *object, const struct patch *patch)
{
	uintptr_t original = original_of(object, patch);

	return *patch->original && (uintptr_t)*patch->original != original ? 0 : original;
}

static bool is_to_be_rewritten(const struct elf_object *object, const Elf64_Sym *symbol, uintptr_t original)
{
	return original && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
	       address_of(object, symbol) == original;
}

struct run {
	const Elf64_Sym *first, *last;
};

/* Counts what the object exports and finds the part of the table that holds everything to be rewritten. */
static struct run plan(const struct elf_object *object, const struct patch *list, unsigned count,
		       struct patch_result *result)
{
	struct run run = {NULL, NULL};

	for (unsigned i = 0; i < count; i++) {
		uintptr_t original = accepted_original(object, &list[i]);
		Elf64_Sym *s = elf_object_find(object, list[i].name, NULL);

		result->wanted += s != NULL;
		for (; s; s = elf_object_find(object, list[i].name, s)) {
			if (!is_to_be_rewritten(object, s, original))
				continue;
			if (!run.first || s < run.first)
				run.first = s;
			if (!run.last || s > run.last)
				run.last = s;
		}
	}
	return run;
}

/* Rewrites one name in table, which is the object's own or a copy of it. True: all of its definitions. */
static bool rewrite_name(const struct elf_object *object, const struct patch *patch, Elf64_Sym *table)
{
	uintptr_t original = accepted_original(object, patch);
	bool is_whole = original != 0;
	Elf64_Sym *next;

	for (Elf64_Sym *s = elf_object_find(object, patch->name, NULL); s; s = next) {
		next = elf_object_find(object, patch->name, s);
		if (is_to_be_rewritten(object, s, original))
			table[s - object->symbols].st_value = (uintptr_t)patch->wrapper - object->base;
		else
			is_whole = false;
	}
	if (original)
		*patch->original = (void *)original;
	return is_whole;
}

static void rewrite(const struct elf_object *object, const struct patch *list, unsigned count,
		    Elf64_Sym *table, struct patch_result *result)
{
	for (unsigned i = 0; i < count; i++)
		result->bound += rewrite_name(object, &list[i], table);
}

static const struct elf_segment *segment_of(const struct elf_object *object, const void *address)
{
	for (unsigned i = 0; i < object->segment_count; i++) {
		if ((uintptr_t)address >= object->segments[i].start &&
		    (uintptr_t)address < object->segments[i].end)
			return &object->segments[i];
	}
	return NULL;
}

static bool patch_in_place(struct elf_object *object, const struct patch *list, unsigned count,
			   struct run run, struct patch_result *result)
{
	char *start = (char *)((uintptr_t)run.first & -(uintptr_t)PAGE);
	size_t size = ((uintptr_t)(run.last + 1) - (uintptr_t)start + PAGE - 1) & -(size_t)PAGE;

	if (!elf_patch_permits(PATCH_IN_PLACE) || sys_mprotect(start, size, PROT_READ | PROT_WRITE))
		return false;
	rewrite(object, list, count, object->symbols, result);
	sys_mprotect(start, size, segment_of(object, run.first)->protection);
	result->way = PATCH_IN_PLACE;
	return true;
}

/* How far the GNU hash table's longest-reaching chain goes: the symbols in no chain come before all others.
 */
static uint64_t gnu_symbol_count(const struct elf_object *object)
{
	const uint32_t *t = object->gnu_hash, *end = object->gnu_hash_end, *buckets, *chain;
	uint64_t last = 0;

	if (!t || end - t < 4 || (uint64_t)(end - t) < 4 + 2ull * t[2] + t[0])
		return 0;
	buckets = t + 4 + 2ull * t[2];
	chain = buckets + t[0];
	for (uint32_t i = 0; i < t[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < t[1])
		return t[1];
	while (last - t[1] < (uint64_t)(end - chain) && !(chain[last - t[1]] & 1))
		last++;
	return last + 1;
}

static uint64_t symbol_count(const struct elf_object *object)
{
	uint64_t count = gnu_symbol_count(object), room = (uint64_t)(object->symbols_end - object->symbols);

	if (object->hash && object->hash_end - object->hash >= 2 && object->hash[1] > count)
		count = object->hash[1];
	return count < room ? count : room;
}

static bool patch_copy(struct elf_object *object, const struct patch *list, unsigned count, struct run run,
		       struct patch_result *result)
{
	uint64_t symbols = symbol_count(object);
	size_t size = symbols * sizeof(Elf64_Sym);
	const struct elf_segment *segment = segment_of(object, object->symtab_entry);
	Elf64_Sym *copy;

	if (!elf_patch_permits(PATCH_COPY) || !segment || !(segment->protection & PROT_WRITE) ||
	    (uint64_t)(run.last - object->symbols) >= symbols)
		return false;
	copy = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_error(copy))
		return false;
	bytes_copy(copy, object->symbols, size);
	rewrite(object, list, count, copy, result);
	sys_mprotect(copy, size, PROT_READ);
	object->symtab_entry->d_un.d_ptr = (uintptr_t)copy - (object->is_relocated ? 0 : object->base);
	result->copy = copy;
	result->copy_size = size;
	result->way = PATCH_COPY;
	return true;
}

struct patch_result elf_patch(struct elf_object *object, const struct patch *list, unsigned count)
{
	struct patch_result result = {PATCH_NONE, 0, 0, NULL, 0};
	struct run run = plan(object, list, count, &result);

	if (!run.first)
		return result;
	if (segment_of(object, run.first)->protection & PROT_EXEC &&
	    patch_copy(object, list, count, run, &result))
		return result;
	if (!patch_in_place(object, list, count, run, &result) &&
	    !patch_copy(object, list, count, run, &result))
		result.way = PATCH_SYMBIND;
	return result;
}

void elf_patch_undo(struct patch_result *result)
{
	static struct patch_result retired; /* protected by the loader lock */

	if (!result->copy)
		return;
	if (retired.copy)
		sys_munmap(retired.copy, retired.copy_size);
	retired = *result;
	result->copy = NULL;
}

void *elf_patch_symbind(const struct patch *list, unsigned count, const char *name, uintptr_t real)
{
	for (unsigned i = 0; i < count; i++) {
		if (!text_equal(list[i].name, name))
			continue;
		if (!*list[i].original)
			*list[i].original = (void *)real;
		return (uintptr_t)*list[i].original == real ? list[i].wrapper : NULL;
	}
	return NULL;
}
