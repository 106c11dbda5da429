/* What a file says about how it would be started. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "elf_file.h"

/* A mapped file; every access is checked, it may be cut short or hostile. */
struct image {
	const unsigned char *bytes;
	size_t size;
};

static const void *at(const struct image *i, uint64_t offset, uint64_t size)
{
	return offset <= i->size && size <= i->size - offset ? i->bytes + offset : NULL;
}

static const Elf64_Phdr *segment(const struct image *i, const Elf64_Ehdr *header, unsigned n)
{
	if (n >= header->e_phnum || header->e_phentsize != sizeof(Elf64_Phdr))
		return NULL;
	return at(i, header->e_phoff + (uint64_t)n * sizeof(Elf64_Phdr), sizeof(Elf64_Phdr));
}

static const Elf64_Phdr *segment_of_type(const struct image *i, const Elf64_Ehdr *header, unsigned type)
{
	const Elf64_Phdr *p;

	for (unsigned n = 0; (p = segment(i, header, n)); n++) {
		if (p->p_type == type)
			return p;
	}
	return NULL;
}

/* A text that ends inside the file. */
static const char *text_at(const struct image *i, uint64_t offset)
{
	return offset < i->size && memchr(i->bytes + offset, 0, i->size - offset)
		   ? (const char *)i->bytes + offset
		   : NULL;
}

/* Whether an entry of the dynamic section has a flag. */
static bool has_dynamic_flag(const struct image *i, const Elf64_Ehdr *header, int64_t tag, uint64_t flag)
{
	const Elf64_Phdr *p = segment_of_type(i, header, PT_DYNAMIC);
	const Elf64_Dyn *d = p ? at(i, p->p_offset, p->p_filesz) : NULL;

	for (uint64_t n = 0; d && (n + 1) * sizeof *d <= p->p_filesz && d[n].d_tag != DT_NULL; n++) {
		if (d[n].d_tag == tag && d[n].d_un.d_val & flag)
			return true;
	}
	return false;
}

/* Whether a dynamic symbol of this name is defined, found by the section headers. */
static bool exports(const struct image *i, const Elf64_Ehdr *header, const char *name)
{
	const Elf64_Shdr *sections = at(i, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);

	for (unsigned n = 0; sections && n < header->e_shnum; n++) {
		const Elf64_Sym *symbols = at(i, sections[n].sh_offset, sections[n].sh_size);

		if (sections[n].sh_type != SHT_DYNSYM || !symbols || sections[n].sh_link >= header->e_shnum)
			continue;
		for (uint64_t s = 0; (s + 1) * sizeof *symbols <= sections[n].sh_size; s++) {
			const char *text =
			    text_at(i, sections[sections[n].sh_link].sh_offset + symbols[s].st_name);

			if (symbols[s].st_shndx && text && !strcmp(text, name))
				return true;
		}
	}
	return false;
}

static enum elf_kind kind_of(const struct image *i, const Elf64_Ehdr *header, const char *interpreter)
{
	const char *base = interpreter ? strrchr(interpreter, '/') : NULL;

	if (interpreter) {
		base = base ? base + 1 : interpreter;
		if (!strncmp(base, "ld-musl", 7))
			return ELF_DYNAMIC_MUSL;
		return !strncmp(base, "ld-linux", 8) ? ELF_DYNAMIC_GLIBC : ELF_DYNAMIC_OTHER;
	}
	/* A static PIE is ET_DYN without PT_INTERP, as a library is. */
	if (header->e_type != ET_DYN || has_dynamic_flag(i, header, DT_FLAGS_1, DF_1_PIE))
		return ELF_STATIC;
	return ELF_SHARED;
}

static void read_elf(const struct image *i, struct elf_file *file)
{
	const Elf64_Ehdr *header = at(i, 0, sizeof *header);
	const Elf64_Phdr *p;

	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64) {
		file->kind = i->size > EI_CLASS && header ? ELF_WRONG_ARCH : ELF_NOT_ELF;
		return;
	}
	if ((p = segment_of_type(i, header, PT_INTERP)) && text_at(i, p->p_offset))
		file->interpreter = strdup(text_at(i, p->p_offset));
	file->kind = kind_of(i, header, file->interpreter);
	if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
		file->kind = ELF_NOT_ELF;
	for (unsigned n = 0; (p = segment(i, header, n)); n++) {
		if (p->p_type == PT_LOAD && !at(i, p->p_offset, p->p_filesz))
			file->kind = ELF_NOT_ELF; /* cut short */
		if (p->p_type == PT_TLS)
			file->tls_size =
			    (p->p_memsz + p->p_align - 1) / (p->p_align ? p->p_align : 1) * p->p_align;
	}
	file->is_static_tls = has_dynamic_flag(i, header, DT_FLAGS, DF_STATIC_TLS);
	file->is_audit = exports(i, header, "la_version");
}

static void read_script(const struct image *i, struct elf_file *file)
{
	char line[256] = "";
	size_t n = i->size - 2 < sizeof line - 1 ? i->size - 2 : sizeof line - 1;
	char *start = line;

	memcpy(line, i->bytes + 2, n);
	line[strcspn(line, "\n")] = 0;
	start += strspn(start, " \t");
	start[strcspn(start, " \t")] = 0;
	file->kind = ELF_SCRIPT;
	file->interpreter = strdup(start);
}

/* The kernel's rule: the bits count on a file system without nosuid, and only where they change something. */
static bool is_secure(const char *path, const struct stat *st)
{
	struct statvfs fs;

	if (!statvfs(path, &fs) && fs.f_flag & ST_NOSUID)
		return false;
	if (st->st_mode & S_ISUID && st->st_uid != getuid())
		return true;
	if (st->st_mode & S_ISGID && st->st_mode & S_IXGRP && st->st_gid != getgid())
		return true;
	return getuid() && getxattr(path, "security.capability", NULL, 0) > 0;
}

int elf_file_read(const char *path, struct elf_file *file)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct image i = {0};
	struct stat st;
	int error = 0;

	*file = (struct elf_file){.kind = ELF_NOT_ELF};
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		error = -errno;
	else if (S_ISDIR(st.st_mode))
		error = -EISDIR;
	else if (st.st_size > 0) {
		i.size = (size_t)st.st_size;
		i.bytes = mmap(NULL, i.size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (i.bytes == MAP_FAILED)
			error = -errno;
	}
	close(fd);
	if (error || !i.size)
		return error;
	if (i.size > SELFMAG && !memcmp(i.bytes, ELFMAG, SELFMAG))
		read_elf(&i, file);
	else if (i.size > 2 && !memcmp(i.bytes, "#!", 2))
		read_script(&i, file);
	file->is_secure = is_secure(path, &st);
	munmap((void *)i.bytes, i.size);
	return 0;
}

void elf_file_free(struct elf_file *file)
{
	free(file->interpreter);
	file->interpreter = NULL;
}

const char *elf_kind_text(enum elf_kind kind)
{
	static const char *const texts[] = {
#define KIND(name, text) text,
	    ELF_KINDS(KIND)
#undef KIND
	};

	return texts[kind];
}

char *elf_program_find(const char *name)
{
	const char *path = getenv("PATH");
	char *copy, *rest, *folder, *found = NULL;

	if (strchr(name, '/'))
		return access(name, F_OK) ? NULL : strdup(name);
	rest = copy = strdup(path ? path : "/bin:/usr/bin");
	while (!found && (folder = strsep(&rest, ":"))) {
		char full[PATH_MAX];

		snprintf(full, sizeof full, "%s/%s", *folder ? folder : ".", name);
		if (!access(full, X_OK))
			found = strdup(full);
	}
	free(copy);
	return found;
}
