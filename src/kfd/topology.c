/* See topology.h. Source: /sys/class/kfd/kfd/topology/nodes/N/{gpu_id,properties} (kernel, kfd_topology.c). */
#include "topology.h"

#include "../hip/settings.h"
#include "../sys/once.h"

static struct {
	uint32_t is_read; /* once */
	unsigned count;
	struct topology_gpu gpu[TOPOLOGY_GPUS];
	int (*interposed_open)(const char *, int, ...);
	int (*interposed_fstat)(int, struct stat *);
} state;

void topology_objopen(const struct elf_object *object)
{
	if (state.interposed_open || !elf_object_find(object, "open", NULL) || !elf_object_find(object, "ioctl", NULL) ||
	    elf_object_find(object, "__libc_start_main", NULL))
		return;
	state.interposed_open = (int (*)(const char *, int, ...))elf_object_address(object, "open");
	state.interposed_fstat = (int (*)(int, struct stat *))elf_object_address(object, "fstat");
}

int topology_fstat(int fd, struct stat *st)
{
	if (!state.interposed_fstat)
		return sys_fstat(fd, st);
	return state.interposed_fstat(fd, st) ? -EBADF : 0;
}

/* A descriptor or a negative error, which an interposed open() does not tell. */
static int open_to_read(const char *path)
{
	int fd;

	if (!state.interposed_open)
		return sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	fd = state.interposed_open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : -ENOENT;
}

/* Reads a small file; the text is terminated. Its length, or a negative error. */
static long read_file(const char *path, char *text, size_t size)
{
	int fd CLEANUP_CLOSE = open_to_read(path);
	long n = fd < 0 ? fd : sys_read(fd, text, size - 1);

	text[n > 0 ? n : 0] = 0;
	return n;
}

static long read_node_file(unsigned node, const char *name, char *text, size_t size)
{
	char path[96];
	struct text t = TEXT_ON(path);

	text_add(&t, "/sys/class/kfd/kfd/topology/nodes/");
	text_add_number(&t, node);
	text_add(&t, "/");
	text_add(&t, name);
	return read_file(path, text, size);
}

/* The value of "key value\n" in text, or 0. */
static uint64_t property(const char *text, const char *key)
{
	size_t length = text_length(key);
	uint64_t value = 0;

	while (*text) {
		if (text_starts(text, key) && text[length] == ' ') {
			text += length + 1;
			return text_number(&text, &value) ? value : 0;
		}
		while (*text && *text++ != '\n')
			;
	}
	return 0;
}

static bool is_token_of(const struct env_token *token, const struct topology_gpu *gpu, unsigned ordinal)
{
	char uuid[24];
	struct text t = TEXT_ON(uuid);

	if (!token->text)
		return token->number == ordinal;
	text_add(&t, "GPU-");
	for (int shift = 60; shift >= 0; shift -= 4)
		text_add_hex(&t, gpu->unique_id >> shift & 15);
	return gpu->unique_id && env_token_equal(token, &(struct env_token){ uuid, t.length, 0 });
}

static void place(struct topology_gpu *gpu, unsigned ordinal)
{
	const struct env_numbering *origin = &settings()->origin;
	struct env_token token;

	gpu->device = gpu->rocr = TOPOLOGY_NONE;
	for (unsigned i = 0; i < ENV_DEVICES && gpu->device < 0 && env_device_token(origin, i, &token); i++) {
		if (is_token_of(&token, gpu, ordinal))
			gpu->device = (int)i;
	}
	for (unsigned i = 0; i < ENV_DEVICES && gpu->rocr < 0 && env_token_at(origin->rocr, i, &token); i++) {
		if (is_token_of(&token, gpu, ordinal))
			gpu->rocr = (int)i;
	}
}

/* The nodes of other pods exist but cannot be read; behind the last one nothing exists. */
static bool node_exists(unsigned node)
{
	char path[96];
	struct text t = TEXT_ON(path);
	int fd CLEANUP_CLOSE = -1;

	text_add(&t, "/sys/class/kfd/kfd/topology/nodes/");
	text_add_number(&t, node);
	text_add(&t, "/gpu_id");
	fd = open_to_read(path);
	return fd >= 0 || fd == -EACCES || fd == -EPERM;
}

static void add_gpu(unsigned node, uint32_t gpu_id)
{
	struct topology_gpu *gpu = &state.gpu[state.count];
	char text[4096];
	uint64_t per_cu;

	read_node_file(node, "properties", text, sizeof text);
	gpu->gpu_id = gpu_id;
	gpu->node = node;
	gpu->render_minor = (uint32_t)property(text, "drm_render_minor");
	gpu->unique_id = property(text, "unique_id");
	per_cu = property(text, "simd_per_cu");
	gpu->compute_units = per_cu ? (unsigned)(property(text, "simd_count") / per_cu) : 0;
	place(gpu, state.count++);
}

static void read_nodes(void)
{
	for (unsigned node = 0; state.count < TOPOLOGY_GPUS && node_exists(node); node++) {
		char text[32];
		const char *number = text;
		uint64_t gpu_id = 0;

		read_node_file(node, "gpu_id", text, sizeof text);
		if (text_number(&number, &gpu_id) && gpu_id) /* 0: a CPU */
			add_gpu(node, (uint32_t)gpu_id);
	}
}

static void read_once(void)
{
	if (once_begin(&state.is_read)) {
		read_nodes();
		once_end(&state.is_read);
	}
}

#define SEARCH(field, value)                                                                                           \
	read_once();                                                                                                   \
	for (unsigned i = 0; i < state.count; i++) {                                                                   \
		if (state.gpu[i].field == (value))                                                                     \
			return &state.gpu[i];                                                                          \
	}                                                                                                              \
	return NULL

const struct topology_gpu *topology_by_gpu_id(uint32_t gpu_id)
{
	SEARCH(gpu_id, gpu_id);
}

const struct topology_gpu *topology_by_node(uint32_t node)
{
	SEARCH(node, node);
}

const struct topology_gpu *topology_by_render_minor(uint32_t minor)
{
	SEARCH(render_minor, minor);
}
