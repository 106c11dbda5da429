/* See drm.h. Under memory's lock: GEM handles refer to its objects. */
#define _GNU_SOURCE
#include "drm.h"
#include "driver.h"
#include "log.h"
#include "memory.h"
#include "real.h"
#include "settings.h"
#include "uapi.h"

#include <asm/ioctl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CPU_ADDRESSES (1ull << 47)
/* Where libdrm takes addresses from: far from what a program uses, so that mapping them on the CPU hurts
 * nobody. */
#define FIRST_ADDRESS (1ull << 44)

enum { MAX_GEM = 4096, GEM_LIMIT = MAX_GEM - 1 };

struct drm_file {
	uint64_t tag;
	int card;
	struct object *gem[MAX_GEM]; /* by handle; 0 is none */
	struct drm_file *next;
};

static struct drm_file *files;
static atomic_int file_count;

/* ---- files ---- */

static int tag_lock(int fd, int command, struct flock *lock, uint64_t tag, short type)
{
	*lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)tag, .l_len = 1};
	return fcntl(fd, command, lock) ? -errno : 0;
}

int drm_open(int card, bool is_primary)
{
	struct state *state = driver()->state;
	int fd = driver_reopen(driver()->memory_fd);
	struct flock lock;
	uint64_t tag;

	if (fd < 0)
		return fd;
	state_lock(state);
	tag = state->next_tag++ * MAX_CARDS + (uint64_t)card + (is_primary ? DRM_PRIMARY : 0);
	state_unlock(state);
	lseek(fd, (off_t)tag, SEEK_SET);
	tag_lock(fd, F_OFD_SETLK, &lock, tag, F_RDLCK);
	log_line("OPEN %s node of card=%d tag=%lu", is_primary ? "primary" : "render", card, tag);
	return fd;
}

static struct drm_file *file_locked(uint64_t tag)
{
	struct drm_file *file = files;

	while (file && file->tag != tag)
		file = file->next;
	if (file)
		return file;
	file = calloc(1, sizeof *file);
	if (!file)
		return NULL;
	*file = (struct drm_file){.tag = tag, .card = (int)(tag % MAX_CARDS), .next = files};
	files = file;
	atomic_fetch_add(&file_count, 1);
	return file;
}

static bool is_open(uint64_t tag)
{
	struct flock lock;

	return !tag_lock(driver()->memory_fd, F_OFD_GETLK, &lock, tag, F_WRLCK) && lock.l_type != F_UNLCK;
}

static void file_end_locked(struct drm_file *file)
{
	for (int handle = 1; handle <= GEM_LIMIT; handle++)
		if (file->gem[handle])
			object_put_locked(file->gem[handle]);
	log_line("CLOSE render node of card=%d tag=%lu", file->card, file->tag);
	free(file);
	atomic_fetch_sub(&file_count, 1);
}

void drm_collect(void)
{
	if (!atomic_load_explicit(&file_count, memory_order_relaxed))
		return;
	memory_lock();
	for (struct drm_file **link = &files; *link;) {
		struct drm_file *file = *link;

		if (is_open(file->tag)) {
			link = &file->next;
			continue;
		}
		*link = file->next;
		file_end_locked(file);
	}
	memory_unlock();
}

void drm_forget(void)
{
	files = NULL;
	atomic_store(&file_count, 0);
}

/* ---- GEM handles ---- */

static int gem_add_locked(struct drm_file *file, struct object *object, uint32_t *handle)
{
	uint32_t index = 1;

	while (index <= GEM_LIMIT && file->gem[index])
		index++;
	if (index > GEM_LIMIT)
		return -ENOSPC;
	file->gem[index] = object;
	*handle = index;
	return 0;
}

static struct object *gem_find_locked(const struct drm_file *file, uint32_t handle)
{
	return handle && handle <= GEM_LIMIT ? file->gem[handle] : NULL;
}

static int gem_close(struct drm_file *file, struct drm_gem_close *args)
{
	struct object *object = gem_find_locked(file, args->handle);

	if (!object)
		return -EINVAL;
	file->gem[args->handle] = NULL;
	object_put_locked(object);
	return 0;
}

static int gem_create(struct drm_file *file, union drm_amdgpu_gem_create *args)
{
	bool is_vram = args->in.domains & AMDGPU_GEM_DOMAIN_VRAM;
	uint64_t size = (args->in.bo_size + 4095) / 4096 * 4096;
	struct object *object;
	uint32_t handle = 0;
	int error =
	    size ? object_create_locked(file->card, size,
					is_vram ? KFD_IOC_ALLOC_MEM_FLAGS_VRAM : KFD_IOC_ALLOC_MEM_FLAGS_GTT,
					KIND_OTHER, &object)
		 : -EINVAL;

	if (error)
		return error;
	error = gem_add_locked(file, object, &handle);
	if (error) {
		object_put_locked(object);
		return error;
	}
	memset(args, 0, sizeof *args);
	args->out.handle = handle;
	return 0;
}

static int gem_mmap(struct drm_file *file, union drm_amdgpu_gem_mmap *args)
{
	const struct object *object = gem_find_locked(file, args->in.handle);

	if (!object)
		return -ENOENT;
	args->out.addr_ptr = object->offset;
	return 0;
}

static int gem_metadata(struct drm_file *file, struct drm_amdgpu_gem_metadata *args)
{
	const struct object *object = gem_find_locked(file, args->handle);
	struct state_metadata *kept;

	if (!object || object->row < 0)
		return -ENOENT;
	if (args->data.data_size_bytes > sizeof kept->words)
		return -EINVAL;
	kept = &driver()->state->metadata[object->row];
	if (args->op == AMDGPU_GEM_METADATA_OP_SET_METADATA) {
		kept->flags = args->data.flags;
		kept->tiling = args->data.tiling_info;
		kept->bytes = args->data.data_size_bytes;
		memcpy(kept->words, args->data.data, sizeof kept->words);
		return 0;
	}
	args->data.flags = kept->flags;
	args->data.tiling_info = kept->tiling;
	args->data.data_size_bytes = kept->bytes;
	memcpy(args->data.data, kept->words, sizeof kept->words);
	return 0;
}

static int gem_op(struct drm_file *file, struct drm_amdgpu_gem_op *args)
{
	const struct object *object = gem_find_locked(file, args->handle);
	struct drm_amdgpu_gem_create_in *creation = (void *)(uintptr_t)args->value;

	if (!object)
		return -ENOENT;
	if (args->op == AMDGPU_GEM_OP_GET_GEM_CREATE_INFO)
		*creation = (struct drm_amdgpu_gem_create_in){
		    .bo_size = object->size,
		    .alignment = 4096,
		    .domains = object->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM ? AMDGPU_GEM_DOMAIN_VRAM
									    : AMDGPU_GEM_DOMAIN_GTT};
	return 0;
}

static int gem_wait_idle(struct drm_file *file, union drm_amdgpu_gem_wait_idle *args)
{
	if (!gem_find_locked(file, args->in.handle))
		return -ENOENT;
	args->out.status = 0;
	args->out.domain = 0;
	return 0;
}

/* Card addresses below 2^47 are CPU addresses too: queues are carried out by this process. */
static int gem_va(struct drm_file *file, struct drm_amdgpu_gem_va *args)
{
	const struct object *object = gem_find_locked(file, args->handle);
	bool maps = args->operation == AMDGPU_VA_OP_MAP || args->operation == AMDGPU_VA_OP_REPLACE;
	void *at = (void *)(uintptr_t)args->va_address, *mapped;

	if (maps && !object)
		return -ENOENT;
	if (args->va_address >= CPU_ADDRESSES)
		return 0;
	if (maps)
		mapped = mmap(at, args->map_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			      driver()->memory_fd, (off_t)(object->offset + args->offset_in_bo));
	else
		mapped = mmap(at, args->map_size, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return mapped == MAP_FAILED ? -ENOMEM : 0;
}

static int prime_to_fd(struct drm_file *file, struct drm_prime_handle *args)
{
	struct object *object = gem_find_locked(file, args->handle);
	int fd = object ? object_export_locked(object) : -ENOENT;

	if (fd >= 0)
		args->fd = fd;
	return fd < 0 ? fd : 0;
}

static int prime_to_handle(struct drm_file *file, struct drm_prime_handle *args)
{
	struct object *object;
	int error = object_import_locked(args->fd, &object);

	if (error)
		return error;
	for (uint32_t handle = 1; handle <= GEM_LIMIT; handle++)
		if (file->gem[handle] == object) {
			args->handle = handle;
			object_put_locked(object);
			return 0;
		}
	error = gem_add_locked(file, object, &args->handle);
	if (error)
		object_put_locked(object);
	return error;
}

/* ---- what the card is ---- */

static void copy_text(char *to, __kernel_size_t *size, const char *text)
{
	if (to && *size)
		memcpy(to, text, *size < strlen(text) ? *size : strlen(text));
	*size = strlen(text);
}

static int get_version(struct drm_file *file, struct drm_version *args)
{
	(void)file;
	args->version_major = 3;
	args->version_minor = 57;
	args->version_patchlevel = 0;
	copy_text(args->name, &args->name_len, "amdgpu");
	copy_text(args->date, &args->date_len, "20150101");
	copy_text(args->desc, &args->desc_len, "AMD GPU");
	return 0;
}

static int get_client(struct drm_file *file, struct drm_client *args)
{
	(void)file;
	args->auth = 1;
	return 0;
}

static int get_cap(struct drm_file *file, struct drm_get_cap *args)
{
	(void)file;
	args->value = args->capability == DRM_CAP_PRIME ? DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT : 0;
	return 0;
}

static struct drm_amdgpu_info_device device_of(int card)
{
	return (struct drm_amdgpu_info_device){.device_id = 0x740f,
					       .chip_rev = 1,
					       .external_rev = 0x3c,
					       .pci_rev = 1,
					       .family = AMDGPU_FAMILY_AI,
					       .num_shader_engines = 8,
					       .num_shader_arrays_per_engine = 1,
					       .gpu_counter_freq = 100000,
					       .max_engine_clock = 1700000,
					       .max_memory_clock = 1600000,
					       .cu_active_number = 104,
					       .num_rb_pipes = 4,
					       .enabled_rb_pipes_mask = 15,
					       .vram_bit_width = 4096,
					       .vram_type = AMDGPU_VRAM_TYPE_HBM,
					       .virtual_address_offset = FIRST_ADDRESS,
					       .virtual_address_max = FIRST_ADDRESS * 2,
					       .virtual_address_alignment = 4096,
					       .pte_fragment_size = 2 << 20,
					       .gart_page_size = 4096,
					       .wave_front_size = 64,
					       .high_va_offset =
						   0xffff800000000000ull + ((uint64_t)card << 40),
					       .high_va_max = 0xffffff0000000000ull};
}

static struct drm_amdgpu_memory_info memory_of(int card)
{
	const struct state_card *state = &driver()->state->card[card];
	struct drm_amdgpu_heap_info vram = {.total_heap_size = state->capacity,
					    .usable_heap_size = state->capacity,
					    .heap_usage = state->used.now,
					    .max_allocation = state->capacity * 3 / 4};
	struct drm_amdgpu_heap_info gtt = {
	    .total_heap_size = 8ull << 30, .usable_heap_size = 8ull << 30, .max_allocation = 6ull << 30};

	return (struct drm_amdgpu_memory_info){.vram = vram, .cpu_accessible_vram = vram, .gtt = gtt};
}

static int answer(const struct drm_amdgpu_info *args, const void *value, size_t size)
{
	memcpy((void *)(uintptr_t)args->return_pointer, value,
	       size < args->return_size ? size : args->return_size);
	return 0;
}

static int get_info(struct drm_file *file, struct drm_amdgpu_info *args)
{
	struct drm_amdgpu_info_device device = device_of(file->card);
	struct drm_amdgpu_memory_info memory = memory_of(file->card);
	struct drm_amdgpu_info_vram_gtt sizes = {.vram_size = memory.vram.total_heap_size,
						 .vram_cpu_accessible_size = memory.vram.total_heap_size,
						 .gtt_size = memory.gtt.total_heap_size};
	static const uint32_t zeros[64];
	uint32_t yes = 1;

	switch (args->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		return answer(args, &yes, sizeof yes);
	case AMDGPU_INFO_DEV_INFO:
		return answer(args, &device, sizeof device);
	case AMDGPU_INFO_MEMORY:
		return answer(args, &memory, sizeof memory);
	case AMDGPU_INFO_VRAM_GTT:
		return answer(args, &sizes, sizeof sizes);
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		return answer(args, &memory.vram.heap_usage, sizeof memory.vram.heap_usage);
	case AMDGPU_INFO_READ_MMR_REG:
	case AMDGPU_INFO_FW_VERSION:
	case AMDGPU_INFO_HW_IP_INFO:
	case AMDGPU_INFO_HW_IP_COUNT:
	case AMDGPU_INFO_GTT_USAGE:
		return answer(args, zeros,
			      args->return_size < sizeof zeros ? args->return_size : sizeof zeros);
	default:
		log_line("REFUSED amdgpu info query %#x", args->query);
		return -EINVAL;
	}
}

/* ---- the table ---- */

typedef int command_function(struct drm_file *file, void *args);

#define COMMAND(number, function) [number] = (command_function *)(void (*)(void))(function)

static command_function *const commands[256] = {
    COMMAND(0x00, get_version),
    COMMAND(0x05, get_client),
    COMMAND(0x09, gem_close),
    COMMAND(0x0c, get_cap),
    COMMAND(0x2d, prime_to_fd),
    COMMAND(0x2e, prime_to_handle),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE, gem_create),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP, gem_mmap),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_INFO, get_info),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA, gem_metadata),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_WAIT_IDLE, gem_wait_idle),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_VA, gem_va),
    COMMAND(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP, gem_op),
};

static int command_locked(uint64_t tag, unsigned int number, void *args)
{
	struct drm_file *file = file_locked(tag);

	return file ? commands[number](file, args) : -ENOMEM;
}

int drm_command(int fd, uint64_t tag, unsigned long command, void *args)
{
	unsigned int number = _IOC_NR(command);
	int error;

	(void)fd;
	if (!commands[number]) {
		log_unknown("UNKNOWN drm command %#lx", command);
		return -EINVAL;
	}
	memory_lock();
	error = command_locked(tag, number, args);
	memory_unlock();
	log_line("DRM command=%#lx tag=%lu result=%d", command, tag, error);
	memory_collect();
	return error;
}
