/* The initial block, the live environment and the functions of a program, found as the library finds them.
 *
 *	gcc -g -o T test/test_program_libc.c src/loader/program_libc.c src/loader/elf_*.c [-no-pie]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/loader/program_libc.h"
#include "test.h"

extern char **environ;
static char **environ_at_start;

/* As la_objopen does it. */
static void open_one(struct link_map *map, long namespace)
{
	struct elf_object object;

	program_libc_objopen(map, elf_object_load(&object, map) ? &object : NULL, namespace);
}

/* What ld.so would have told: the main program first, then everything else. */
static void open_all(void)
{
	static int done;

	if (!done++)
		environ_at_start = environ;
	for (struct link_map *map = dlopen(NULL, RTLD_LAZY); done == 1 && map; map = map->l_next)
		open_one(map, 0);
}

TEST(an_object_in_another_namespace_is_not_the_programs)
{
	struct link_map *map = dlopen(NULL, RTLD_LAZY);

	for (; map; map = map->l_next)
		open_one(map, 1);
	CHECK(program_libc.setenv == NULL);
	CHECK(program_live_environment() == NULL);
	CHECK(program_setenv("AMVGPU_TEST", "1") == -ENOSYS);
}

TEST(the_initial_block_is_known_after_the_first_object)
{
	environ_at_start = environ;
	CHECK(program_initial_environment() == NULL && program_auxv() == NULL);
	open_one(dlopen(NULL, RTLD_LAZY), 0);
	CHECK(program_initial_environment() == (const char *const *)environ_at_start);
	CHECK(strstr(program_initial_arguments()[0], program_invocation_short_name) != NULL);
}

TEST(before_libc_is_seen_the_initial_environment_answers)
{
	CHECK(program_live_environment() == NULL);
	CHECK_TEXT(program_getenv_live("PATH"), getenv("PATH"));
	CHECK(program_getenv_live("PAT") == NULL);
}

TEST(the_auxiliary_vector_is_the_kernels)
{
	static const unsigned long types[] = {AT_PHDR,   AT_PHNUM, AT_ENTRY,
					      AT_PAGESZ, AT_BASE,  AT_SYSINFO_EHDR};

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		CHECK_EQ(program_auxv_value(types[i]), getauxval(types[i]));
	CHECK_EQ(program_auxv_value(4711), 0);
}

TEST(the_live_environment_is_the_variable_that_the_program_itself_uses)
{
	open_all();
	CHECK(program_live_environment() == &environ);
}

TEST(a_variable_set_while_the_program_runs_is_seen_and_one_unset_is_not)
{
	open_all();
	setenv("AMVGPU_TEST", "first", 1);
	CHECK_TEXT(program_getenv_live("AMVGPU_TEST"), "first");
	unsetenv("AMVGPU_TEST");
	CHECK(program_getenv_live("AMVGPU_TEST") == NULL);
}

TEST(setting_a_variable_is_seen_by_getenv_and_leaves_errno_alone)
{
	open_all();
	errno = 77;
	CHECK_EQ(program_setenv("AMVGPU_TEST", "second"), 0);
	CHECK_TEXT(getenv("AMVGPU_TEST"), "second");
	CHECK(program_setenv("not=a name", "") == -EINVAL);
	CHECK_EQ(errno, 77);
}

static int children;

static void in_child(void)
{
	children++;
}

TEST(a_handler_runs_in_the_child_of_a_fork_and_not_in_the_parent)
{
	int status = -1;
	pid_t child;

	open_all();
	CHECK_EQ(program_at_fork_child(in_child), 0);
	child = fork();
	if (!child)
		_exit(children);
	waitpid(child, &status, 0);
	CHECK_EQ(WEXITSTATUS(status), 1);
	CHECK_EQ(children, 0);
}

TEST(an_environment_that_the_program_cleared_is_empty)
{
	open_all();
	clearenv();
	CHECK(program_getenv_live("PATH") == NULL);
}

TEST_MAIN()
