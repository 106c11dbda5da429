/* The program's own libc and its initial block, found without calling anything. */
#include "program_libc.h"

#include "../sys/sys.h"
#include "../sys/text.h"

enum { NAMESPACE_BASE = 0 }; /* LM_ID_BASE */

struct program_libc program_libc;

/* Written under the loader lock while objects are opened, before the program runs a second thread. */
static struct {
	const uintptr_t *block; /* argc, argv, NULL, envp, NULL, auxv */
	/* Found at once. unsetenv() may put a NULL before the one that ends envp; where a program is an argument of ld.so
	 * before 2.36 the block's start becomes stack again. */
	const char *const *environment;
	const Elf64_auxv_t *auxv;
	struct link_map *main_map;
	char ***libc_environ;
	char ***main_environ;
	bool is_main_searched;
	bool has_libc;
	bool has_libc_started;
} program;

/* From ld.so, wherever in the chain it is: the auditor's first la_objopen is for the main program, before
 * ld.so's. */
static void find_initial_block(struct link_map *map)
{
	for (; map && !program.block; map = map->l_next) {
		struct elf_object object;
		const uintptr_t *const *stack_end;

		if (!map->l_name || !map->l_name[0] || text_starts(map->l_name, "linux-vdso") ||
		    !elf_object_load(&object, map))
			continue;
		stack_end = elf_object_variable(&object, "__libc_stack_end");
		if (stack_end)
			program.block = *stack_end;
	}
}

static void find_parts(void)
{
	const char *const *word;

	if (!program.block)
		return;
	word = program.environment = (const char *const *)(program.block + 1 + program.block[0] + 1);
	while (*word)
		word++;
	while (!*word) /* more than one where ld.so took variables out, of a program with more rights than its user */
		word++;
	program.auxv = (const Elf64_auxv_t *)word;
}

static char ***find_environ(const struct elf_object *object)
{
	static const char *const names[] = {"environ", "__environ", "_environ"};

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		char ***variable = elf_object_variable(object, names[i]);

		if (variable)
			return variable;
	}
	return NULL;
}

static void find_functions(const struct elf_object *object)
{
#define FIND(result, name, parameters)                                                                       \
	program_libc.name = (result(*) parameters)elf_object_address(object, #name);
	PROGRAM_LIBC_FUNCTIONS(FIND)
#undef FIND
}

void program_libc_objopen(struct link_map *map, const struct elf_object *object, long namespace)
{
	if (namespace != NAMESPACE_BASE)
		return;
	if (!program.main_map)
		program.main_map = map;
	if (!program.block) {
		find_initial_block(program.main_map);
		find_parts();
	}
	if (program.has_libc || !object || !elf_object_is_libc(object))
		return;
	find_functions(object);
	program.libc_environ = find_environ(object);
	program.has_libc = true;
}

const char *const *program_initial_arguments(void)
{
	return program.block ? (const char *const *)(program.block + 1) : NULL;
}

const char *const *program_initial_environment(void)
{
	return program.environment;
}

const Elf64_auxv_t *program_auxv(void)
{
	return program.auxv;
}

uint64_t program_auxv_value(uint64_t type)
{
	const Elf64_auxv_t *entry = program_auxv();

	for (; entry && entry->a_type != AT_NULL; entry++) {
		if (entry->a_type == type)
			return entry->a_un.a_val;
	}
	return 0;
}

bool program_main_load(struct elf_object *object, struct link_map *map)
{
	const Elf64_Phdr *headers = (const Elf64_Phdr *)program_auxv_value(AT_PHDR);
	unsigned count = (unsigned)program_auxv_value(AT_PHNUM);

	return map == program.main_map && elf_object_load_at(object, map, headers, count);
}

/* With a program run as an argument of ld.so, AT_PHDR is ld.so's: then the headers do not fit and the mapping
 * counts. */
static void find_main_environ(void)
{
	struct elf_object object;

	if (program_main_load(&object, program.main_map) || elf_object_load(&object, program.main_map))
		program.main_environ = find_environ(&object);
	program.is_main_searched = true;
}

char ***program_live_environment(void)
{
	if (!program.has_libc)
		return NULL;
	if (!program.is_main_searched)
		find_main_environ();
	return program.main_environ ? program.main_environ : program.libc_environ;
}

static const char *find_variable(const char *const *environment, const char *name)
{
	size_t length = text_length(name);

	for (; environment && *environment; environment++) {
		if (text_starts(*environment, name) && (*environment)[length] == '=')
			return *environment + length + 1;
	}
	return NULL;
}

const char *program_getenv_live(const char *name)
{
	char ***live = program_live_environment();

	if (live && *live)
		program.has_libc_started = true;
	if (!program.has_libc_started)
		return find_variable(program_initial_environment(), name);
	return find_variable((const char *const *)*live, name);
}

int program_setenv(const char *name, const char *value)
{
	int *error, kept, result;

	if (!program_libc.setenv || !program_libc.__errno_location)
		return -ENOSYS;
	error = program_libc.__errno_location();
	kept = *error;
	result = program_libc.setenv(name, value, 1) ? -*error : 0;
	*error = kept;
	return result;
}

int program_at_fork_child(void (*child)(void))
{
	int result;

	if (!program_libc.__register_atfork)
		return -ENOSYS;
	result = program_libc.__register_atfork(NULL, NULL, child, NULL);
	return result > 0 ? -result : result;
}
