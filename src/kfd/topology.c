/* See topology.h. Source: /sys/class/kfd/kfd/topology/nodes/N/{gpu_id,properties} (kernel, kfd_topology.c). */
#include "topology.h"

#include "../hip/settings.h"
#include "../sys/once.h"

static struct {
	uint32_t is_read; /* once */
	unsigned count;
	struct topology_gpu gpu[TOPOLOGY_GPUS];
	uint64_t not_ours; /* primary minors of other cards */
	int (*interposed_open)(const char *, int, ...);
	int (*interposed_fstat)(int, struct stat *);
} state;

void topology_objopen(const struct elf_object *object)
{
	if (state.interposed_open || !elf_object_find(object, "open", NULL))
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
	gpu->primary_minor = TOPOLOGY_NO_MINOR;
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

/* Where the card of a DRM node is on the bus: "0000:03:00.0". False: not known. */
static bool read_slot(uint32_t minor, char *slot, size_t size)
{
	static const char key[] = "PCI_SLOT_NAME=";
	char path[64], text[1024];
	struct text t = TEXT_ON(path);

	text_add(&t, "/sys/dev/char/226:");
	text_add_number(&t, minor);
	text_add(&t, "/device/uevent");
	read_file(path, text, sizeof text);
	for (const char *line = text; *line; line++) {
		size_t length = 0;

		if (!text_starts(line, key))
			continue;
		for (line += sizeof key - 1; line[length] && line[length] != '\n' && length < size - 1; length++)
			slot[length] = line[length];
		slot[length] = 0;
		return length;
	}
	return false;
}

/* The two nodes of a card are of one device. */
static struct topology_gpu *gpu_beside(uint32_t primary_minor)
{
	char slot[32], other[32];

	for (unsigned i = 0; i < state.count && read_slot(primary_minor, slot, sizeof slot); i++) {
		if (read_slot(state.gpu[i].render_minor, other, sizeof other) && text_equal(slot, other))
			return &state.gpu[i];
	}
	return NULL;
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

static const struct topology_gpu *by_known_minor(uint32_t minor)
{
	read_once();
	for (unsigned i = 0; i < state.count; i++) {
		if (state.gpu[i].render_minor == minor ||
		    __atomic_load_n(&state.gpu[i].primary_minor, __ATOMIC_RELAXED) == minor)
			return &state.gpu[i];
	}
	return NULL;
}

const struct topology_gpu *topology_by_drm_minor(uint32_t minor)
{
	enum { PRIMARY_MINORS = 64 };
	const struct topology_gpu *known = by_known_minor(minor);
	uint64_t bit = minor < PRIMARY_MINORS ? (uint64_t)1 << minor : 0;
	struct topology_gpu *gpu;

	if (known || !bit || __atomic_load_n(&state.not_ours, __ATOMIC_RELAXED) & bit)
		return known;
	gpu = gpu_beside(minor);
	if (gpu)
		__atomic_store_n(&gpu->primary_minor, minor, __ATOMIC_RELAXED);
	else
		__atomic_fetch_or(&state.not_ours, bit, __ATOMIC_RELAXED);
	return gpu;
}
