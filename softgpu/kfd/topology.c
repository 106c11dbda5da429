/* See topology.h. What the values must be, and why, is in README.md. */
#define _GNU_SOURCE
#include "topology.h"
#include "driver.h"
#include "real.h"
#include "settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { FIRST_MINOR = 128, LINK_PCIE = 2, LINK_XGMI = 11 };

#define PREFIX "kfdemu."
#define UNFINISHED "kfdemu-new."

static char folder[128];
static int folder_lock = -1;

/* Emulated path and what it is in the folder; "%d" stands for a render minor or a PCI bus. */
static const struct place {
	const char *path, *inside;
} places[] = {
    {"/sys/devices/virtual/kfd/kfd", "kfd"},
    {"/sys/class/kfd/kfd", "kfd"},
    {"/sys/module/amdgpu", "module"},
    {"/sys/class/drm", "drm"},
    {"/usr/share/libdrm/amdgpu.ids", "amdgpu.ids"},
};

/* ---- writing ---- */

static void make_parents(char *path)
{
	for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(path, 0755);
		*slash = '/';
	}
}

static void write_file(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_file(const char *name, const char *format, ...)
{
	char path[512];
	va_list args;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	make_parents(path);
	file = real()->fopen(path, "we");
	if (!file) {
		perror(path);
		abort();
	}
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	fclose(file);
}

static void remove_tree(int parent, const char *name)
{
	int fd = real()->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (entry->d_type == DT_DIR)
			remove_tree(dirfd(dir), entry->d_name);
		else
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* ---- the folder's life ---- */

static const char *temporary(void)
{
	const char *path = getenv("TMPDIR");

	return path && *path ? path : "/tmp";
}

static bool is_older_than_a_minute(int fd)
{
	struct stat dir;

	return !fstat(fd, &dir) && time(NULL) - dir.st_mtime > 60;
}

/* Unfinished folders are not locked yet, so only old ones are litter. */
static void remove_if_stale(int parent, const char *name)
{
	int fd = real()->openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	if ((strncmp(name, UNFINISHED, strlen(UNFINISHED)) || is_older_than_a_minute(fd)) &&
	    !flock(fd, LOCK_EX | LOCK_NB))
		remove_tree(parent, name);
	real()->close(fd);
}

static void remove_stale(void)
{
	DIR *dir = real()->opendir(temporary());
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, PREFIX, strlen(PREFIX)) ||
		    !strncmp(entry->d_name, UNFINISHED, strlen(UNFINISHED)))
			remove_if_stale(dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
}

static void remove_own(void)
{
	if (folder[0])
		remove_tree(AT_FDCWD, folder);
	folder[0] = 0;
}

static void make_folder(void)
{
	char fresh[sizeof folder];

	snprintf(fresh, sizeof fresh, "%s/" UNFINISHED "XXXXXX", temporary());
	if (!mkdtemp(fresh)) {
		perror(fresh);
		abort();
	}
	folder_lock = driver_raise(real()->open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	flock(folder_lock, LOCK_SH | LOCK_NB);
	snprintf(folder, sizeof folder, "%s/" PREFIX "%s", temporary(), strrchr(fresh, '.') + 1);
	if (rename(fresh, folder)) {
		perror(folder);
		abort();
	}
	atexit(remove_own);
}

void topology_forget(void)
{
	folder[0] = 0;
	if (folder_lock >= 0)
		real()->close(folder_lock);
	folder_lock = -1;
}

/* ---- content ---- */

/* The thunk prefers the device id over gfx_target_version: they must agree, or the id be unknown to it. */
static unsigned int device_id(long gfx)
{
	static const struct {
		long gfx;
		unsigned int id;
	} known[] = {{90006, 0x66a1},  {90008, 0x738c},  {90010, 0x740f}, {90402, 0x74a1},
		     {100300, 0x73bf}, {110000, 0x744c}, {120001, 0x7550}};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].gfx == gfx)
			return known[i].id;
	return 0x7fff;
}

static bool has_links(const char *kind)
{
	return !strcmp(settings()->links, kind);
}

static void write_link(const char *kind, int from, int index, int to, int type, int weight)
{
	char name[96];

	snprintf(name, sizeof name, "kfd/topology/nodes/%d/%s/%d/properties", from, kind, index);
	write_file(
	    name,
	    "type %d\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\nweight %d\nmin_latency 0\n"
	    "max_latency 0\nmin_bandwidth 312\nmax_bandwidth 32000\nrecommended_transfer_size 0\n"
	    "recommended_sdma_engine_id_mask 0\nflags 1\n",
	    type, from, to, weight);
}

static void write_system(int cards)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	write_file("kfd/topology/generation_id", "2\n");
	write_file("kfd/topology/system_properties", "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
	write_file("kfd/proc/.keep", "\n");
	write_file("module/initstate", "live\n");
	write_file("module/version", "6.12.0\n");
	write_file("kfd/topology/nodes/0/gpu_id", "0\n");
	write_file("kfd/topology/nodes/0/name", "\n");
	write_file(
	    "kfd/topology/nodes/0/properties",
	    "cpu_cores_count %ld\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\nio_links_count %d\n"
	    "p2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\n"
	    "gds_size_in_kb 0\nnum_gws 0\nwave_front_size 0\narray_count 0\nsimd_arrays_per_engine 0\n"
	    "cu_per_simd_array 0\nsimd_per_cu 0\nmax_slots_scratch_cu 0\ngfx_target_version 0\nvendor_id 0\n"
	    "device_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\nhive_id 0\nnum_sdma_engines 0\n"
	    "num_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 0\nnum_cp_queues 0\n"
	    "max_engine_clk_ccompute 3000\n",
	    sysconf(_SC_NPROCESSORS_ONLN), cards);
	write_file("kfd/topology/nodes/0/mem_banks/0/properties",
		   "heap_type 0\nsize_in_bytes %lu\nflags 0\nwidth 64\nmem_clk_max 3200\n", memory);
}

/* Bus, device and function; partitions of a card share them and differ in the top bits (kernel, kfd_topology.c). */
static unsigned int location_id(int card)
{
	return settings()->partitions ? 0x300u | (unsigned int)card << 28 : 0x300u * (unsigned int)(card + 1);
}

static void write_node_properties(int card, int cards, const char *dir)
{
	int peers = cards - 1;
	char name[96];

	snprintf(name, sizeof name, "%s/properties", dir);
	write_file(
	    name,
	    "cpu_cores_count 0\nsimd_count 416\nmem_banks_count 1\ncaches_count 2\nio_links_count %d\n"
	    "p2p_links_count %d\ncpu_core_id_base 0\nsimd_id_base %u\nmax_waves_per_simd 8\nlds_size_in_kb "
	    "64\n"
	    "gds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\narray_count 8\nsimd_arrays_per_engine 1\n"
	    "cu_per_simd_array 16\nsimd_per_cu 4\nmax_slots_scratch_cu 32\ngfx_target_version %ld\n"
	    "vendor_id 4098\ndevice_id %u\nlocation_id %u\ndomain 0\ndrm_render_minor %d\nhive_id %d\n"
	    "num_sdma_engines 2\nnum_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 8\nnum_cp_queues 24\n"
	    "max_engine_clk_fcompute 1700\nlocal_mem_size 0\nfw_version 78\ncapability %u\ndebug_prop 0\n"
	    "sdma_fw_version 8\nunique_id %llu\nnum_xcc 1\nmax_engine_clk_ccompute 3000\n",
	    1 + (has_links("xgmi") ? peers : 0), has_links("pcie") ? peers : 0, 0x80001000u + 1024u * card,
	    settings()->gfx, device_id(settings()->gfx), location_id(card), FIRST_MINOR + card,
	    has_links("xgmi") ? 1 : 0, 0x2298u | (settings()->svm ? 1u << 27 : 0),
	    0x1234567800000000ull + (unsigned int)card);
}

static void write_memory_and_caches(const struct state *state, int card, const char *dir)
{
	static const char cache[] =
	    "processor_id_low 2147487744\nlevel %d\nsize %d\ncache_line_size %d\n"
	    "cache_lines_per_tag 1\nassociation 16\nlatency 0\ntype 9\nsibling_map 1,0\n";
	char name[96];

	snprintf(name, sizeof name, "%s/mem_banks/0/properties", dir);
	write_file(name, "heap_type 1\nsize_in_bytes %lu\nflags 0\nwidth 4096\nmem_clk_max 1600\n",
		   state->card[card].capacity);
	snprintf(name, sizeof name, "%s/caches/0/properties", dir);
	write_file(name, cache, 1, 16, 64);
	snprintf(name, sizeof name, "%s/caches/1/properties", dir);
	write_file(name, cache, 2, 8192, 128);
}

static void write_links(int card, int cards)
{
	int index = 0;

	write_link("io_links", card + 1, 0, 0, LINK_PCIE, 20);
	write_link("io_links", 0, card, card + 1, LINK_PCIE, 20);
	for (int peer = 0; peer < cards; peer++) {
		if (peer == card)
			continue;
		if (has_links("xgmi"))
			write_link("io_links", card + 1, ++index, peer + 1, LINK_XGMI, 15);
		else if (has_links("pcie"))
			write_link("p2p_links", card + 1, index++, peer + 1, LINK_PCIE, 40);
	}
}

static void write_device_folder(int card, const char *node)
{
	char name[96];

	snprintf(name, sizeof name, "drm/%s/device/vendor", node);
	write_file(name, "0x1002\n");
	snprintf(name, sizeof name, "drm/%s/device/device", node);
	write_file(name, "0x%x\n", device_id(settings()->gfx));
	snprintf(name, sizeof name, "drm/%s/device/uevent", node);
	write_file(name, "DRIVER=amdgpu\nPCI_ID=1002:%04X\nPCI_SLOT_NAME=0000:%02x:00.0\n",
		   device_id(settings()->gfx), 3 * (card + 1));
}

static void write_card(const struct state *state, int card, int cards)
{
	char dir[64], name[96];

	snprintf(dir, sizeof dir, "kfd/topology/nodes/%d", card + 1);
	snprintf(name, sizeof name, "%s/gpu_id", dir);
	write_file(name, "%d\n", driver_gpu_id(card));
	snprintf(name, sizeof name, "%s/name", dir);
	write_file(name, "emulated\n");
	write_node_properties(card, cards, dir);
	write_memory_and_caches(state, card, dir);
	write_links(card, cards);
	snprintf(name, sizeof name, "renderD%d", FIRST_MINOR + card);
	write_device_folder(card, name);
	snprintf(name, sizeof name, "card%d", card);
	write_device_folder(card, name);
}

void topology_write(struct state *state)
{
	int cards = (int)state->cards;

	remove_stale();
	make_folder();
	write_system(cards);
	for (int card = 0; card < cards; card++)
		write_card(state, card, cards);
	write_file("amdgpu.ids", "1.0.0\n%04X,\t01,\tEmulated AMD GPU\n", device_id(settings()->gfx));
}

/* ---- accounting ---- */

static void write_card_accounting(const struct state *state, int card, const char *node)
{
	char name[96];

	snprintf(name, sizeof name, "drm/%s/device/mem_info_vram_total", node);
	write_file(name, "%lu\n", state->card[card].capacity);
	snprintf(name, sizeof name, "drm/%s/device/mem_info_vram_used", node);
	write_file(name, "%lu\n", state->card[card].used.now);
}

static void write_process_accounting(const struct state *state, int i)
{
	char name[96];

	for (uint32_t card = 0; card < state->cards; card++) {
		snprintf(name, sizeof name, "kfd/proc/%d/vram_%d", state->process[i].pid,
			 driver_gpu_id((int)card));
		write_file(name, "%lu\n", state->process[i].total[card].now);
	}
}

static void refresh_cards(void)
{
	const struct state *state = driver()->state;
	char node[32];

	driver_reap();
	for (int card = 0; card < (int)state->cards; card++) {
		snprintf(node, sizeof node, "renderD%d", FIRST_MINOR + card);
		write_card_accounting(state, card, node);
		snprintf(node, sizeof node, "card%d", card);
		write_card_accounting(state, card, node);
	}
}

static void refresh_processes(void)
{
	const struct state *state = driver()->state;
	char path[160];

	driver_reap();
	snprintf(path, sizeof path, "%s/kfd/proc", folder);
	remove_tree(AT_FDCWD, path);
	mkdir(path, 0755);
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (state->process[i].status == PROCESS_ALIVE)
			write_process_accounting(state, i);
}

/* ---- redirection ---- */

static const char *inside(const char *rest, const char *name, char *buffer, size_t size)
{
	driver();
	if (!strcmp(name, "kfd") && !strncmp(rest, "/proc", 5))
		refresh_processes();
	if (strstr(rest, "mem_info_vram"))
		refresh_cards();
	snprintf(buffer, size, "%s/%s%s", folder, name, rest);
	return buffer;
}

/* /sys/dev/char/226:MINOR/..., /sys/bus/pci/devices/0000:BUS:00.0/... */
static int card_of_path(const char *path, const char **rest)
{
	int number = 0, length = 0;

	if (sscanf(path, "/sys/dev/char/226:%d%n", &number, &length) == 1 && length) {
		*rest = path + length;
		return number >= FIRST_MINOR ? number - FIRST_MINOR : number;
	}
	if (sscanf(path, "/sys/bus/pci/devices/0000:%x:00.0%n", (unsigned int *)&number, &length) == 1 &&
	    length) {
		*rest = path + length;
		return number % 3 ? -1 : number / 3 - 1;
	}
	return -1;
}

static const char *redirect_card(const char *path, char *buffer, size_t size)
{
	const char *rest;
	int card = card_of_path(path, &rest);
	char name[64];

	if (card < 0 || card >= (int)driver()->state->cards)
		return path;
	snprintf(name, sizeof name, "drm/renderD%d%s", FIRST_MINOR + card,
		 strncmp(path, "/sys/bus", 8) ? "" : "/device");
	return inside(rest, name, buffer, size);
}

const char *topology_redirect(const char *path, char *buffer, size_t size)
{
	if (!path || path[0] != '/' || (strncmp(path, "/sys/", 5) && strncmp(path, "/usr/share/libdrm/", 18)))
		return path;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		size_t length = strlen(places[i].path);

		if (!strncmp(path, places[i].path, length) && (path[length] == '/' || !path[length]))
			return inside(path + length, places[i].inside, buffer, size);
	}
	if (!strncmp(path, "/sys/dev/char/226:", 18) || !strncmp(path, "/sys/bus/pci/devices/0000:", 26))
		return redirect_card(path, buffer, size);
	return path;
}
