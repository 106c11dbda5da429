/* See kernels.h. The kernels' arguments: clr, rocclr/device/blitcl.cpp of each release; 5.x and 6+ differ. */
#include "kernels.h"
#include "log.h"
#include "memory.h"
#include "real.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_KNOWN = 1024, NAME_BYTES = 64, PIECE_BYTES = 65536 };

struct dispatch {
	uint16_t header, setup, workgroup[3], reserved;
	uint32_t grid[3], private_bytes, group_bytes;
	uint64_t kernel, arguments;
};

/* The start of a kernel descriptor in the card's memory (LLVM's AMDGPU guide, "Kernel Descriptor"). */
struct descriptor {
	uint32_t group_bytes, private_bytes, argument_bytes;
};

static struct known {
	uint64_t kernel;
	uint32_t argument_bytes;
	char name[NAME_BYTES];
} known[MAX_KNOWN];
static int known_count;

/* ---- names ---- */

/* The parts of a loaded code object; pointers into a view of the memory. */
struct code_object {
	const uint8_t *base;
	uint64_t size;
	const Elf64_Sym *symbols;
	uint64_t symbol_count;
	const char *names;
};

static const Elf64_Dyn *find_dynamic(const struct code_object *code, uint64_t *count)
{
	const Elf64_Ehdr *head = (const void *)code->base;
	const Elf64_Phdr *segment = (const void *)(code->base + head->e_phoff);

	if (head->e_phoff + head->e_phnum * sizeof *segment > code->size)
		return NULL;
	for (int i = 0; i < head->e_phnum; i++) {
		if (segment[i].p_type != PT_DYNAMIC || segment[i].p_vaddr + segment[i].p_memsz > code->size)
			continue;
		*count = segment[i].p_memsz / sizeof(Elf64_Dyn);
		return (const void *)(code->base + segment[i].p_vaddr);
	}
	return NULL;
}

/* Without a hash table the symbols end where the next section begins: good enough, each is checked. */
static bool open_code_object(struct code_object *code)
{
	uint64_t count = 0, symbols = 0, names = 0;
	const Elf64_Dyn *dynamic = find_dynamic(code, &count);

	for (uint64_t i = 0; dynamic && i < count && dynamic[i].d_tag != DT_NULL; i++) {
		if (dynamic[i].d_tag == DT_SYMTAB)
			symbols = dynamic[i].d_un.d_ptr;
		else if (dynamic[i].d_tag == DT_STRTAB)
			names = dynamic[i].d_un.d_ptr;
	}
	if (!symbols || names <= symbols || names >= code->size)
		return false;
	code->symbols = (const void *)(code->base + symbols);
	code->symbol_count = (names - symbols) / sizeof(Elf64_Sym);
	code->names = (const char *)code->base + names;
	return true;
}

static const char *find_symbol(const struct code_object *code, uint64_t value)
{
	uint64_t name_bytes = code->size - (uint64_t)((const uint8_t *)code->names - code->base);

	for (uint64_t i = 1; i < code->symbol_count; i++)
		if (code->symbols[i].st_value == value && code->symbols[i].st_name < name_bytes &&
		    ELF64_ST_TYPE(code->symbols[i].st_info) == STT_OBJECT)
			return code->names + code->symbols[i].st_name;
	return NULL;
}

/* Goes back from the kernel page by page to the head of its code object. */
static const char *find_name(const struct memory_view *view)
{
	const uint8_t *base = view->base;

	for (uint64_t at = view->at / 4096 * 4096 + 4096; at; at -= 4096) {
		struct code_object code = {.base = base + at - 4096, .size = view->size - (at - 4096)};
		const char *name;

		if (memcmp(code.base, ELFMAG, SELFMAG) || !open_code_object(&code))
			continue;
		name = find_symbol(&code, view->at - (at - 4096));
		if (name)
			return name;
	}
	return NULL;
}

static void learn(struct known *entry, uint64_t kernel)
{
	struct memory_view view = memory_view(kernel);
	const char *name = view.base ? find_name(&view) : NULL;

	*entry = (struct known){.kernel = kernel};
	if (view.base)
		entry->argument_bytes =
		    ((const struct descriptor *)(const void *)((const uint8_t *)view.base + view.at))
			->argument_bytes;
	strncpy(entry->name, name ? name : "?", NAME_BYTES - 1);
	if (view.base) {
		real()->munmap(view.base, view.size);
		memory_set_kind(kernel, KIND_CODE);
	}
}

/* Code may be replaced at the same address, so a name is believed only while its descriptor is unchanged. */
static const struct known *find_kernel(uint64_t kernel)
{
	uint32_t argument_bytes = ((const struct descriptor *)memory_pointer(kernel))->argument_bytes;

	for (int i = 0; i < known_count; i++) {
		if (known[i].kernel != kernel)
			continue;
		if (known[i].argument_bytes != argument_bytes)
			learn(&known[i], kernel);
		return &known[i];
	}
	if (known_count == MAX_KNOWN)
		known_count = 0;
	learn(&known[known_count], kernel);
	return &known[known_count++];
}

void kernels_forget(void)
{
	known_count = 0;
}

/* ---- arguments ---- */

static uint64_t argument64(const uint8_t *arguments, int at)
{
	uint64_t value;

	memcpy(&value, arguments + at, sizeof value);
	return value;
}

static uint32_t argument32(const uint8_t *arguments, int at)
{
	uint32_t value;

	memcpy(&value, arguments + at, sizeof value);
	return value;
}

static uint8_t *pointer(const uint8_t *arguments, int at)
{
	return memory_pointer(argument64(arguments, at));
}

/* Four pointers come first, of which one is set: to bytes, 2, 4 or 8-byte elements. */
static uint8_t *typed_pointer(const uint8_t *arguments, uint32_t *element)
{
	int which = 0;

	while (which < 3 && !argument64(arguments, which * 8))
		which++;
	*element = 1u << which;
	return pointer(arguments, which * 8);
}

/* ---- kernels ---- */

/* Repeats PATTERN over SIZE bytes: what is written already is copied on, in pieces that stay in the cache. */
static void repeat(uint8_t *to, const uint8_t *pattern, uint64_t bytes, uint64_t size)
{
	uint64_t done = bytes < size ? bytes : size;

	if (!done)
		return;
	memcpy(to, pattern, done);
	while (done < size) {
		uint64_t piece = done < PIECE_BYTES ? done : PIECE_BYTES / bytes * bytes;

		if (piece > size - done || !piece)
			piece = size - done < done ? size - done : done;
		memcpy(to + done, to, piece);
		done += piece;
	}
}

static void fill_5(const uint8_t *arguments)
{
	uint32_t element, count = argument32(arguments, 40);
	uint8_t *to = typed_pointer(arguments, &element);
	uint64_t offset = argument64(arguments, 48), repeats = argument64(arguments, 56),
		 bytes = (uint64_t)count * element;

	repeat(to + element * offset, pointer(arguments, 32), bytes, bytes * repeats);
}

static void fill_6(const uint8_t *arguments)
{
	uint64_t bytes = (uint64_t)argument32(arguments, 16) * argument32(arguments, 20);
	uint64_t size = argument64(arguments, 24) - argument64(arguments, 0);

	repeat(pointer(arguments, 0), pointer(arguments, 8), bytes,
	       bytes ? (size + bytes - 1) / bytes * bytes : 0);
}

static void fill_2d(const uint8_t *arguments)
{
	uint32_t element, count = argument32(arguments, 40);
	uint8_t *to = typed_pointer(arguments, &element);
	const uint8_t *pattern = pointer(arguments, 32);
	uint64_t offset = argument64(arguments, 48), width = argument64(arguments, 56);
	uint64_t height = argument64(arguments, 64), pitch = argument64(arguments, 72);

	for (uint64_t y = 0; y < height; y++)
		for (uint64_t x = 0; x < width; x++)
			memcpy(to + element * (offset + y * pitch + x * count), pattern,
			       (size_t)count * element);
}

static void copy_rect(const uint8_t *arguments, uint64_t element)
{
	const uint8_t *from = pointer(arguments, 0), *source = arguments + 32, *target = arguments + 64;
	const uint8_t *size = arguments + 96;
	uint8_t *to = pointer(arguments, 8);

	for (uint64_t z = 0; z < argument64(size, 16); z++)
		for (uint64_t y = 0; y < argument64(size, 8); y++)
			memcpy(to + element * (argument64(target, 16) + z * argument64(target, 8) +
					       y * argument64(target, 0)),
			       from + element * (argument64(source, 16) + z * argument64(source, 8) +
						 y * argument64(source, 0)),
			       argument64(size, 0) * element);
}

static void copy_rect_bytes(const uint8_t *arguments)
{
	copy_rect(arguments, 1);
}

static void copy_rect_words(const uint8_t *arguments)
{
	copy_rect(arguments, 4);
}

static void copy_aligned(const uint8_t *arguments)
{
	memmove(pointer(arguments, 8) + 4 * argument64(arguments, 24),
		pointer(arguments, 0) + 4 * argument64(arguments, 16),
		argument64(arguments, 32) * argument32(arguments, 40));
}

static void copy_5(const uint8_t *arguments)
{
	memmove(pointer(arguments, 8) + argument64(arguments, 24),
		pointer(arguments, 0) + argument64(arguments, 16),
		(argument64(arguments, 32) - 1) * 4 + argument32(arguments, 40));
}

static void copy_6(const uint8_t *arguments)
{
	memmove(pointer(arguments, 8), pointer(arguments, 0), argument64(arguments, 16));
}

static void write_value(const uint8_t *arguments)
{
	if (argument64(arguments, 0))
		*(volatile uint32_t *)pointer(arguments, 0) = argument32(arguments, 16);
	else
		*(volatile uint64_t *)pointer(arguments, 8) = argument64(arguments, 16);
}

static void nothing(const uint8_t *arguments)
{
	(void)arguments;
}

/* Names after HIP's "__amd_rocclr_"; the first that NAME begins with counts. ROCM_5: arguments as in 5.x. */
static const struct {
	const char *name;
	void (*rocm_5)(const uint8_t *arguments);
	void (*rocm_6)(const uint8_t *arguments);
} emulated[] = {
    {"fillBufferAligned2D", fill_2d, fill_2d},
    {"fillBufferAligned", fill_5, fill_6},
    {"copyBufferRectAligned", copy_rect_words, copy_rect_words},
    {"copyBufferRect", copy_rect_bytes, copy_rect_bytes},
    {"copyBufferAligned", copy_aligned, copy_aligned},
    {"copyBufferToImage", NULL, NULL},
    {"copyBuffer", copy_5, copy_6},
    {"streamOpsWrite", write_value, write_value},
    {"streamOpsWait", nothing, nothing},
    {"initHeap", nothing, nothing},
    {"gwsInit", nothing, nothing},
};

/* fillBufferAligned: 5.x passes 64 bytes, later releases 40, and hidden arguments (none, 56 or 256 bytes)
 * after them. copyBuffer: as long in all; later releases pass an end of the source or the target where 5.x
 * passes a count. */
static bool is_within(uint64_t address, uint64_t start, uint64_t size)
{
	return address >= start && address - start <= size;
}

static bool has_5_arguments(const char *name, uint32_t argument_bytes, const uint8_t *arguments)
{
	if (!strncmp(name, "fillBufferAligned", 17))
		return argument_bytes == 64 || argument_bytes == 64 + 56 || argument_bytes == 64 + 256;
	if (strcmp(name, "copyBuffer.kd"))
		return false;
	return !is_within(argument64(arguments, 32), argument64(arguments, 0), argument64(arguments, 16)) &&
	       !is_within(argument64(arguments, 32), argument64(arguments, 8), argument64(arguments, 16));
}

static void run_blit(const struct known *kernel, const char *name, const uint8_t *arguments)
{
	for (size_t i = 0; i < sizeof emulated / sizeof *emulated; i++) {
		if (strncmp(name, emulated[i].name, strlen(emulated[i].name)))
			continue;
		if (!emulated[i].rocm_5)
			break;
		if (has_5_arguments(name, kernel->argument_bytes, arguments))
			emulated[i].rocm_5(arguments);
		else
			emulated[i].rocm_6(arguments);
		return;
	}
	log_unknown("UNKNOWN blit kernel %s: its data are not written", kernel->name);
}

/* ---- ROCr's own kernels ---- */

/* ROCr copies and fills by kernels that it brings as bare code, without a name (BlitKernel in its
 * amd_blit_kernel.cpp). They are told by their arguments, which are ranges that follow each other and the
 * size of the grid. */
enum { COPY_ALIGNED_ENDS = 5, COPY_MISALIGNED_ENDS = 3, FILL_ENDS = 3 };

static bool is_copy(const uint8_t *arguments, int ends, uint32_t grid)
{
	for (int i = 1; i < ends; i++) {
		int from = i * 16, to = i * 16 + 8;

		if (argument64(arguments, from) < argument64(arguments, from - 16) ||
		    argument64(arguments, from) - argument64(arguments, 0) !=
			argument64(arguments, to) - argument64(arguments, 8))
			return false;
	}
	return argument64(arguments, 0) && argument64(arguments, 8) &&
	       argument32(arguments, ends * 16) == grid;
}

static bool is_fill(const uint8_t *arguments, uint32_t grid)
{
	return argument64(arguments, 0) && argument64(arguments, 0) <= argument64(arguments, 8) &&
	       argument64(arguments, 8) <= argument64(arguments, 16) && argument32(arguments, 28) == grid;
}

static void copy_ranges(const uint8_t *arguments, int ends)
{
	memmove(pointer(arguments, 8), pointer(arguments, 0),
		argument64(arguments, (ends - 1) * 16) - argument64(arguments, 0));
}

static void fill_words(const uint8_t *arguments)
{
	uint32_t *to = (uint32_t *)(void *)pointer(arguments, 0);
	uint64_t count = (argument64(arguments, 16) - argument64(arguments, 0)) / sizeof *to;

	for (uint64_t i = 0; i < count; i++)
		to[i] = argument32(arguments, 24);
}

static void run_unnamed(const uint8_t *arguments, uint32_t grid)
{
	if (is_copy(arguments, COPY_ALIGNED_ENDS, grid))
		copy_ranges(arguments, COPY_ALIGNED_ENDS);
	else if (is_copy(arguments, COPY_MISALIGNED_ENDS, grid))
		copy_ranges(arguments, COPY_MISALIGNED_ENDS);
	else if (is_fill(arguments, grid))
		fill_words(arguments);
	else
		log_line("UNNAMED kernel: nothing done");
}

void kernels_run(const void *packet)
{
	static const char prefix[] = "__amd_rocclr_";
	const struct dispatch *dispatch = packet;
	const struct known *kernel = find_kernel(dispatch->kernel);
	const uint8_t *arguments = memory_pointer(dispatch->arguments);

	log_line("DISPATCH kernel=%s grid=%u,%u,%u argument_bytes=%u", kernel->name, dispatch->grid[0],
		 dispatch->grid[1], dispatch->grid[2], kernel->argument_bytes);
	if (!strncmp(kernel->name, prefix, sizeof prefix - 1))
		run_blit(kernel, kernel->name + sizeof prefix - 1, arguments);
	else if (!strcmp(kernel->name, "?"))
		run_unnamed(arguments, dispatch->grid[0]);
}
