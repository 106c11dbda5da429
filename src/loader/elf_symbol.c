/* Looks names up in an object's own hash tables, each index checked before it is used.
 *
 * Neither table says how many symbols there are; an index is good if the symbol lies in the symbol table's
 * segment.
 */
#include "elf_object.h"

#include "../sys/text.h"

/* Where a walk through one name's hash chain stands. */
struct walk {
	const struct elf_object *object;
	const char *name;
	uint32_t gnu;   /* the name's GNU hash */
	uint32_t index; /* of the symbol looked at */
	uint32_t left;  /* DT_HASH: steps before the chain must be a circle */
	bool is_at_end;
};

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t h = 0;

	for (; *name; name++) {
		h = (h << 4) + (unsigned char)*name;
		h ^= (h >> 24) & 0xf0;
		h &= 0x0fffffff;
	}
	return h;
}

/* The words of a table that start at word index, or NULL if it ends before. */
static const uint32_t *word_at(const uint32_t *table, const uint32_t *end, uint64_t index)
{
	return index < (uint64_t)(end - table) ? table + index : NULL;
}

/* Word of the chain for a symbol. GNU hash: nbuckets, first symbol, bloom words, shift, bloom, buckets,
 * chain. */
static const uint32_t *gnu_chain(const struct elf_object *object, uint32_t index)
{
	const uint32_t *t = object->gnu_hash;

	return word_at(t, object->gnu_hash_end, 4 + 2ull * t[2] + t[0] + (uint64_t)(index - t[1]));
}

static void gnu_start(struct walk *w)
{
	const uint32_t *t = w->object->gnu_hash, *end = w->object->gnu_hash_end, *low, *bucket;
	uint64_t bloom;

	w->is_at_end = true;
	if (end - t < 4 || !t[0] || !t[2])
		return;
	low = word_at(t, end, 4 + 2ull * (w->gnu / 64 % t[2]));
	bucket = word_at(t, end, 4 + 2ull * t[2] + w->gnu % t[0]);
	if (!low || !bucket)
		return;
	bloom = low[0] | (uint64_t)low[1] << 32;
	if (!(bloom >> w->gnu % 64 & bloom >> (w->gnu >> (t[3] & 31)) % 64 & 1))
		return;
	w->index = *bucket;
	w->is_at_end = *bucket < t[1] || !*bucket;
}

static void gnu_step(struct walk *w)
{
	const uint32_t *chain = gnu_chain(w->object, w->index);

	w->index++;
	w->is_at_end = !chain || *chain & 1;
}

static void sysv_start(struct walk *w)
{
	const uint32_t *t = w->object->hash, *end = w->object->hash_end, *bucket;
	uint64_t symbols = (uint64_t)(w->object->symbols_end - w->object->symbols);

	w->is_at_end = true;
	if (end - t < 2 || !t[0])
		return;
	bucket = word_at(t, end, 2ull + sysv_hash_of(w->name) % t[0]);
	if (!bucket)
		return;
	w->index = *bucket;
	w->left = symbols < t[1] ? (uint32_t)symbols : t[1];
	w->is_at_end = !*bucket;
}

static void sysv_step(struct walk *w)
{
	const uint32_t *t = w->object->hash;
	const uint32_t *next = word_at(t, w->object->hash_end, 2ull + t[0] + w->index);

	w->is_at_end = !next || !*next || !w->left--;
	if (next)
		w->index = *next;
}

static bool walk_start(struct walk *w, const struct elf_object *object, const char *name)
{
	*w = (struct walk){.object = object, .name = name, .gnu = gnu_hash_of(name)};
	if (object->gnu_hash)
		gnu_start(w);
	else
		sysv_start(w);
	return !w->is_at_end;
}

static bool walk_step(struct walk *w)
{
	if (w->object->gnu_hash)
		gnu_step(w);
	else
		sysv_step(w);
	return !w->is_at_end;
}

/* The symbol the walk stands at if it has the name, else NULL. */
static Elf64_Sym *walk_named(const struct walk *w)
{
	const struct elf_object *object = w->object;
	Elf64_Sym *symbol;

	if (w->index >= (uint64_t)(object->symbols_end - object->symbols))
		return NULL;
	symbol = object->symbols + w->index;
	if (symbol->st_name >= object->strings_size)
		return NULL;
	return text_equal(object->strings + symbol->st_name, w->name) ? symbol : NULL;
}

/* The same if it is also a definition that other objects can bind to. */
static Elf64_Sym *walk_symbol(const struct walk *w)
{
	Elf64_Sym *symbol = walk_named(w);

	if (!symbol || symbol->st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL)
		return NULL;
	return symbol;
}

static bool is_function(const Elf64_Sym *symbol)
{
	return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
}

Elf64_Sym *elf_object_find(const struct elf_object *object, const char *name, const Elf64_Sym *previous)
{
	struct walk w;

	for (bool more = walk_start(&w, object, name); more; more = walk_step(&w)) {
		Elf64_Sym *symbol = walk_symbol(&w);

		if (!symbol || !is_function(symbol))
			continue;
		if (!previous)
			return symbol;
		if (symbol == previous)
			previous = NULL;
	}
	return NULL;
}

const Elf64_Sym *elf_object_symbol(const struct elf_object *object, const char *name)
{
	struct walk w;

	for (bool more = walk_start(&w, object, name); more; more = walk_step(&w)) {
		const Elf64_Sym *symbol = walk_named(&w);

		if (symbol)
			return symbol;
	}
	return NULL;
}

unsigned elf_object_definitions(const struct elf_object *object, const char *name, Elf64_Sym **found,
				unsigned room)
{
	unsigned count = 0;
	struct walk w;

	for (bool more = walk_start(&w, object, name); more; more = walk_step(&w)) {
		Elf64_Sym *symbol = walk_symbol(&w);

		if (!symbol || !is_function(symbol))
			continue;
		if (count < room)
			found[count] = symbol;
		count++;
	}
	return count;
}

bool elf_object_is_libc(const struct elf_object *object)
{
	return elf_object_find(object, "__libc_start_main", NULL) != NULL;
}

void *elf_object_address(const struct elf_object *object, const char *name)
{
	const Elf64_Sym *symbol = NULL;

	while ((symbol = elf_object_find(object, name, symbol))) {
		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC)
			return (void *)(object->base + symbol->st_value);
	}
	return NULL;
}

void *elf_object_variable(const struct elf_object *object, const char *name)
{
	struct walk w;

	for (bool more = walk_start(&w, object, name); more; more = walk_step(&w)) {
		const Elf64_Sym *symbol = walk_symbol(&w);

		if (symbol && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT)
			return (void *)(object->base + symbol->st_value);
	}
	return NULL;
}
