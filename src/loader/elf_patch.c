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

/* One list on its way into one object. */
struct job {
	struct elf_object *object;
	const struct patch *list;
	unsigned count;
	bool is_older;                 /* it means older versions of its names */
	const Elf64_Sym *first, *last; /* the part of the table that holds all that is to be rewritten */
	struct patch_result result;
};

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

static const struct elf_segment *segment_of(const struct elf_object *object, uintptr_t address)
{
	for (unsigned i = 0; i < object->segment_count; i++) {
		if (address >= object->segments[i].start && address < object->segments[i].end)
			return &object->segments[i];
	}
	return NULL;
}

static bool is_plain_function(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value;
}

/* What the name means to a program linked today; 0 where it has no definition that can be wrapped. */
static uintptr_t default_of(const struct elf_object *object, const char *name)
{
	uintptr_t first = 0;

	for (Elf64_Sym *s = NULL; (s = elf_object_find(object, name, s));) {
		if (!is_plain_function(s))
			continue;
		if (is_default_version(object, s))
			return address_of(object, s);
		if (!first)
			first = address_of(object, s);
	}
	return first;
}

/* What it meant before, where that is other code. */
static uintptr_t older_of(const struct elf_object *object, const char *name)
{
	uintptr_t today = default_of(object, name);

	for (Elf64_Sym *s = NULL; (s = elf_object_find(object, name, s));) {
		if (is_plain_function(s) && address_of(object, s) != today)
			return address_of(object, s);
	}
	return 0;
}

static bool is_exported(const struct job *job, const struct patch *patch)
{
	if (job->is_older)
		return older_of(job->object, patch->name) != 0;
	return elf_object_find(job->object, patch->name, NULL) != NULL;
}

/* The address that all definitions to be rewritten have, or 0: the caller's slot already belongs to another
 * one. */
static uintptr_t original_of(const struct job *job, const struct patch *patch)
{
	uintptr_t original =
	    job->is_older ? older_of(job->object, patch->name) : default_of(job->object, patch->name);

	return *patch->original && (uintptr_t)*patch->original != original ? 0 : original;
}

static bool is_to_be_rewritten(const struct job *job, const Elf64_Sym *symbol, uintptr_t original)
{
	return original && is_plain_function(symbol) && address_of(job->object, symbol) == original;
}

static void plan(struct job *job)
{
	for (unsigned i = 0; i < job->count; i++) {
		const struct patch *patch = &job->list[i];
		uintptr_t original = original_of(job, patch);

		job->result.wanted += is_exported(job, patch);
		for (Elf64_Sym *s = NULL; (s = elf_object_find(job->object, patch->name, s));) {
			if (!is_to_be_rewritten(job, s, original))
				continue;
			if (!job->first || s < job->first)
				job->first = s;
			if (!job->last || s > job->last)
				job->last = s;
		}
	}
}

static void rewrite_entry(const struct job *job, const struct patch *patch, Elf64_Sym *table)
{
	uintptr_t original = original_of(job, patch);
	Elf64_Sym *next;

	for (Elf64_Sym *s = elf_object_find(job->object, patch->name, NULL); s; s = next) {
		next = elf_object_find(job->object, patch->name, s);
		if (is_to_be_rewritten(job, s, original))
			table[s - job->object->symbols].st_value =
			    (uintptr_t)patch->wrapper - job->object->base;
	}
	if (original)
		*patch->original = (void *)original;
}

static bool is_bound(const struct job *job, const struct patch *patch, const Elf64_Sym *table)
{
	const struct elf_object *object = job->object;
	bool is_any = false;

	for (Elf64_Sym *s = NULL; (s = elf_object_find(object, patch->name, s));) {
		uintptr_t address = address_of(object, &table[s - object->symbols]);

		if (job->is_older && address == (uintptr_t)patch->wrapper)
			return true;
		if (segment_of(object, address))
			return false;
		is_any = true;
	}
	return is_any && !job->is_older;
}

/* table: the object's own, or a copy of it. */
static void rewrite(struct job *job, Elf64_Sym *table, enum patch_way way)
{
	for (unsigned i = 0; i < job->count; i++)
		rewrite_entry(job, &job->list[i], table);
	for (unsigned i = 0; i < job->count; i++)
		job->result.bound += is_bound(job, &job->list[i], table);
	job->result.way = way;
}

static bool patch_in_place(struct job *job)
{
	char *start = (char *)((uintptr_t)job->first & -(uintptr_t)PAGE);
	size_t size = ((uintptr_t)(job->last + 1) - (uintptr_t)start + PAGE - 1) & -(size_t)PAGE;

	if (!elf_patch_permits(PATCH_IN_PLACE) || sys_mprotect(start, size, PROT_READ | PROT_WRITE))
		return false;
	rewrite(job, job->object->symbols, PATCH_IN_PLACE);
	sys_mprotect(start, size, segment_of(job->object, (uintptr_t)job->first)->protection);
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

/* Writable for good: where pages may not be made writable, a later list must still get in. */
static Elf64_Sym *copy_make(const struct elf_object *object, size_t size)
{
	Elf64_Sym *copy = sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_error(copy))
		return NULL;
	bytes_copy(copy, object->symbols, size);
	return copy;
}

static bool patch_copy(struct job *job)
{
	struct elf_object *object = job->object;
	const struct elf_segment *segment = segment_of(object, (uintptr_t)object->symtab_entry);
	uint64_t symbols = symbol_count(object);
	Elf64_Sym *copy;

	if (!elf_patch_permits(PATCH_COPY) || !segment || !(segment->protection & PROT_WRITE) ||
	    (uint64_t)(job->last - object->symbols) >= symbols)
		return false;
	copy = copy_make(object, symbols * sizeof *copy);
	if (!copy)
		return false;
	rewrite(job, copy, PATCH_COPY);
	object->symtab_entry->d_un.d_ptr = (uintptr_t)copy - (object->is_relocated ? 0 : object->base);
	object->symbols = copy;
	object->symbols_end = copy + symbols;
	object->is_copied = true;
	job->result.copy = copy;
	job->result.copy_size = symbols * sizeof *copy;
	return true;
}

static struct patch_result patch(struct job job)
{
	plan(&job);
	if (!job.first)
		return job.result;
	if (job.object->is_copied) {
		rewrite(&job, job.object->symbols, PATCH_COPY);
		return job.result;
	}
	if (segment_of(job.object, (uintptr_t)job.first)->protection & PROT_EXEC && patch_copy(&job))
		return job.result;
	if (!patch_in_place(&job) && !patch_copy(&job))
		job.result.way = PATCH_SYMBIND;
	return job.result;
}

struct patch_result elf_patch(struct elf_object *object, const struct patch *list, unsigned count)
{
	return patch((struct job){.object = object, .list = list, .count = count});
}

struct patch_result elf_patch_older(struct elf_object *object, const struct patch *list, unsigned count)
{
	return patch((struct job){.object = object, .list = list, .count = count, .is_older = true});
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
