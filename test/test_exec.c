/* What a program's environment becomes on its way to another program.
 *
 *	gcc -g -fsanitize=address,undefined -o T test/test_exec.c src/loader/program_libc.c src/loader/elf_*.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#include "../src/loader/exec.c"
#include "../src/loader/exec_environment.c"
#include "test.h"

static const char *const kept[] = {"LD_AUDIT=/lib/ours.so", "LIMIT=1G", "EMPTY="};

#define TLS "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192"

static void keep_usual(void)
{
	exec_keep_init(kept, 3);
	keep.has_bind_now = false;
}

/* The mended environment of given as one text, its entries separated by blanks; "same" if it needs no
 * mending. */
static const char *mended(const char *const *given)
{
	static char text[4096];
	struct exec_plan plan;

	exec_plan_make(&plan, given);
	if (!plan.entries)
		return "same";
	if (plan.is_too_large)
		return "too large";
	{
		const char *entries[plan.entries];
		char *texts = malloc(plan.text_size);
		unsigned n = 0;

		exec_plan_fill(&plan, entries, texts);
		for (text[0] = 0; entries[n]; n++) {
			strcat(text, n ? " " : "");
			strcat(text, entries[n]);
		}
		CHECK_EQ(n + 1, plan.entries);
		free(texts);
	}
	return text;
}

#define MENDED(...) mended((const char *const[]){__VA_ARGS__, NULL})

TEST(what_is_missing_is_added_behind_what_is_given)
{
	keep_usual();
	CHECK_TEXT(mended(NULL), TLS " LD_AUDIT=/lib/ours.so LIMIT=1G EMPTY=");
	CHECK_TEXT(MENDED("A=1"), "A=1 " TLS " LD_AUDIT=/lib/ours.so LIMIT=1G EMPTY=");
	CHECK_TEXT(MENDED("LIMIT=", "A=1", TLS, "EMPTY=x"),
		   "LIMIT= A=1 " TLS " EMPTY=x LD_AUDIT=/lib/ours.so");
}

TEST(an_environment_that_has_everything_needs_nothing)
{
	keep_usual();
	CHECK_TEXT(MENDED("EMPTY=", "LIMIT=512M", "LD_AUDIT=/lib/ours.so", TLS), "same");
	CHECK_TEXT(MENDED("EMPTY=", "LIMIT=512M", "LD_AUDIT=a.so:/lib/ours.so:b.so", TLS), "same");
	CHECK_TEXT(MENDED("EMPTY=", "LIMIT=1", "LD_AUDIT=/lib/ours.so",
			  "GLIBC_TUNABLES=a=1:glibc.rtld.optional_static_tls=1:b=2"),
		   "same");
}

TEST(names_are_compared_whole)
{
	keep_usual();
	CHECK_TEXT(MENDED("LIMIT2=1", "LIMI=1", "LIMIT", "EMPTY=", "LD_AUDIT=/lib/ours.so", TLS),
		   "LIMIT2=1 LIMI=1 LIMIT EMPTY= LD_AUDIT=/lib/ours.so " TLS " LIMIT=1G");
}

TEST(our_library_comes_before_other_audit_libraries)
{
	keep_usual();
	CHECK_TEXT(MENDED("LD_AUDIT=other.so", "LIMIT=", "EMPTY=", TLS),
		   "LD_AUDIT=/lib/ours.so:other.so LIMIT= EMPTY= " TLS);
	CHECK_TEXT(MENDED("LD_AUDIT=/lib/ours.so2:x/lib/ours.so", "LIMIT=", "EMPTY=", TLS),
		   "LD_AUDIT=/lib/ours.so:/lib/ours.so2:x/lib/ours.so LIMIT= EMPTY= " TLS);
	CHECK_TEXT(MENDED("LD_AUDIT=", "LIMIT=", "EMPTY=", TLS), "LD_AUDIT=/lib/ours.so LIMIT= EMPTY= " TLS);
}

TEST(other_tunables_stay)
{
	keep_usual();
	CHECK_TEXT(
	    MENDED("GLIBC_TUNABLES=a=1:b=2", "LIMIT=", "EMPTY=", "LD_AUDIT=/lib/ours.so"),
	    "GLIBC_TUNABLES=a=1:b=2:glibc.rtld.optional_static_tls=8192 LIMIT= EMPTY= LD_AUDIT=/lib/ours.so");
	CHECK_TEXT(MENDED("GLIBC_TUNABLES=", "LIMIT=", "EMPTY=", "LD_AUDIT=/lib/ours.so"),
		   TLS " LIMIT= EMPTY= LD_AUDIT=/lib/ours.so");
}

TEST(an_old_glibc_gets_bind_now_unless_it_has_it)
{
	keep_usual();
	exec_keep_bind_now();
	CHECK_TEXT(MENDED(TLS, "LIMIT=", "EMPTY=", "LD_AUDIT=/lib/ours.so"),
		   TLS " LIMIT= EMPTY= LD_AUDIT=/lib/ours.so LD_BIND_NOW=1");
	CHECK_TEXT(MENDED(TLS, "LIMIT=", "EMPTY=", "LD_AUDIT=/lib/ours.so", "LD_BIND_NOW=x"), "same");
}

TEST(without_anything_to_keep_every_environment_is_right)
{
	exec_keep_init(NULL, 0);
	CHECK_TEXT(mended(NULL), "same");
	CHECK_TEXT(MENDED("A=1"), "same");
}

TEST(an_environment_of_any_size_that_is_right_is_right)
{
	unsigned n = 2 * EXEC_ENTRIES_MAX;
	const char **huge = calloc(n + 1, sizeof *huge);

	keep_usual();
	for (unsigned i = 0; i < n; i++)
		huge[i] = "A=1";
	CHECK_TEXT(mended(huge), "too large");
	huge[n - 1] = TLS;
	huge[n - 2] = "LIMIT=1";
	huge[n - 3] = "EMPTY=1";
	huge[n - 4] = kept[0];
	CHECK_TEXT(mended(huge), "same");
	free(huge);
}

static struct {
	const char *path, *command;
	text_list arguments, environment;
	int result;
} seen;

static int fake_execve(const char *path, text_list arguments, text_list environment)
{
	seen.path = path;
	seen.arguments = arguments;
	seen.environment = environment;
	errno = 123;
	return -1;
}

static int fake_spawn(void *pid, const char *path, const void *actions, const void *attributes,
		      text_list arguments, text_list environment)
{
	CHECK(pid == &seen && actions == (void *)1 && attributes == (void *)2);
	seen.path = path;
	seen.arguments = arguments;
	seen.environment = environment;
	return 99;
}

static void wrap_fakes(void)
{
	struct elf_object object;

	for (struct link_map *map = dlopen(NULL, RTLD_LAZY); map && !program_libc.setenv; map = map->l_next)
		program_libc_objopen(map, elf_object_load(&object, map) ? &object : NULL, 0);
	originals[EXEC_execve] = originals[EXEC_execvpe] = (void *)fake_execve;
	originals[EXEC_posix_spawn] = older_spawn = (void *)fake_spawn;
	memset(&seen, 0, sizeof seen);
}

TEST(an_environment_that_is_right_is_passed_on_by_the_same_pointer)
{
	static const char *const right[] = {"EMPTY=", "LIMIT=1", "LD_AUDIT=/lib/ours.so", TLS, NULL};
	static const char *const arguments[] = {"a", NULL};

	keep_usual();
	wrap_fakes();
	CHECK_EQ(wrapped_execve("p", arguments, right), -1);
	CHECK(seen.environment == right && seen.arguments == arguments && !strcmp(seen.path, "p"));
	CHECK_EQ(errno, 123);
	CHECK_EQ(wrapped_posix_spawn(&seen, "q", (void *)1, (void *)2, arguments, right), 99);
	CHECK(seen.environment == right && seen.arguments == arguments && !strcmp(seen.path, "q"));
	CHECK_EQ(wrapped_posix_spawn_older(&seen, "q", (void *)1, (void *)2, arguments, NULL), 99);
	CHECK(seen.environment != NULL);
}

static char listed[64];

static int fake_execve_listing(const char *path, text_list arguments, text_list environment)
{
	snprintf(listed, sizeof listed, "%s", path);
	for (unsigned i = 0; arguments[i]; i++)
		strcat(strcat(listed, " "), arguments[i]);
	for (unsigned i = 0; environment[i] && i < 1; i++)
		strcat(strcat(listed, " | "), environment[i]);
	return 5;
}

TEST(listed_arguments_arrive_in_order_and_end_where_the_list_ends)
{
	static const char *const given[] = {"MINE=1", NULL};

	keep_usual();
	wrap_fakes();
	originals[EXEC_execve] = originals[EXEC_execvpe] = (void *)fake_execve_listing;
	CHECK_EQ(wrapped_execle("p", "a", "b", "c", "d", "e", "f", "g", (char *)NULL, given), 5);
	CHECK_TEXT(listed, "p a b c d e f g | MINE=1");
	CHECK_EQ(wrapped_execle("p", (char *)NULL, given), 5);
	CHECK_TEXT(listed, "p | MINE=1");
	clearenv();
	CHECK_EQ(wrapped_execl("p", "a", (char *)NULL), 5);
	CHECK_TEXT(listed, "p a | " TLS);
	CHECK_EQ(wrapped_execlp("p", "a", "b", (char *)NULL), 5);
	CHECK_TEXT(listed, "p a b | " TLS);
}

static int fake_system(const char *command)
{
	static char copy[256];

	seen.command = command ? strncpy(copy, command, sizeof copy - 1) : NULL;
	return 11;
}

TEST(a_command_is_run_by_one_more_shell_that_has_what_is_missing)
{
	static const char *const quoted[] = {"LD_AUDIT=it's"};

	exec_keep_init(quoted, 1);
	wrap_fakes();
	originals[EXEC_system] = (void *)fake_system;
	clearenv();
	CHECK_EQ(wrapped_system("echo 'a b'"), 11);
	CHECK_TEXT(seen.command, "export '" TLS "'; export 'LD_AUDIT=it'\\''s'; "
				 "exec /bin/sh -c -- 'echo '\\''a b'\\'''");
	CHECK_EQ(wrapped_system(NULL), 11);
	CHECK(seen.command == NULL);
	setenv("LD_AUDIT", "it's", 1);
	putenv(TLS);
	CHECK_EQ(wrapped_system("true"), 11);
	CHECK_TEXT(seen.command, "true");
}

TEST_MAIN()
