/* A loaded ELF object made by hand, in memory, followed by a page that must not be touched.
 *
 * Page 0: ELF and program headers. Page 1: what the linker calls .dynsym, .dynstr, .gnu.version and the hash
 * tables. Page 2: .dynamic. Tests then break what they want to see survived.
 */
#ifndef FAKE_OBJECT_H
#define FAKE_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FAKE_PAGE = 4096, FAKE_SYMBOLS = 16, FAKE_DYNAMIC = 16 };

/* Where the parts lie in page 1. */
enum { FAKE_DYNSYM = 0, FAKE_DYNSTR = 512, FAKE_VERSYM = 1024, FAKE_GNU_HASH = 1536, FAKE_HASH = 2560 };

struct fake_symbol {
	const char *name;
	uint64_t value;
	unsigned char type;
	uint16_t section; /* SHN_UNDEF, or anything else */
	uint16_t version; /* 0x8000: not the default */
};

struct fake {
	unsigned char *image;
	struct link_map map;
	Elf64_Ehdr *header;
	Elf64_Phdr *headers; /* R, R or R E, RW, PT_DYNAMIC */
	Elf64_Sym *symbols;
	char *strings;
	uint16_t *versions;
	uint32_t *gnu_hash, *hash;
	Elf64_Dyn *dynamic;
	unsigned count;
	char name[64];
};

enum fake_kind {
	FAKE_GNU = 1,
	FAKE_SYSV = 2,
	FAKE_EXECUTABLE = 4,        /* .dynsym lies in a segment R E */
	FAKE_READ_ONLY_DYNAMIC = 8, /* so ld.so leaves its offsets as they are */
};

static inline uint32_t fake_gnu_hash_of(const char *name)
{
	uint32_t h = 5381;

	while (*name)
		h = h * 33 + (unsigned char)*name++;
	return h;
}

static inline uint32_t fake_hash_of(const char *name)
{
	uint32_t h = 0, g;

	while (*name) {
		h = (h << 4) + (unsigned char)*name++;
		g = h & 0xf0000000;
		h = (h ^ g >> 24) & ~g;
	}
	return h;
}

static inline void fake_headers(struct fake *f, int kind)
{
	static const unsigned char ident[] = {ELFMAG0,    ELFMAG1,     ELFMAG2,   ELFMAG3,
					      ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
	Elf64_Word flags[] = {PF_R, PF_R | (kind & FAKE_EXECUTABLE ? PF_X : 0),
			      PF_R | (kind & FAKE_READ_ONLY_DYNAMIC ? 0 : PF_W)};

	memcpy(f->header->e_ident, ident, sizeof ident);
	f->header->e_type = ET_DYN;
	f->header->e_machine = EM_X86_64;
	f->header->e_phoff = sizeof *f->header;
	f->header->e_phentsize = sizeof(Elf64_Phdr);
	f->header->e_phnum = 4;
	for (unsigned i = 0; i < 3; i++)
		f->headers[i] = (Elf64_Phdr){.p_type = PT_LOAD,
					     .p_flags = flags[i],
					     .p_offset = i * FAKE_PAGE,
					     .p_vaddr = i * FAKE_PAGE,
					     .p_filesz = FAKE_PAGE,
					     .p_memsz = FAKE_PAGE};
	f->headers[3] = (Elf64_Phdr){.p_type = PT_DYNAMIC, .p_flags = flags[2], .p_vaddr = 2 * FAKE_PAGE};
}

/* One bucket: all symbols from the first defined one on are in one chain. */
static inline void fake_hashes(struct fake *f, unsigned first)
{
	uint32_t *t = f->gnu_hash, *chain = t + 4 + 2 + 1;

	t[0] = t[2] = 1;
	t[1] = first;
	t[3] = 6;
	memset(t + 4, 0xff, 8); /* the bloom filter lets everything through */
	t[6] = f->count > first ? first : 0;
	for (unsigned i = first; i < f->count; i++)
		chain[i - first] =
		    (fake_gnu_hash_of(f->strings + f->symbols[i].st_name) & ~1u) | (i + 1 == f->count);
	t = f->hash;
	t[0] = 1;
	t[1] = f->count;
	t[2] = f->count > first ? first : 0;
	for (unsigned i = first; i + 1 < f->count; i++)
		t[3 + i] = i + 1;
}

static inline void fake_dynamic(struct fake *f, int kind, size_t strings_size, size_t soname)
{
	uint64_t page = (kind & FAKE_READ_ONLY_DYNAMIC ? 0 : (uintptr_t)f->image) + FAKE_PAGE;
	Elf64_Dyn *d = f->dynamic;

	*d++ = (Elf64_Dyn){DT_SONAME, {soname}};
	*d++ = (Elf64_Dyn){DT_SYMTAB, {page + FAKE_DYNSYM}};
	*d++ = (Elf64_Dyn){DT_STRTAB, {page + FAKE_DYNSTR}};
	*d++ = (Elf64_Dyn){DT_STRSZ, {strings_size}};
	*d++ = (Elf64_Dyn){DT_VERSYM, {page + FAKE_VERSYM}};
	if (kind & FAKE_GNU)
		*d++ = (Elf64_Dyn){DT_GNU_HASH, {page + FAKE_GNU_HASH}};
	if (kind & FAKE_SYSV)
		*d++ = (Elf64_Dyn){DT_HASH, {page + FAKE_HASH}};
	*d = (Elf64_Dyn){DT_NULL, {0}};
}

static inline Elf64_Dyn *fake_entry(struct fake *f, Elf64_Sxword tag)
{
	for (Elf64_Dyn *d = f->dynamic; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == tag)
			return d;
	}
	abort();
}

/* Gives the pages the protection that ld.so would. */
static inline void fake_protect(struct fake *f, int kind)
{
	mprotect(f->image, FAKE_PAGE, PROT_READ);
	mprotect(f->image + FAKE_PAGE, FAKE_PAGE, PROT_READ | (kind & FAKE_EXECUTABLE ? PROT_EXEC : 0));
	mprotect(f->image + 2 * FAKE_PAGE, FAKE_PAGE,
		 PROT_READ | (kind & FAKE_READ_ONLY_DYNAMIC ? 0 : PROT_WRITE));
}

static inline void fake_unprotect(struct fake *f)
{
	mprotect(f->image, 3 * FAKE_PAGE, PROT_READ | PROT_WRITE);
}

/* Pages all writable: break something, then fake_protect. Undefined symbols must come first. */
static inline struct fake *fake_make(int kind, const struct fake_symbol *symbols, unsigned count)
{
	struct fake *f = calloc(1, sizeof *f);
	size_t at = 1;
	unsigned first = 1;

	f->image = mmap(NULL, 4 * FAKE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(f->image + 3 * FAKE_PAGE, FAKE_PAGE, PROT_NONE);
	f->header = (Elf64_Ehdr *)f->image;
	f->headers = (Elf64_Phdr *)(f->image + sizeof *f->header);
	f->symbols = (Elf64_Sym *)(f->image + FAKE_PAGE + FAKE_DYNSYM);
	f->strings = (char *)f->image + FAKE_PAGE + FAKE_DYNSTR;
	f->versions = (uint16_t *)(f->image + FAKE_PAGE + FAKE_VERSYM);
	f->gnu_hash = (uint32_t *)(f->image + FAKE_PAGE + FAKE_GNU_HASH);
	f->hash = (uint32_t *)(f->image + FAKE_PAGE + FAKE_HASH);
	f->dynamic = (Elf64_Dyn *)(f->image + 2 * FAKE_PAGE);
	f->map = (struct link_map){.l_addr = (uintptr_t)f->image, .l_name = f->name, .l_ld = f->dynamic};
	f->count = count + 1;
	for (unsigned i = 0; i < count; i++) {
		f->symbols[i + 1] = (Elf64_Sym){.st_name = (Elf64_Word)at,
						.st_value = symbols[i].value,
						.st_size = 8,
						.st_info = ELF64_ST_INFO(STB_GLOBAL, symbols[i].type),
						.st_shndx = symbols[i].section};
		f->versions[i + 1] = symbols[i].version;
		strcpy(f->strings + at, symbols[i].name);
		at += strlen(symbols[i].name) + 1;
		first += symbols[i].section == SHN_UNDEF;
	}
	strcpy(f->strings + at, "libfake.so.1");
	fake_headers(f, kind);
	fake_hashes(f, first);
	fake_dynamic(f, kind, at + sizeof "libfake.so.1", at);
	return f;
}

static inline void fake_free(struct fake *f)
{
	munmap(f->image, 4 * FAKE_PAGE);
	free(f);
}

#endif
