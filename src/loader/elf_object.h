/* One loaded ELF object: what it exports, and its symbol table's entries replaced.
 *
 * la_objopen runs after an object is mapped and before anything is relocated against it. What stands in its
 * .dynsym then is what every later lookup finds: PLT, GOT, data, dlsym, dlvsym, dlmopen, ctypes. So a
 * provider is bound once, by rewriting st_value there (facts: docs/design.md, "Interception").
 *
 * Everything here may be called under the loader lock and calls nothing of the program. Nothing in the
 * object's dynamic section is trusted: offsets and counts are checked against its PT_LOAD segments.
 */
#ifndef AMVGPU_ELF_OBJECT_H
#define AMVGPU_ELF_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_SEGMENTS_MAX = 24 };

/* A PT_LOAD as it is mapped: [start, end) in memory. */
struct elf_segment {
	uintptr_t start, end;
	int protection; /* PROT_* of its p_flags */
};

struct elf_object {
	struct link_map *map;
	uintptr_t base; /* l_addr */
	Elf64_Sym
	    *symbols; /* with symbols_end: where its segment ends, for no header says how many there are */
	const Elf64_Sym *symbols_end;
	const char *strings;
	size_t strings_size;
	const uint32_t *gnu_hash; /* or NULL; ends at gnu_hash_end */
	const uint32_t *gnu_hash_end;
	const uint32_t *hash; /* DT_HASH, or NULL */
	const uint32_t *hash_end;
	const uint16_t *versions; /* DT_VERSYM, or NULL */
	const uint16_t *versions_end;
	const char *soname;      /* or "" */
	Elf64_Dyn *symtab_entry; /* DT_SYMTAB, for the copied-table variant */
	bool is_copied;          /* symbols is elf_patch's copy */
	bool is_relocated;       /* ld.so has turned the offsets in the dynamic section into addresses */
	unsigned segment_count;
	struct elf_segment segments[ELF_SEGMENTS_MAX]; /* last: only what counts is written */
};

/* Reads map's dynamic section. False: not an object whose exports can be read (no hash table, or nothing that
 * makes sense). A main program at a fixed address (l_addr 0) needs elf_object_load_at. */
bool elf_object_load(struct elf_object *object, struct link_map *map);

/* The same, with the program headers that the kernel told the program about: AT_PHDR, AT_PHNUM. */
bool elf_object_load_at(struct elf_object *object, struct link_map *map, const Elf64_Phdr *headers,
			unsigned count);

/* The next defined function symbol called name after *previous (NULL: the first): one for each symbol
 * version. */
Elf64_Sym *elf_object_find(const struct elf_object *object, const char *name, const Elf64_Sym *previous);

/* All of them: the first `room` are stored, the number of all is returned. */
unsigned elf_object_definitions(const struct elf_object *object, const char *name, Elf64_Sym **found,
				unsigned room);

/* The first symbol called name that a hash table leads to, defined or not, or NULL. */
const Elf64_Sym *elf_object_symbol(const struct elf_object *object, const char *name);

/* Whether it is a libc of glibc's: what starts programs is defined there. */
bool elf_object_is_libc(const struct elf_object *object);

/* The run-time address of the first definition of name, or NULL. An IFUNC has none before relocation. */
void *elf_object_address(const struct elf_object *object, const char *name);

/* The same for a variable: a definition, or the copy that a program at a fixed address made for itself. */
void *elf_object_variable(const struct elf_object *object, const char *name);

/* A symbol that shall lead to wrapper; *original receives the address it had. */
struct patch {
	const char *name;
	void *wrapper;
	void **original;
};

enum patch_way {
	PATCH_NONE,     /* nothing exported of what was asked for */
	PATCH_IN_PLACE, /* .dynsym rewritten */
	PATCH_COPY, /* a rewritten copy of .dynsym, DT_SYMTAB points to it: mprotect refused, or .dynsym in R
		       E */
	PATCH_SYMBIND, /* neither possible: la_symbind64 must do it for this object (never both for one name)
			*/
};

struct patch_result {
	enum patch_way way;
	unsigned wanted; /* entries of the list that the object exports */
	unsigned bound; /* of these, those whose name, in whatever version, no longer leads into the object */
	void *copy;     /* PATCH_COPY: to be unmapped by elf_patch_undo when the object is closed */
	size_t copy_size;
};

/* Lists that go into one object together, so that its pages are opened once. */
enum { PATCH_JOBS_MAX = 4 };

struct patch_job {
	const struct patch *list;
	unsigned count;
	bool is_older;
	struct patch_result *result;
};

struct patch_batch {
	struct patch_job job[PATCH_JOBS_MAX];
	unsigned count;
	bool (*is_wanted)(const char *name); /* or NULL: all are; else the others only get their originals */
	bool is_late; /* the object has been relocated: no copy, its dynamic section is read-only by now */
};

/* *result is written by elf_patch_batch and must live until then. */
void patch_batch_add(struct patch_batch *batch, const struct patch *list, unsigned count, struct patch_result *result);
/* The same for what an older version of each name means, where that is other code: libc has two posix_spawn.
 * To be added before the list that has the newer, which then counts the name as bound. */
void patch_batch_add_older(struct patch_batch *batch, const struct patch *list, unsigned count,
			   struct patch_result *result);

/* Binds every name of the lists that the object exports; in place with the exact protection of the PT_LOAD
 * restored.
 *
 * A name's original is its default version, else its first definition. A definition with another address (an
 * older symbol version with its own code) is left alone, and so is an IFUNC, whose address is not known
 * before relocation: the name then counts as not bound. When *original is set on entry it must be the address
 * found. May be called again for the same elf_object with other lists; then only the first result with a
 * copy needs elf_patch_undo. */
void elf_patch_batch(struct elf_object *object, struct patch_batch *batch);

/* The same for one list. */
struct patch_result elf_patch(struct elf_object *object, const struct patch *list, unsigned count);

/* Whether the object's table can also be rewritten once the object is relocated: in place, which then is the only way. */
bool elf_patch_can_wait(const struct elf_object *object);

/* Makes ld.so overlook the function name of the object, where that can be done in place: a symbol without a value is none.
 */
bool elf_patch_hide(const struct elf_object *object, const char *name);

/* For la_objclose, under the loader lock. A copy lives on until the next object with one is closed: another
 * thread's lookup may still be reading it. */
void elf_patch_undo(struct patch_result *result);

/* For PATCH_SYMBIND: the wrapper for name in the list, or NULL. Also sets *original from the real address. */
void *elf_patch_symbind(const struct patch *list, unsigned count, const char *name, uintptr_t real);

#endif
