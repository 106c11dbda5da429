/* See memory.h. The lock protects objects and handles; it nests outside the oracle's lock and inside none.
 *
 * A dma-buf is a memfd that names its extent. Each export is an open file description of its own with a
 * shared lock on one byte; as long as any copy of one is open anywhere, our own description is refused that
 * byte. So the last close is noticed whatever process does it, and however it ends. */
#define _GNU_SOURCE
#include "memory.h"
#include "driver.h"
#include "log.h"
#include "real.h"
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ull
#define ALIGN_2M (2ull << 20)
#define CPU_ADDRESSES (1ull << 47)
#define DMABUF_MAGIC 0x6675622d616d6400ull
#define BACKED (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)

enum { MAX_HANDLES = 1 << 20 };

struct dmabuf_label {
	uint64_t magic, run, serial;
	uint32_t row, flags;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;
static struct object **handle_table;
static uint32_t handles_high;
static atomic_int user_mappings, exports;
static long vram_allocations;

void memory_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void memory_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

/* ---- handles ---- */

static int handle_add_locked(struct object *object, uint32_t gpu_id, __u64 *handle)
{
	uint32_t index = 0;

	if (!handle_table)
		handle_table = mmap(NULL, MAX_HANDLES * sizeof *handle_table, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	while (index < handles_high && handle_table[index])
		index++;
	if (index == MAX_HANDLES)
		return -ENOSPC;
	if (index == handles_high)
		handles_high++;
	handle_table[index] = object;
	*handle = (__u64)gpu_id << 32 | index;
	return 0;
}

static struct object **handle_slot_locked(uint64_t handle)
{
	uint32_t index = (uint32_t)handle;

	if (index >= handles_high || !handle_table[index] || driver_card((uint32_t)(handle >> 32)) < 0)
		return NULL;
	return &handle_table[index];
}

/* ---- objects ---- */

static struct object *object_new_locked(int card, uint64_t size, uint32_t flags)
{
	struct object *object = calloc(1, sizeof *object);

	if (!object)
		return NULL;
	object->card = card;
	object->size = size;
	object->flags = flags;
	object->row = -1;
	object->dmabuf_fd = -1;
	object->references = 1;
	object->next = objects;
	objects = object;
	return object;
}

static void object_unlink_locked(struct object *object)
{
	struct object **link = &objects;

	while (*link != object)
		link = &(*link)->next;
	*link = object->next;
	free(object);
}

static bool is_to_fail(long nth)
{
	return settings()->fail_nth && nth >= settings()->fail_nth &&
	       nth < settings()->fail_nth + settings()->fail_count;
}

static int take_extent_locked(struct object *object, enum kind kind)
{
	const struct driver *own = driver();
	bool is_vram = object->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
	int outcome = STATE_NO_VRAM;

	if (is_vram && is_to_fail(++vram_allocations))
		return -ENOMEM;
	for (int try = 0; try < 2 && outcome != STATE_DONE; try++) {
		if (try)
			driver_reap();
		state_lock(own->state);
		outcome = state_take_locked(own->state, own->process, object->card, object->size, is_vram,
					    kind, &object->row);
		if (outcome == STATE_DONE) {
			object->offset = own->state->extent[object->row].offset;
			object->serial = own->state->extent[object->row].serial;
			own->state->extent[object->row].is_executable =
			    !!(object->flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE);
		}
		state_unlock(own->state);
	}
	return outcome == STATE_DONE ? 0 : -ENOMEM;
}

static void drop_extent_locked(struct object *object)
{
	const struct driver *own = driver();
	bool is_last;

	state_lock(own->state);
	is_last = state_drop_locked(own->state, object->row, own->process);
	state_unlock(own->state);
	if (is_last)
		driver_discard(object->offset, object->size);
}

int object_create_locked(int card, uint64_t size, uint32_t flags, enum kind kind, struct object **out)
{
	struct object *object = object_new_locked(card, size, flags);
	int error;

	if (!object)
		return -ENOMEM;
	error = flags & BACKED ? take_extent_locked(object, kind) : 0;
	if (error) {
		object_unlink_locked(object);
		return error;
	}
	*out = object;
	return 0;
}

void object_put_locked(struct object *object)
{
	if (--object->references)
		return;
	if (object->row >= 0)
		drop_extent_locked(object);
	if (object->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR && object->user_address != object->address)
		atomic_fetch_sub(&user_mappings, 1);
	log_line("FREE card=%d size=%lu flags=%#x address=%#lx", object->card, object->size, object->flags,
		 object->address);
	object_unlink_locked(object);
}

static void map_on_cpu(const struct object *object, uint64_t address)
{
	if (!address || address >= CPU_ADDRESSES)
		return;
	if (mmap((void *)address, object->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 driver()->memory_fd, (off_t)object->offset) != MAP_FAILED)
		madvise((void *)address, object->size, MADV_DONTFORK);
}

/* ---- allocation ---- */

/* What memory is for, as far as its flags tell. The queue's and the code's own commands and content tell the
 * rest. */
static enum kind kind_by_flags(uint64_t size, uint32_t flags)
{
	bool is_executable = flags & KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;

	if (!(flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC))
		return is_executable ? KIND_QUEUE : KIND_SCRATCH;
	/* ROCr gives users whole 2 MiB blocks; code gets what it needs. */
	return is_executable && size % ALIGN_2M ? KIND_CODE : KIND_USER;
}

static const char *domain_name(uint32_t flags)
{
	static const char *const name[] = {"VRAM", "GTT", "USERPTR", "DOORBELL", "MMIO"};

	for (unsigned int bit = 0; bit < sizeof name / sizeof *name; bit++)
		if (flags >> bit & 1)
			return name[bit];
	return "?";
}

static void place_locked(struct object *object, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	object->address = args->va_addr;
	if (args->flags & BACKED) {
		map_on_cpu(object, object->address);
		args->mmap_offset = object->offset;
	} else if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		object->user_address = args->mmap_offset;
		if (object->user_address != object->address)
			atomic_fetch_add(&user_mappings, 1);
	} else if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		args->mmap_offset = (uint64_t)object->card << 33;
	} else if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
		args->mmap_offset = (1ull << 20) + (uint64_t)object->card * 65536;
	}
}

static int allocate_locked(struct kfd_ioctl_alloc_memory_of_gpu_args *args, int card)
{
	uint64_t size = (args->size + PAGE - 1) / PAGE * PAGE;
	struct object *object;
	int error = object_create_locked(card, size, args->flags, kind_by_flags(size, args->flags), &object);

	if (error)
		return error;
	error = handle_add_locked(object, args->gpu_id, &args->handle);
	if (error) {
		object_put_locked(object);
		return error;
	}
	place_locked(object, args);
	return 0;
}

int memory_allocate(struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	int card = driver_card(args->gpu_id);
	int error = -EINVAL;

	memory_collect();
	if (card >= 0 && args->size) {
		memory_lock();
		error = allocate_locked(args, card);
		memory_unlock();
	}
	log_line("ALLOC card=%d domain=%s size=%llu flags=%#x address=%#llx handle=%#llx result=%d", card,
		 domain_name(args->flags), args->size, args->flags, args->va_addr, args->handle, error);
	return error;
}

int memory_free(uint64_t handle)
{
	struct object **slot;
	struct object *object = NULL;

	memory_lock();
	slot = handle_slot_locked(handle);
	if (slot) {
		object = *slot;
		*slot = NULL;
		object_put_locked(object);
	}
	memory_unlock();
	memory_collect();
	return object ? 0 : -EINVAL;
}

static int check_handle(uint64_t handle)
{
	int error;

	memory_lock();
	error = handle_slot_locked(handle) ? 0 : -EINVAL;
	memory_unlock();
	return error;
}

int memory_map(struct kfd_ioctl_map_memory_to_gpu_args *args)
{
	int error = check_handle(args->handle);

	if (!error)
		args->n_success = args->n_devices;
	return error;
}

int memory_unmap(struct kfd_ioctl_unmap_memory_from_gpu_args *args)
{
	int error = check_handle(args->handle);

	if (!error)
		args->n_success = args->n_devices;
	return error;
}

int memory_available(struct kfd_ioctl_get_available_memory_args *args)
{
	const struct driver *own = driver();
	int card = driver_card(args->gpu_id);

	if (card < 0)
		return -EINVAL;
	memory_collect();
	driver_reap();
	state_lock(own->state);
	args->available = state_available_locked(own->state, card);
	state_unlock(own->state);
	log_line("AVAILABLE card=%d bytes=%llu", card, args->available);
	return 0;
}

/* ---- dma-bufs ---- */

static int dmabuf_lock(int fd, int command, struct flock *lock, short type)
{
	*lock = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	return fcntl(fd, command, lock) ? -errno : 0;
}

static int dmabuf_create_locked(struct object *object)
{
	struct dmabuf_label label = {DMABUF_MAGIC, driver()->state->run, object->serial,
				     (uint32_t)object->row, object->flags};
	int fd = driver_raise(memfd_create("kfdemu-dmabuf", MFD_CLOEXEC));

	if (fd < 0 || ftruncate(fd, (off_t)object->size) ||
	    pwrite(fd, &label, sizeof label, 0) != sizeof label)
		return -ENOMEM;
	object->dmabuf_fd = fd;
	object->references++;
	atomic_fetch_add(&exports, 1);
	return 0;
}

int object_export_locked(struct object *object)
{
	struct flock lock;
	int error = object->row < 0 ? -EINVAL : 0;
	int fd;

	if (!error && object->dmabuf_fd < 0)
		error = dmabuf_create_locked(object);
	if (error)
		return error;
	fd = driver_reopen(object->dmabuf_fd);
	if (fd >= 0)
		dmabuf_lock(fd, F_OFD_SETLK, &lock, F_RDLCK);
	return fd;
}

static bool has_open_dmabuf(const struct object *object)
{
	struct flock lock;

	return !dmabuf_lock(object->dmabuf_fd, F_OFD_GETLK, &lock, F_WRLCK) && lock.l_type != F_UNLCK;
}

void memory_collect(void)
{
	struct object *object, *next;

	if (!atomic_load_explicit(&exports, memory_order_relaxed))
		return;
	memory_lock();
	for (object = objects; object; object = next) {
		next = object->next;
		if (object->dmabuf_fd < 0 || has_open_dmabuf(object))
			continue;
		real()->close(object->dmabuf_fd);
		object->dmabuf_fd = -1;
		atomic_fetch_sub(&exports, 1);
		object_put_locked(object);
	}
	memory_unlock();
}

static int read_label(int fd, struct dmabuf_label *label)
{
	const struct driver *own = driver();

	if (pread(fd, label, sizeof *label, 0) != sizeof *label || label->magic != DMABUF_MAGIC ||
	    label->run != own->state->run || label->row >= MAX_EXTENTS)
		return -EINVAL;
	return 0;
}

static struct object *find_serial_locked(uint64_t serial)
{
	struct object *object = objects;

	while (object && (object->row < 0 || object->serial != serial))
		object = object->next;
	return object;
}

/* Another process's extent becomes an object here. */
static int adopt_locked(const struct dmabuf_label *label, struct object **out)
{
	const struct driver *own = driver();
	const struct state_extent *extent = &own->state->extent[label->row];
	struct object *object = object_new_locked(0, 0, label->flags);
	int error = -EINVAL;

	if (!object)
		return -ENOMEM;
	state_lock(own->state);
	if (extent->size && extent->serial == label->serial) {
		state_hold_locked(own->state, (int)label->row, own->process);
		object->row = (int)label->row;
		object->card = extent->card;
		object->size = extent->size;
		object->offset = extent->offset;
		object->serial = extent->serial;
		error = 0;
	}
	state_unlock(own->state);
	if (error)
		object_unlink_locked(object);
	else
		*out = object;
	return error;
}

static int import_label_locked(const struct dmabuf_label *label, struct object **out)
{
	struct object *known = find_serial_locked(label->serial);

	if (!known)
		return adopt_locked(label, out);
	known->references++;
	*out = known;
	return 0;
}

int object_import_locked(int fd, struct object **out)
{
	struct dmabuf_label label;
	int error = read_label(fd, &label);

	return error ? error : import_label_locked(&label, out);
}

int memory_dmabuf_info(struct kfd_ioctl_get_dmabuf_info_args *args)
{
	struct object *object;
	int error;

	memory_lock();
	error = object_import_locked((int)args->dmabuf_fd, &object);
	if (!error) {
		args->size = object->size;
		args->metadata_size = 0;
		args->gpu_id = (uint32_t)driver_gpu_id(object->card);
		args->flags = object->flags;
		object_put_locked(object);
	}
	memory_unlock();
	return error;
}

static int give_handle_locked(struct object *object, uint32_t gpu_id, uint64_t address, __u64 *handle)
{
	int error = handle_add_locked(object, gpu_id, handle);

	if (error)
		object_put_locked(object);
	else
		map_on_cpu(object, address);
	return error;
}

int memory_import(struct kfd_ioctl_import_dmabuf_args *args)
{
	struct object *object;
	int error = driver_card(args->gpu_id) < 0 ? -EINVAL : 0;

	memory_lock();
	if (!error)
		error = object_import_locked((int)args->dmabuf_fd, &object);
	if (!error)
		error = give_handle_locked(object, args->gpu_id, args->va_addr, &args->handle);
	memory_unlock();
	log_line("IMPORT gpu_id=%#x address=%#llx handle=%#llx result=%d", args->gpu_id, args->va_addr,
		 args->handle, error);
	return error;
}

/* The name that one process tells another: what a dma-buf's label says, without a descriptor. */
int memory_ipc_export(struct kfd_ioctl_ipc_export_args *args)
{
	struct object **slot;
	int error = -EINVAL;

	memory_lock();
	slot = handle_slot_locked(args->handle);
	if (slot && (*slot)->row >= 0) {
		args->share_handle[0] = (uint32_t)(*slot)->serial;
		args->share_handle[1] = (uint32_t)driver()->state->run;
		args->share_handle[2] = (uint32_t)(*slot)->row;
		args->share_handle[3] = (*slot)->flags;
		error = 0;
	}
	memory_unlock();
	log_line("IPC_EXPORT handle=%#llx result=%d", args->handle, error);
	return error;
}

int memory_ipc_import(struct kfd_ioctl_ipc_import_args *args)
{
	struct dmabuf_label label = {
	    .serial = args->share_handle[0], .row = args->share_handle[2], .flags = args->share_handle[3]};
	bool is_ours = args->share_handle[1] == (uint32_t)driver()->state->run && label.row < MAX_EXTENTS;
	struct object *object;
	int error = driver_card(args->gpu_id) < 0 || !is_ours ? -EINVAL : 0;

	memory_lock();
	if (!error)
		error = import_label_locked(&label, &object);
	if (!error)
		error = give_handle_locked(object, args->gpu_id, args->va_addr, &args->handle);
	if (!error) {
		args->mmap_offset = object->offset;
		args->flags = object->flags;
	}
	memory_unlock();
	log_line("IPC_IMPORT gpu_id=%#x address=%#llx handle=%#llx result=%d", args->gpu_id, args->va_addr,
		 args->handle, error);
	return error;
}

int memory_export(struct kfd_ioctl_export_dmabuf_args *args)
{
	struct object **slot;
	int fd = -EINVAL;

	memory_lock();
	slot = handle_slot_locked(args->handle);
	if (slot)
		fd = object_export_locked(*slot);
	memory_unlock();
	if (fd >= 0)
		args->dmabuf_fd = (uint32_t)fd;
	log_line("EXPORT handle=%#llx result=%d", args->handle, fd);
	return fd < 0 ? fd : 0;
}

/* ---- looking up by address ---- */

static struct object *find_address_locked(uint64_t address)
{
	struct object *object = objects;

	while (object &&
	       !(object->address && address >= object->address && address - object->address < object->size))
		object = object->next;
	return object;
}

void *memory_pointer(uint64_t address)
{
	const struct object *object;

	if (!atomic_load_explicit(&user_mappings, memory_order_relaxed))
		return (void *)address;
	memory_lock();
	object = find_address_locked(address);
	if (object && object->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		address = object->user_address + (address - object->address);
	memory_unlock();
	return (void *)address;
}

struct memory_view memory_view(uint64_t address)
{
	struct memory_view view = {.base = NULL};
	const struct object *object;

	memory_lock();
	object = find_address_locked(address);
	if (object && object->row >= 0) {
		view.size = object->size;
		view.at = address - object->address;
		view.base = mmap(NULL, object->size, PROT_READ, MAP_SHARED, driver()->memory_fd,
				 (off_t)object->offset);
		if (view.base == MAP_FAILED)
			view.base = NULL;
	}
	memory_unlock();
	return view;
}

void object_set_kind_locked(struct object *object, enum kind kind)
{
	struct state *state = driver()->state;

	state_lock(state);
	state_set_kind_locked(state, object->row, kind);
	state_unlock(state);
}

void memory_set_kind(uint64_t address, enum kind kind)
{
	struct object *object;

	memory_lock();
	object = find_address_locked(address);
	if (object && object->row >= 0)
		object_set_kind_locked(object, kind);
	memory_unlock();
}

void memory_forget(void)
{
	for (struct object *object = objects; object; object = object->next)
		if (object->dmabuf_fd >= 0)
			real()->close(object->dmabuf_fd);
	objects = NULL; /* leaked: the allocator may have been locked by another thread at the fork */
	handle_table = NULL;
	handles_high = 0;
	atomic_store(&user_mappings, 0);
	atomic_store(&exports, 0);
	vram_allocations = 0;
	pthread_mutex_init(&mutex, NULL);
}
