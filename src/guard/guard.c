/* libamvgpu_guard.so, for /etc/ld.so.preload: a program that starts without the library is started again with it.
 *
 * What an audited program starts is kept by the exec family's wrappers. This is for what starts elsewhere: a login shell, an
 * exec of the container's runtime, children of static programs. ld.so loads the guard into every dynamic program; its
 * constructor looks at one word, which the library has set if it is there, and returns. Else it asks the pod specification
 * where the library is and executes the program again: same file, arguments, descriptors and process id. It must never loop
 * and never keep a program from starting: whatever is not as expected, the program goes on as it is.
 */
#include "guard.h"

#include "../hip/env_read.h"
#include "../hip/exempt.h"
#include "../loader/exec_environment.h"

#ifndef GUARD_LIBRARY
#define GUARD_LIBRARY "/usr/local/vgpu/libamvgpu.so"
#endif
#define OUR_NAME "libamvgpu"
#define AUDIT "LD_AUDIT="
#define EXE "/proc/self/exe"

enum { PATH_SIZE = 4096 };

volatile uint32_t GUARD_IS_ACTIVE __attribute__((visibility("default"))) = 0;

struct guard {
	const char *const *environment;
	struct env_block pod;
	char audit[PATH_SIZE]; /* "LD_AUDIT=library" */
	char exe[PATH_SIZE];   /* what EXE leads to */
	const char *kept[EXEC_KEEP_MAX];
	unsigned count;
};

/* Behind the environment, and behind one more NULL for each variable that ld.so took out of it (AT_SECURE). */
static uint64_t auxv_value(const char *const *environment, uint64_t type)
{
	const Elf64_auxv_t *entry;

	while (*environment)
		environment++;
	while (!*environment)
		environment++;
	for (entry = (const Elf64_auxv_t *)environment; entry->a_type != AT_NULL; entry++) {
		if (entry->a_type == type)
			return entry->a_un.a_val;
	}
	return 0;
}

/* ---- which library ---- */

static size_t element_length(const char *list)
{
	size_t length = 0;

	while (list[length] && list[length] != ':')
		length++;
	return length;
}

static bool is_named_as_ours(const char *element, size_t length)
{
	for (size_t i = 0; i + sizeof OUR_NAME - 1 <= length; i++) {
		if (text_starts(element + i, OUR_NAME))
			return true;
	}
	return false;
}

/* Our element of a list of audit libraries, or NULL; *length is its length. */
static const char *find_ours(const char *list, size_t *length)
{
	while (list && *list) {
		*length = element_length(list);
		if (is_named_as_ours(list, *length))
			return list;
		list += *length;
		list += *list == ':';
	}
	return NULL;
}

/* False: there is none that could be loaded. The guard lies in images that are used without a slice too. */
static bool find_library(struct guard *g)
{
	size_t length = 0;
	const char *pods = find_ours(env_find(&g->pod, "LD_AUDIT"), &length);
	struct text text = TEXT_ON(g->audit);

	text_add(&text, AUDIT);
	if (pods && length + sizeof AUDIT <= sizeof g->audit) {
		bytes_copy(g->audit + text.length, pods, length);
		g->audit[text.length + length] = 0;
	} else {
		text_add(&text, GUARD_LIBRARY);
	}
	return g->audit[sizeof AUDIT - 1] != '/' || sys_access(g->audit + sizeof AUDIT - 1, R_OK) == 0;
}

static bool list_has(const char *list, const char *element)
{
	size_t length = text_length(element);

	while (*list) {
		if (element_length(list) == length && text_starts(list, element))
			return true;
		list += element_length(list);
		list += *list == ':';
	}
	return false;
}

/* ld.so was told of this very library and could not load it. Once more would be for ever. */
static bool was_tried(const struct guard *g)
{
	const char *const *e = g->environment;

	for (; *e; e++) {
		if (text_starts(*e, AUDIT) && list_has(*e + sizeof AUDIT - 1, g->audit + sizeof AUDIT - 1))
			return true;
	}
	return false;
}

/* ---- with which environment ---- */

static bool is_kept(const char *entry)
{
	if (text_starts(entry, "HIP_DEVICE_MEMORY_LIMIT") || text_starts(entry, "CUDA_DEVICE_MEMORY_LIMIT"))
		return true;
	for (unsigned i = 0; i < ENV_VARIABLE_COUNT; i++) {
		if (env_value(entry, env_variables[i].name))
			return true;
	}
	return false;
}

static void collect(struct guard *g)
{
	const char *entry;
	size_t cursor = 0;

	g->kept[g->count++] = g->audit;
	while ((entry = env_next(&g->pod, &cursor)) && g->count < EXEC_KEEP_MAX) {
		if (is_kept(entry))
			g->kept[g->count++] = entry;
	}
	exec_keep_init(g->kept, g->count);
}

/* glibc 2.35 brought this variable to ld.so; before, an audit library makes late binding slow. */
static bool is_binding_slow(const char *const *environment)
{
	uintptr_t base = auxv_value(environment, AT_BASE);
	struct link_map map = { .l_addr = base, .l_name = "" };
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
	struct elf_object object;

	if (!base)
		return false;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *p = (const Elf64_Phdr *)(base + header->e_phoff) + i;

		if (p->p_type == PT_DYNAMIC)
			map.l_ld = (Elf64_Dyn *)(base + p->p_vaddr);
	}
	return elf_object_load(&object, &map) && !elf_object_variable(&object, "__rseq_offset");
}

/* ---- with which arguments ---- */

/* As the kernel was given them: a program that is run by `ld.so program` has lost the first ones. */
static bool arguments_load(struct env_block *text, const char ***arguments)
{
	size_t count = 0, cursor = 0;
	const char *argument;

	if (env_read("/proc/self/cmdline", text) || !text->size)
		return false;
	while (env_next(text, &cursor))
		count++;
	*arguments = sys_mmap(NULL, (count + 1) * sizeof **arguments, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_error(*arguments))
		return false;
	for (cursor = count = 0; (argument = env_next(text, &cursor)); count++)
		(*arguments)[count] = argument;
	return true;
}

/* ---- which program ---- */

static bool exe_load(struct guard *g)
{
	long length = sys_readlink(EXE, g->exe, sizeof g->exe - 1);

	if (length <= 0)
		return false;
	g->exe[length] = 0;
	return true;
}

/* By its path it keeps its name; a deleted file, or one of another root, is reached through /proc only. */
static bool is_exe_there(const struct guard *g)
{
	struct stat by_path, by_link;

	return !sys_stat(g->exe, &by_path) && !sys_stat(EXE, &by_link) && by_path.st_dev == by_link.st_dev &&
	       by_path.st_ino == by_link.st_ino;
}

static void start_again(const struct guard *g, const struct exec_plan *plan)
{
	const char **entries = __builtin_alloca(plan->entries * sizeof *entries);
	char *texts = __builtin_alloca(plan->text_size + 1);
	struct env_block text;
	const char **arguments;

	exec_plan_fill(plan, entries, texts);
	if (!arguments_load(&text, &arguments))
		return;
	if (is_exe_there(g))
		SYS_CALL(SYS_execve, g->exe, arguments, entries);
	SYS_CALL(SYS_execve, EXE, arguments, entries);
}

static bool has_more_rights(const char *const *environment)
{
	return auxv_value(environment, AT_SECURE) ||
	       SYS_CALL(SYS_getuid, 0, 0, 0) != SYS_CALL(SYS_geteuid, 0, 0, 0) ||
	       SYS_CALL(SYS_getgid, 0, 0, 0) != SYS_CALL(SYS_getegid, 0, 0, 0);
}

/* With more rights than its user a program gets no library by path, and the next start would be no different. */
static void start_with_library(const char *const *environment)
{
	struct guard g = { .environment = environment };
	struct exec_plan plan;

	if (has_more_rights(environment) || !exe_load(&g))
		return;
	env_read(ENV_POD_PATH, &g.pod);
	if (find_library(&g) && !was_tried(&g) && !exempt_list_has(env_find(&g.pod, EXEMPT_NAME), g.exe)) {
		collect(&g);
		if (is_binding_slow(environment))
			exec_keep_bind_now();
		exec_plan_make(&plan, environment);
		if (plan.entries && !plan.is_too_large)
			start_again(&g, &plan);
	}
	env_close(&g.pod);
}

__attribute__((constructor)) static void guard_start(int count, const char *const *arguments,
						     const char *const *environment)
{
	(void)count;
	(void)arguments;
	if (!GUARD_IS_ACTIVE)
		start_with_library(environment);
}
