/* See flip.h. */
#define _GNU_SOURCE
#include "flip.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_OBJECTS = 64, MAX_BINDINGS = 4096, PAGE = 4096, VERSION_HIDDEN = 0x8000 };

struct object {
	uintptr_t base;
	const Elf64_Dyn *dynamic;
	const Elf64_Sym *symbols; /* of the file, not of the process */
	size_t count;
	const char *strings;
	const uint16_t *versions;
};

static struct object objects[MAX_OBJECTS];
static unsigned object_count;
static uintptr_t library_start, library_end;
static struct binding {
	uintptr_t *slot;
	uintptr_t to[FLIP_MODES];
} bindings[MAX_BINDINGS];
static int binding_count;

static bool is_in_library(uintptr_t address)
{
	return address >= library_start && address < library_end;
}

static void find_library(const char *path)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[PATH_MAX + 100], real[PATH_MAX];

	if (!realpath(path, real))
		strcpy(real, path);
	while (maps && fgets(line, sizeof line, maps)) {
		char *name = strchr(line, '/');
		uintptr_t start, end;

		line[strcspn(line, "\n")] = 0;
		if (!name || strcmp(name, real) || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		if (!library_start)
			library_start = start;
		library_end = end;
	}
	if (maps)
		fclose(maps);
}

/* The mapping stays: symbols and strings point into it. */
static void read_file(struct object *o, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	const char *file;
	const Elf64_Shdr *sections;

	if (fd < 0 || fstat(fd, &st))
		return;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	sections = (const Elf64_Shdr *)(file + ((const Elf64_Ehdr *)file)->e_shoff);
	for (unsigned i = 0; i < ((const Elf64_Ehdr *)file)->e_shnum; i++) {
		const Elf64_Shdr *s = &sections[i];

		if (s->sh_type == SHT_DYNSYM) {
			o->symbols = (const Elf64_Sym *)(file + s->sh_offset);
			o->count = s->sh_size / sizeof *o->symbols;
			o->strings = file + sections[s->sh_link].sh_offset;
		} else if (s->sh_type == SHT_GNU_versym) {
			o->versions = (const uint16_t *)(file + s->sh_offset);
		}
	}
}

static int note_object(struct dl_phdr_info *info, size_t size, void *unused)
{
	struct object *o = &objects[object_count];

	(void)size;
	(void)unused;
	if (object_count == MAX_OBJECTS || strstr(info->dlpi_name, "vdso"))
		return 0;
	o->base = info->dlpi_addr;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			o->dynamic = (const Elf64_Dyn *)(o->base + info->dlpi_phdr[i].p_vaddr);
	}
	read_file(o, info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe");
	object_count++;
	return 0;
}

static const Elf64_Sym *definition_in(const struct object *o, const char *name)
{
	const Elf64_Sym *older = NULL;

	for (size_t i = 1; i < o->count; i++) {
		const Elf64_Sym *s = &o->symbols[i];

		if (!s->st_shndx || ELF64_ST_TYPE(s->st_info) != STT_FUNC || strcmp(o->strings + s->st_name, name))
			continue;
		if (!o->versions || !(o->versions[i] & VERSION_HIDDEN))
			return s;
		older = s;
	}
	return older;
}

void *flip_original(const char *name)
{
	for (unsigned i = 0; i < object_count; i++) {
		const Elf64_Sym *s = definition_in(&objects[i], name);

		if (s)
			return (void *)(objects[i].base + s->st_value);
	}
	return NULL;
}

static uintptr_t entry_of(const struct object *o, Elf64_Sxword tag)
{
	for (const Elf64_Dyn *d = o->dynamic; d && d->d_tag; d++) {
		if (d->d_tag == tag)
			return d->d_un.d_val;
	}
	return 0;
}

/* Names for which the file has several meanings, as libc has for posix_spawn, stay as they are: none is timed. */
static void note_binding(const struct object *o, const Elf64_Rela *r)
{
	unsigned type = ELF64_R_TYPE(r->r_info);
	uintptr_t *slot = (uintptr_t *)(o->base + r->r_offset), page = (uintptr_t)slot & -(uintptr_t)PAGE;
	const char *name;

	if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) || !is_in_library(*slot) ||
	    binding_count == MAX_BINDINGS || !o->symbols || ELF64_R_SYM(r->r_info) >= o->count)
		return;
	name = o->strings + o->symbols[ELF64_R_SYM(r->r_info)].st_name;
	if (strstr(name, "exec") || strstr(name, "spawn") || !flip_original(name))
		return;
	mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
	bindings[binding_count++] = (struct binding){ slot, { (uintptr_t)flip_original(name), *slot } };
}

static void note_table(const struct object *o, uintptr_t table, size_t size)
{
	for (size_t i = 0; table && i < size / sizeof(Elf64_Rela); i++)
		note_binding(o, (const Elf64_Rela *)table + i);
}

int flip_init(const char *library)
{
	find_library(library);
	dl_iterate_phdr(note_object, NULL);
	if (!library_start)
		return -1;
	for (unsigned i = 0; i < object_count; i++) {
		note_table(&objects[i], entry_of(&objects[i], DT_RELA), entry_of(&objects[i], DT_RELASZ));
		note_table(&objects[i], entry_of(&objects[i], DT_JMPREL), entry_of(&objects[i], DT_PLTRELSZ));
	}
	return binding_count;
}

void flip(enum flip_mode mode)
{
	for (int i = 0; i < binding_count; i++)
		*(volatile uintptr_t *)bindings[i].slot = bindings[i].to[mode];
}
