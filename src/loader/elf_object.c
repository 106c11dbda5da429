/* Reads the dynamic section of a loaded object, trusting nothing in it.
 *
 * ld.so's link_map tells where the object is and where its dynamic section is; which addresses around them
 * may be touched is known only from the program headers. They usually follow the ELF header at the start of
 * the mapping, but tools that rewrite libraries (patchelf, hence auditwheel) may put them anywhere in the
 * file: then they are read from the file.
 */
#include "elf_object.h"

#include "../sys/sys.h"
#include "../sys/text.h"

enum { PAGE = 4096, HEADERS_MAX = 64 };

/* Whether the kernel can read eight bytes at address: sigprocmask copies its set in before it looks at `how`.
 */
static bool is_readable(uintptr_t address)
{
	return SYS_CALL4(SYS_rt_sigprocmask, -1, address, 0, 8) != -EFAULT;
}

static bool is_elf_header(const Elf64_Ehdr *header)
{
	static const unsigned char ident[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};

	for (unsigned i = 0; i < sizeof ident; i++) {
		if (header->e_ident[i] != ident[i])
			return false;
	}
	return header->e_machine == EM_X86_64 && header->e_phentsize == sizeof(Elf64_Phdr) &&
	       header->e_phnum && header->e_phnum <= HEADERS_MAX;
}

static int protection_of(Elf64_Word flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

static bool segment_add(struct elf_object *object, const Elf64_Phdr *header)
{
	struct elf_segment *segment = &object->segments[object->segment_count];

	if (object->segment_count == ELF_SEGMENTS_MAX)
		return false;
	segment->start = object->base + header->p_vaddr;
	segment->protection = protection_of(header->p_flags);
	if (__builtin_add_overflow(segment->start, header->p_memsz, &segment->end))
		return false;
	object->segment_count++;
	return true;
}

/* Takes the PT_LOADs, if these are this object's headers at all: their PT_DYNAMIC is where ld.so found it. */
static bool segments_load(struct elf_object *object, const Elf64_Phdr *headers, unsigned count)
{
	bool has_dynamic = false;

	object->segment_count = 0;
	for (unsigned i = 0; i < count; i++) {
		if (headers[i].p_type == PT_DYNAMIC)
			has_dynamic |= object->base + headers[i].p_vaddr == (uintptr_t)object->map->l_ld;
		else if (headers[i].p_type == PT_LOAD && !segment_add(object, &headers[i]))
			return false;
	}
	return has_dynamic;
}

/* Only headers on the first page, which is the object's own: what lies behind it may be anything. */
static bool segments_load_mapped(struct elf_object *object)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)object->base;

	if (!object->base || object->base % PAGE || !is_readable(object->base) || !is_elf_header(header))
		return false;
	if (header->e_phoff % _Alignof(Elf64_Phdr) || header->e_phoff > PAGE ||
	    header->e_phoff + header->e_phnum * sizeof(Elf64_Phdr) > PAGE)
		return false;
	return segments_load(object, (const Elf64_Phdr *)(object->base + header->e_phoff), header->e_phnum);
}

static bool segments_load_file(struct elf_object *object)
{
	Elf64_Ehdr header;
	Elf64_Phdr headers[HEADERS_MAX];
	int fd CLEANUP_CLOSE = -1;
	long size;

	if (!object->map->l_name || !object->map->l_name[0])
		return false;
	fd = sys_open(object->map->l_name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 || sys_pread(fd, &header, sizeof header, 0) != (long)sizeof header ||
	    !is_elf_header(&header))
		return false;
	size = (long)(header.e_phnum * sizeof(Elf64_Phdr));
	return sys_pread(fd, headers, (size_t)size, header.e_phoff) == size &&
	       segments_load(object, headers, header.e_phnum);
}

/* Where the segment around address ends, or 0: nothing there may be touched. */
static uintptr_t segment_end(const struct elf_object *object, uintptr_t address)
{
	for (unsigned i = 0; i < object->segment_count; i++) {
		const struct elf_segment *segment = &object->segments[i];

		if (address >= segment->start && address < segment->end && segment->protection & PROT_READ)
			return segment->end;
	}
	return 0;
}

/* A d_ptr is an address after ld.so has relocated the section, an offset in a section that it could not
 * write. */
static uintptr_t resolve(struct elf_object *object, Elf64_Addr pointer, size_t alignment, uintptr_t *end)
{
	uintptr_t address = pointer;

	*end = segment_end(object, address);
	if (!*end) {
		address = object->base + pointer;
		*end = segment_end(object, address);
	}
	if (!*end || address % alignment)
		return 0;
	*end -= (*end - address) % alignment;
	return address;
}

/* The end of the string table is cut back to its last terminator, so that no string in it runs out of it. */
static void strings_close(struct elf_object *object, uintptr_t end)
{
	if (!object->strings)
		return;
	if (object->strings_size > end - (uintptr_t)object->strings)
		object->strings_size = end - (uintptr_t)object->strings;
	while (object->strings_size && object->strings[object->strings_size - 1])
		object->strings_size--;
}

static void symbols_load(struct elf_object *object, Elf64_Dyn *entry)
{
	uintptr_t end, address = resolve(object, entry->d_un.d_ptr, _Alignof(Elf64_Sym), &end);

	if (!address)
		return;
	object->symtab_entry = entry;
	object->is_relocated = address == entry->d_un.d_ptr;
	object->symbols = (Elf64_Sym *)address;
	object->symbols_end = object->symbols + (end - address) / sizeof(Elf64_Sym);
}

static void words_load(struct elf_object *object, const Elf64_Dyn *entry, const uint32_t **words,
		       const uint32_t **words_end)
{
	uintptr_t end = 0;

	*words = (const uint32_t *)resolve(object, entry->d_un.d_ptr, sizeof(uint32_t), &end);
	*words_end = (const uint32_t *)end;
}

static void versions_load(struct elf_object *object, const Elf64_Dyn *entry)
{
	uintptr_t end = 0;

	object->versions = (const uint16_t *)resolve(object, entry->d_un.d_ptr, sizeof(uint16_t), &end);
	object->versions_end = (const uint16_t *)end;
}

static bool dynamic_load(struct elf_object *object)
{
	uintptr_t dynamic = (uintptr_t)object->map->l_ld, end = segment_end(object, dynamic), strings_end = 0;
	Elf64_Xword soname = 0;

	if (!end || dynamic % _Alignof(Elf64_Dyn))
		return false;
	for (Elf64_Dyn *d = object->map->l_ld; (end - (uintptr_t)d) / sizeof *d && d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			symbols_load(object, d);
			break;
		case DT_STRTAB:
			object->strings = (const char *)resolve(object, d->d_un.d_ptr, 1, &strings_end);
			break;
		case DT_STRSZ:
			object->strings_size = d->d_un.d_val;
			break;
		case DT_GNU_HASH:
			words_load(object, d, &object->gnu_hash, &object->gnu_hash_end);
			break;
		case DT_HASH:
			words_load(object, d, &object->hash, &object->hash_end);
			break;
		case DT_VERSYM:
			versions_load(object, d);
			break;
		case DT_SONAME:
			soname = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	strings_close(object, strings_end);
	if (soname && object->strings && soname < object->strings_size)
		object->soname = object->strings + soname;
	return object->symbols && object->strings && object->strings_size &&
	       (object->gnu_hash || object->hash);
}

static void object_init(struct elf_object *object, struct link_map *map)
{
	bytes_clear(object, offsetof(struct elf_object, segments));
	object->map = map;
	object->base = map->l_addr;
	object->soname = "";
}

bool elf_object_load(struct elf_object *object, struct link_map *map)
{
	object_init(object, map);
	return map->l_ld && (segments_load_mapped(object) || segments_load_file(object)) &&
	       dynamic_load(object);
}

bool elf_object_load_at(struct elf_object *object, struct link_map *map, const Elf64_Phdr *headers,
			unsigned count)
{
	object_init(object, map);
	return map->l_ld && headers && segments_load(object, headers, count) && dynamic_load(object);
}
