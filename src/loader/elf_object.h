/* One loaded ELF object: what it exports, and its symbol table's entries replaced.
 *
 * la_objopen runs after an object is mapped and before anything is relocated against it. What stands in its .dynsym
 * then is what every later lookup finds: PLT, GOT, data, dlsym, dlvsym, dlmopen, ctypes. So a provider is bound once,
 * by rewriting st_value there (facts: docs/design.md, "Interception").
 *
 * Everything here may be called under the loader lock and calls nothing of the program. Nothing in the object's
 * dynamic section is trusted: offsets and counts are checked against its PT_LOAD segments.
 */
#ifndef AMVGPU_ELF_OBJECT_H
#define AMVGPU_ELF_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_object {
	struct link_map *map;
	uintptr_t base; /* l_addr */
	const Elf64_Phdr *phdr;
	unsigned phdr_count;
	Elf64_Sym *symbols;
	const char *strings;
	size_t strings_size;
	const uint32_t *gnu_hash; /* or NULL */
	const uint32_t *hash;	  /* DT_HASH, or NULL */
	const char *soname;	  /* or "" */
	Elf64_Dyn *symtab_entry;  /* DT_SYMTAB, for the copied-table variant */
};

/* Reads map's dynamic section. False: not an object whose exports can be read (vdso, main program without exports). */
bool elf_object_load(struct elf_object *object, struct link_map *map);

/* The next defined function symbol called name after *previous (NULL: the first): one for each symbol version. */
Elf64_Sym *elf_object_find(const struct elf_object *object, const char *name, const Elf64_Sym *previous);

/* The run-time address of the first definition of name, or NULL. */
void *elf_object_address(const struct elf_object *object, const char *name);

/* A symbol that shall lead to wrapper; *original receives the address it had. */
struct patch {
	const char *name;
	void *wrapper;
	void **original;
};

enum patch_way {
	PATCH_NONE,	/* nothing exported of what was asked for */
	PATCH_IN_PLACE, /* .dynsym rewritten */
	PATCH_COPY,	/* mprotect refused: a rewritten copy of .dynsym, DT_SYMTAB points to it */
	PATCH_SYMBIND,	/* neither possible: la_symbind64 must do it for this object (never both for one name) */
};

struct patch_result {
	enum patch_way way;
	unsigned wanted;  /* names of the list that the object exports */
	unsigned bound;	  /* of these, now leading to the wrapper */
	void *copy;	  /* PATCH_COPY: to be unmapped by elf_patch_undo when the object is closed */
	size_t copy_size;
};

/* Binds every name of the list that the object exports; in place with the exact protection of the PT_LOAD restored.
 * An entry whose *original is already set by another definition (symbol versions) must have the same address or is
 * left alone and counted as not bound. */
struct patch_result elf_patch(struct elf_object *object, const struct patch *list, unsigned count);
void elf_patch_undo(struct patch_result *result);

/* For PATCH_SYMBIND: the wrapper for name in the list, or NULL. Also sets *original from the real address. */
void *elf_patch_symbind(const struct patch *list, unsigned count, const char *name, uintptr_t real);

#endif
