/* See ioctl.h. */
#include "ioctl.h"

#include "descriptors.h"
#include "kfd_abi.h"
#include "memory.h"
#include "queues.h"
#include "topology.h"
#include "../hip/gate.h"
#include "../hip/migration.h"
#include "../hip/settings.h"
#include "../loader/program_libc.h"
#include "../sys/sys.h"

enum { IOCTL_COPIES = 8, ROCM_OBJECTS = 16 };

struct ioctl_copy {
	struct link_map *map;
	struct patch_result patched;
	void *original, *original_close;
};

static struct ioctl_copy copies[IOCTL_COPIES];

/* Where the code of ROCr and of its thunk is: ENOMEM outside of an allocation call would abort it. */
static struct {
	struct link_map *map;
	uintptr_t start, end;
} rocm[ROCM_OBJECTS];

/* One ioctl on its way down. */
struct call {
	ioctl_function real;
	int fd;
	uint32_t command;
	const void *caller;
};

static int go_on(const struct call *call, void *args)
{
	return call->real(call->fd, call->command, args);
}

static bool is_from_rocm(const struct call *call)
{
	uintptr_t caller = (uintptr_t)call->caller;

	for (unsigned i = 0; i < ROCM_OBJECTS; i++) {
		if (caller >= rocm[i].start && caller < rocm[i].end)
			return true;
	}
	return false;
}

static int fail(int error)
{
	if (program_libc.__errno_location)
		*program_libc.__errno_location() = error;
	return -1;
}

static uint64_t whole_pages(uint64_t size)
{
	return size > UINT64_MAX - 4095 ? UINT64_MAX : (size + 4095) & ~(uint64_t)4095;
}

/* Without a limit nothing is counted, and no region is made. */
static int device_of(const struct topology_gpu *gpu)
{
	return gpu && settings()->limited ? gpu->device : TOPOLOGY_NONE;
}

/* ---- KFD ---- */

static int kfd_alloc(const struct call *call, struct kfd_alloc_memory *args)
{
	struct physical p;
	uint64_t bytes = whole_pages(args->flags & KFD_ALLOC_AQL_QUEUE_MEM ? args->size / 2 : args->size);
	int result;

	if (!(args->flags & KFD_ALLOC_VRAM))
		return go_on(call, args);
	if (!physical_reserve(&p, device_of(topology_by_gpu_id(args->gpu_id)), bytes, !is_from_rocm(call)))
		return fail(ENOMEM);
	result = go_on(call, args);
	if (result)
		physical_withdraw(&p);
	else
		physical_hold(NAME_KFD_HANDLE, args->handle, physical_settle(&p));
	return result;
}

static int kfd_free(const struct call *call, struct kfd_free_memory *args)
{
	struct physical_taken taken = physical_take(NAME_KFD_HANDLE, args->handle);
	int result = go_on(call, args);

	if (result)
		physical_put_back(taken);
	else
		physical_drop(taken);
	return result;
}

/* The exporter stays charged, at least until its descriptor is closed; the inode is how an import in this process finds the
 * buffer. */
static void hold_dmabuf(int fd, uint64_t buffer)
{
	physical_hold(NAME_INODE, descriptors_exported(fd), buffer);
	physical_hold(NAME_DESCRIPTOR, physical_descriptor_key(fd), buffer);
}

static int kfd_export(const struct call *call, struct kfd_export_dmabuf *args)
{
	int result = go_on(call, args);

	if (!result)
		hold_dmabuf((int)args->dmabuf_fd, physical_find(NAME_KFD_HANDLE, args->handle));
	return result;
}

static int kfd_import(const struct call *call, struct kfd_import_dmabuf *args)
{
	uint64_t buffer = physical_find(NAME_INODE, descriptors_inode((int)args->dmabuf_fd));
	int result = go_on(call, args);

	if (!result && physical_find(NAME_KFD_HANDLE, args->handle) != buffer)
		physical_hold(NAME_KFD_HANDLE, args->handle, buffer);
	return result;
}

/* What a request can still get. ROCr decides by it how much scratch it keeps for itself. */
static int kfd_available(const struct call *call, struct kfd_available_memory *args)
{
	int result = go_on(call, args);
	int device = result ? TOPOLOGY_NONE : device_of(topology_by_gpu_id(args->gpu_id));

	if (device >= 0) {
		uint64_t left = ledger_free(gate_ledger(), (unsigned)device, LEDGER_PHYSICAL);

		if (left < args->available)
			args->available = left;
	}
	return result;
}

/* Where the call sends the range: a prefetch rather than a preferred location. False: nowhere. */
static bool svm_location(const struct kfd_svm *args, uint32_t *gpu_id)
{
	bool is_given = false;

	for (uint32_t i = 0; i < args->nattr; i++) {
		if (args->attrs[i].value == KFD_SVM_LOCATION_UNDEFINED)
			continue;
		if (args->attrs[i].type == KFD_SVM_ATTR_PREFETCH_LOC) {
			*gpu_id = args->attrs[i].value;
			return true;
		}
		if (args->attrs[i].type == KFD_SVM_ATTR_PREFERRED_LOC) {
			*gpu_id = args->attrs[i].value;
			is_given = true;
		}
	}
	return is_given;
}

/* Managed memory moves to the GPU and back at the driver's will; a prefetch or a preferred location is what we can see. */
static int kfd_svm(const struct call *call, struct kfd_svm *args)
{
	int result = go_on(call, args);
	uint32_t gpu_id = 0;

	if (!result && args->op == KFD_SVM_OP_SET_ATTR && svm_location(args, &gpu_id))
		migration_set(gpu_id ? device_of(topology_by_gpu_id(gpu_id)) : TOPOLOGY_NONE, args->start_addr, args->size);
	return result;
}

/* ---- DRM ---- */

static const struct topology_gpu *gpu_of_file(int fd)
{
	enum { DRM_MAJOR = 226 };
	struct stat st;
	uint32_t major, minor;

	if (topology_fstat(fd, &st) || (st.st_mode & S_IFMT) != S_IFCHR)
		return NULL;
	major = (uint32_t)(st.st_rdev >> 8 & 0xfff);
	minor = (uint32_t)((st.st_rdev & 0xff) | (st.st_rdev >> 12 & 0xfff00));
	return major == DRM_MAJOR ? topology_by_drm_minor(minor) : NULL;
}

static int drm_create(const struct call *call, union drm_gem_create *args)
{
	struct physical p;
	int result;

	if (!(args->in.domains & DRM_DOMAIN_VRAM))
		return go_on(call, args);
	if (!physical_reserve(&p, device_of(gpu_of_file(call->fd)), whole_pages(args->in.bo_size), !is_from_rocm(call)))
		return fail(ENOMEM);
	result = go_on(call, args);
	if (result)
		physical_withdraw(&p);
	else
		physical_hold(NAME_GEM_HANDLE, physical_gem_key(call->fd, args->out.handle), physical_settle(&p));
	return result;
}

static int drm_close(const struct call *call, struct drm_gem_close *args)
{
	struct physical_taken taken = physical_take(NAME_GEM_HANDLE, physical_gem_key(call->fd, args->handle));
	int result = go_on(call, args);

	if (result)
		physical_put_back(taken);
	else
		physical_drop(taken);
	return result;
}

static int drm_export(const struct call *call, struct drm_prime *args)
{
	int result = go_on(call, args);

	if (!result)
		hold_dmabuf(args->fd, physical_find(NAME_GEM_HANDLE, physical_gem_key(call->fd, args->handle)));
	return result;
}

/* The same buffer imported twice into one file has one handle and one hold. */
static int drm_import(const struct call *call, struct drm_prime *args)
{
	uint64_t buffer = physical_find(NAME_INODE, descriptors_inode(args->fd)), key;
	int result = go_on(call, args);

	key = physical_gem_key(call->fd, args->handle);
	if (!result && physical_find(NAME_GEM_HANDLE, key) != buffer)
		physical_hold(NAME_GEM_HANDLE, key, buffer);
	return result;
}

/* ---- The way in ---- */

/* COUNTED(command, what is done): each command once. */
#define COMMANDS(COUNTED)                                                                                              \
	COUNTED(KFD_ALLOC_MEMORY, kfd_alloc(call, args))                                                               \
	COUNTED(KFD_FREE_MEMORY, kfd_free(call, args))                                                                 \
	COUNTED(KFD_EXPORT_DMABUF, kfd_export(call, args))                                                             \
	COUNTED(KFD_IMPORT_DMABUF, kfd_import(call, args))                                                             \
	COUNTED(KFD_AVAILABLE_MEMORY, kfd_available(call, args))                                                       \
	COUNTED(KFD_SVM, kfd_svm(call, args))                                                                          \
	COUNTED(KFD_CREATE_QUEUE, queues_create(call->real, call->fd, call->command, args))                            \
	COUNTED(KFD_UPDATE_QUEUE, queues_update(call->real, call->fd, call->command, args))                            \
	COUNTED(KFD_SET_CU_MASK, queues_set_cu_mask(call->real, call->fd, call->command, args))                        \
	COUNTED(KFD_DESTROY_QUEUE, queues_destroy(call->real, call->fd, call->command, args))                          \
	COUNTED(DRM_GEM_CREATE, drm_create(call, args))                                                                \
	COUNTED(DRM_GEM_CLOSE, drm_close(call, args))                                                                  \
	COUNTED(DRM_PRIME_HANDLE_TO_FD, drm_export(call, args))                                                        \
	COUNTED(DRM_PRIME_FD_TO_HANDLE, drm_import(call, args))

static int counted(const struct call *call, void *args)
{
	switch (IOC_WITHOUT_SIZE(call->command)) {
#define COUNTED(name, action)                                                                                          \
	case IOC_WITHOUT_SIZE(name):                                                                                   \
		return action;
		COMMANDS(COUNTED)
#undef COUNTED
	default:
		return go_on(call, args);
	}
}

static bool is_counted(uint32_t command)
{
	switch (IOC_WITHOUT_SIZE(command)) {
#define COUNTED(name, action)                                                                                          \
	case IOC_WITHOUT_SIZE(name):                                                                                   \
		return IOC_SIZE(command) + 1 > IOC_SIZE(name);
		COMMANDS(COUNTED)
#undef COUNTED
	default:
		return false;
	}
}

/* ROCr unmaps a buffer's address before the driver frees it and once more afterwards (6.4.3, 7.2.4: measured). A page that we
 * mapped in between would lie there and go with it: a free maps nothing, and what it needs is made by other commands. */
static bool is_ready(uint32_t command)
{
	switch (IOC_WITHOUT_SIZE(command)) {
	case IOC_WITHOUT_SIZE(KFD_FREE_MEMORY):
	case IOC_WITHOUT_SIZE(KFD_DESTROY_QUEUE):
	case IOC_WITHOUT_SIZE(DRM_GEM_CLOSE):
		return physical_is_open();
	default:
		return gate_init() && physical_open();
	}
}

/* The numbers that are counted, modulo 64, of one letter: what leaves most commands untouched at the cost of a shift. */
#define NUMBERS_OF(letter) (0 COMMANDS(NUMBER_##letter))
#define NUMBER_BIT(name, letter) | (((name) >> 8 & 0xff) == (letter) ? UINT64_C(1) << ((name) & 63) : 0)
#define NUMBER_K(name, action) NUMBER_BIT(name, 'K')
#define NUMBER_d(name, action) NUMBER_BIT(name, 'd')

static inline bool may_be_counted(uint32_t command)
{
	uint32_t letter = command >> 8 & 0xff;
	uint64_t numbers = letter == 'K' ? NUMBERS_OF(K) : NUMBERS_OF(d);

	return (letter == 'K' || letter == 'd') && numbers >> (command & 63) & 1;
}

/* Whether an outer ioctl or close on this thread is being counted. */
static inline __attribute__((always_inline)) bool is_nested(void)
{
	if (gate_thread.in_ioctl)
		return gate_is_going_on((uintptr_t)__builtin_frame_address(0));
	if (!gate_thread.inside)
		gate_mark();
	return false;
}

__attribute__((noinline)) static int ioctl_slow(const struct call *call, void *args)
{
	int result;

	if (is_nested() || !args || !settings_ask_anything() || !is_ready(call->command))
		return go_on(call, args);
	gate_thread.in_ioctl = 1;
	result = counted(call, args);
	gate_thread.in_ioctl = 0;
	return result;
}

static inline int ioctl_wrapper(const struct ioctl_copy *copy, int fd, unsigned long command, void *args,
				const void *caller)
{
	ioctl_function real = (ioctl_function)copy->original;

	if (!may_be_counted((uint32_t)command) || !is_counted((uint32_t)command))
		return real(fd, command, args);
	return ioctl_slow(&(struct call){ real, fd, (uint32_t)command, caller }, args);
}

/* A dma-buf's descriptor holds its memory, and a DRM file everything that was made in it. */
__attribute__((noinline)) static int close_slow(int (*real)(int), int fd)
{
	struct physical_closing closing;
	int result;

	if (is_nested() || !physical_close_begin(&closing, fd))
		return real(fd);
	gate_thread.in_ioctl = 1;
	result = real(fd);
	gate_thread.in_ioctl = 0;
	physical_close_end(&closing);
	return result;
}

static inline int close_wrapper(const struct ioctl_copy *copy, int fd)
{
	int (*real)(int) = (int (*)(int))copy->original_close;

	if (__builtin_expect(__atomic_load_n(&physical_descriptors, __ATOMIC_RELAXED) != 0, 0))
		return close_slow(real, fd);
	return real(fd);
}

#define STUBS(STUB) STUB(0) STUB(1) STUB(2) STUB(3) STUB(4) STUB(5) STUB(6) STUB(7)
#define STUB(k)                                                                                                        \
	static int ioctl_stub_##k(int fd, unsigned long command, void *args)                                           \
	{                                                                                                              \
		return ioctl_wrapper(&copies[k], fd, command, args, __builtin_return_address(0));                      \
	}                                                                                                              \
	static int close_stub_##k(int fd)                                                                              \
	{                                                                                                              \
		return close_wrapper(&copies[k], fd);                                                                  \
	}
STUBS(STUB)
#undef STUB
#define STUB(k)                                                                                                        \
	{ { "ioctl", (void *)ioctl_stub_##k, &copies[k].original },                                                    \
	  { "close", (void *)close_stub_##k, &copies[k].original_close } },
static const struct patch patches[IOCTL_COPIES][2] = { STUBS(STUB) };
#undef STUB

static void remember_rocm(const struct elf_object *object)
{
	unsigned k = 0;

	while (k < ROCM_OBJECTS && rocm[k].map)
		k++;
	for (unsigned i = 0; k < ROCM_OBJECTS && i < object->segment_count; i++) {
		if (!(object->segments[i].protection & PROT_EXEC))
			continue;
		rocm[k].start = object->segments[i].start;
		rocm[k].end = object->segments[i].end;
		rocm[k].map = object->map;
		return;
	}
}

void ioctl_objopen(struct elf_object *object, struct patch_batch *batch)
{
	unsigned k = 0;

	if (elf_object_find(object, "hsa_iterate_agents", NULL) || elf_object_find(object, "hsaKmtOpenKFD", NULL))
		remember_rocm(object);
	if (!elf_object_find(object, "ioctl", NULL))
		return;
	if (!elf_object_is_libc(object))
		topology_objopen(object);
	while (k < IOCTL_COPIES && copies[k].map)
		k++;
	if (k == IOCTL_COPIES)
		return;
	elf_patch_undo(&copies[k].patched);
	copies[k] = (struct ioctl_copy){ .map = object->map };
	patch_batch_add(batch, patches[k], 2, &copies[k].patched);
}

/* The originals stay until the place is taken again: exit closes every object, libc too, while threads still run in it. */
void ioctl_objclose(struct link_map *map)
{
	for (unsigned k = 0; k < IOCTL_COPIES; k++) {
		if (copies[k].map == map)
			copies[k].map = NULL;
	}
	for (unsigned k = 0; k < ROCM_OBJECTS; k++) {
		if (rocm[k].map == map) {
			rocm[k].map = NULL;
			rocm[k].start = rocm[k].end = 0;
		}
	}
}
