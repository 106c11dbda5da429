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

/* All lists on their way into one object. */
struct work {
	struct elf_object *object;
	struct patch_batch *batch;
	const Elf64_Sym *first, *last; /* the part of the table that holds all that is to be rewritten */
};

enum { PAGE = 4096, VERSION_HIDDEN = 0x8000, VERSIONS_MAX = 16 };

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

/* A name of a list and what it means in the object. */
struct meaning {
	Elf64_Sym *definition[VERSIONS_MAX];
	unsigned count;
	bool is_whole; /* these are all */
	uintptr_t original; /* the address that all definitions to be rewritten have; 0: none */
	bool is_exported;   /* what the list means is there at all */
};

/* To a program linked today; 0 where there is no definition that can be wrapped. */
static uintptr_t default_of(const struct elf_object *object, const struct meaning *m)
{
	uintptr_t first = 0;

	for (unsigned i = 0; i < m->count; i++) {
		if (!is_plain_function(m->definition[i]))
			continue;
		if (is_default_version(object, m->definition[i]))
			return address_of(object, m->definition[i]);
		if (!first)
			first = address_of(object, m->definition[i]);
	}
	return first;
}

/* Before that, where it was other code. */
static uintptr_t older_of(const struct elf_object *object, const struct meaning *m)
{
	uintptr_t today = default_of(object, m);

	for (unsigned i = 0; i < m->count; i++) {
		if (is_plain_function(m->definition[i]) && address_of(object, m->definition[i]) != today)
			return address_of(object, m->definition[i]);
	}
	return 0;
}

static void look_up(struct meaning *m, const struct elf_object *object, const struct patch_job *job,
		    const struct patch *patch)
{
	unsigned all = elf_object_definitions(object, patch->name, m->definition, VERSIONS_MAX);

	m->is_whole = all <= VERSIONS_MAX;
	m->count = m->is_whole ? all : VERSIONS_MAX;
	m->original = job->is_older ? older_of(object, m) : default_of(object, m);
	m->is_exported = job->is_older ? m->original != 0 : all != 0;
	if (*patch->original && (uintptr_t)*patch->original != m->original)
		m->original = 0; /* the caller's slot already belongs to another one */
}

static bool is_to_be_rewritten(const struct elf_object *object, const struct meaning *m, const Elf64_Sym *symbol)
{
	return m->original && is_plain_function(symbol) && address_of(object, symbol) == m->original;
}

static bool is_wanted(const struct patch_batch *batch, const struct patch *patch)
{
	return !batch->is_wanted || batch->is_wanted(patch->name);
}

static void note_original(const struct patch *patch, const struct meaning *m)
{
	if (m->original)
		*patch->original = (void *)m->original;
}

static void plan(struct work *work, const struct patch_job *job)
{
	*job->result = (struct patch_result){.way = PATCH_NONE};
	for (unsigned i = 0; i < job->count; i++) {
		const struct patch *patch = &job->list[i];
		bool is_needed = is_wanted(work->batch, patch);
		struct meaning m;

		if (!is_needed && *patch->original)
			continue;
		look_up(&m, work->object, job, patch);
		if (!is_needed) {
			note_original(patch, &m);
			continue;
		}
		job->result->wanted += m.is_exported;
		for (unsigned k = 0; k < m.count; k++) {
			Elf64_Sym *s = m.definition[k];

			if (!is_to_be_rewritten(work->object, &m, s))
				continue;
			job->result->way = PATCH_SYMBIND; /* until another is found */
			if (!work->first || s < work->first)
				work->first = s;
			if (!work->last || s > work->last)
				work->last = s;
		}
	}
}

/* Whether no version of the name leads into the object any more; for a list of older ones, whether one leads to us. */
static bool is_bound(const struct elf_object *object, const struct patch_job *job, const struct patch *patch,
		     const struct meaning *m, const Elf64_Sym *table)
{
	for (unsigned i = 0; i < m->count; i++) {
		uintptr_t address = address_of(object, &table[m->definition[i] - object->symbols]);

		if (job->is_older && address == (uintptr_t)patch->wrapper)
			return true;
		if (segment_of(object, address))
			return false;
	}
	return m->count && m->is_whole && !job->is_older;
}

static void rewrite_job(const struct work *work, const struct patch_job *job, Elf64_Sym *table)
{
	const struct elf_object *object = work->object;

	for (unsigned i = 0; i < job->count; i++) {
		const struct patch *patch = &job->list[i];
		struct meaning m;

		if (!is_wanted(work->batch, patch))
			continue;
		look_up(&m, object, job, patch);
		note_original(patch, &m); /* first: where it is late, another thread may find the wrapper at once */
		for (unsigned k = 0; k < m.count; k++) {
			if (is_to_be_rewritten(object, &m, m.definition[k]))
				table[m.definition[k] - object->symbols].st_value =
				    (uintptr_t)patch->wrapper - object->base;
		}
		job->result->bound += is_bound(object, job, patch, &m, table);
	}
}

/* table: the object's own, or a copy of it. */
static void rewrite(const struct work *work, Elf64_Sym *table, enum patch_way way)
{
	for (unsigned i = 0; i < work->batch->count; i++) {
		const struct patch_job *job = &work->batch->job[i];

		if (job->result->way == PATCH_NONE)
			continue;
		rewrite_job(work, job, table);
		job->result->way = way;
	}
}

/* Makes the pages of the table from first to last writable, or gives them back what their PT_LOAD says. */
static bool pages_protect(const Elf64_Sym *first, const Elf64_Sym *last, int protection)
{
	char *start = (char *)((uintptr_t)first & -(uintptr_t)PAGE);
	size_t size = ((uintptr_t)(last + 1) - (uintptr_t)start + PAGE - 1) & -(size_t)PAGE;

	return sys_mprotect(start, size, protection) == 0;
}

static bool patch_in_place(const struct work *work)
{
	if (!elf_patch_permits(PATCH_IN_PLACE) ||
	    !pages_protect(work->first, work->last, PROT_READ | PROT_WRITE))
		return false;
	rewrite(work, work->object->symbols, PATCH_IN_PLACE);
	pages_protect(work->first, work->last, segment_of(work->object, (uintptr_t)work->first)->protection);
	return true;
}

bool elf_patch_can_wait(const struct elf_object *object)
{
	const struct elf_segment *segment = segment_of(object, (uintptr_t)object->symbols);

	return elf_patch_permits(PATCH_IN_PLACE) && segment && !(segment->protection & PROT_EXEC);
}

bool elf_patch_hide(const struct elf_object *object, const char *name)
{
	Elf64_Sym *symbol = elf_object_find(object, name, NULL);

	if (!symbol || !elf_patch_permits(PATCH_IN_PLACE) ||
	    !pages_protect(symbol, symbol, PROT_READ | PROT_WRITE))
		return false;
	symbol->st_value = 0;
	pages_protect(symbol, symbol, segment_of(object, (uintptr_t)symbol)->protection & ~PROT_WRITE);
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

/* The first list that changes something owns the copy. */
static void give_copy(const struct patch_batch *batch, Elf64_Sym *copy, size_t size)
{
	unsigned i = 0;

	while (batch->job[i].result->way == PATCH_NONE)
		i++;
	batch->job[i].result->copy = copy;
	batch->job[i].result->copy_size = size;
}

static bool patch_copy(const struct work *work)
{
	struct elf_object *object = work->object;
	const struct elf_segment *segment = segment_of(object, (uintptr_t)object->symtab_entry);
	uint64_t symbols = symbol_count(object);
	Elf64_Sym *copy;

	if (work->batch->is_late || !elf_patch_permits(PATCH_COPY) || !segment || !(segment->protection & PROT_WRITE) ||
	    (uint64_t)(work->last - object->symbols) >= symbols)
		return false;
	copy = copy_make(object, symbols * sizeof *copy);
	if (!copy)
		return false;
	rewrite(work, copy, PATCH_COPY);
	object->symtab_entry->d_un.d_ptr = (uintptr_t)copy - (object->is_relocated ? 0 : object->base);
	object->symbols = copy;
	object->symbols_end = copy + symbols;
	object->is_copied = true;
	give_copy(work->batch, copy, symbols * sizeof *copy);
	return true;
}

static void batch_add(struct patch_batch *batch, struct patch_job job)
{
	*job.result = (struct patch_result){.way = PATCH_NONE};
	if (batch->count < PATCH_JOBS_MAX)
		batch->job[batch->count++] = job;
	else
		job.result->wanted = job.count; /* and none bound: its caller says so */
}

void patch_batch_add(struct patch_batch *batch, const struct patch *list, unsigned count, struct patch_result *result)
{
	batch_add(batch, (struct patch_job){list, count, false, result});
}

void patch_batch_add_older(struct patch_batch *batch, const struct patch *list, unsigned count,
			   struct patch_result *result)
{
	batch_add(batch, (struct patch_job){list, count, true, result});
}

void elf_patch_batch(struct elf_object *object, struct patch_batch *batch)
{
	struct work work = {.object = object, .batch = batch};

	for (unsigned i = 0; i < batch->count; i++)
		plan(&work, &batch->job[i]);
	if (!work.first)
		return;
	if (object->is_copied) {
		rewrite(&work, object->symbols, PATCH_COPY);
		return;
	}
	if (segment_of(object, (uintptr_t)work.first)->protection & PROT_EXEC && patch_copy(&work))
		return;
	if (!patch_in_place(&work))
		patch_copy(&work);
}

struct patch_result elf_patch(struct elf_object *object, const struct patch *list, unsigned count)
{
	struct patch_batch batch = {.count = 0};
	struct patch_result result;

	patch_batch_add(&batch, list, count, &result);
	elf_patch_batch(object, &batch);
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
