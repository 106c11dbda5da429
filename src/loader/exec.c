/* The exec family of the program's libc, so that what it starts stays in the pod. */
#include "exec.h"

#include <stdarg.h>

#include "../sys/sys.h"
#include "../sys/text.h"
#include "program_libc.h"

typedef const char *const *text_list;

/* The real functions. */
typedef int execve_function(const char *path, text_list arguments, text_list environment);
typedef int fexecve_function(int fd, text_list arguments, text_list environment);
typedef int execveat_function(int fd, const char *path, text_list arguments, text_list environment,
			      int flags);
typedef int spawn_function(void *pid, const char *path, const void *actions, const void *attributes,
			   text_list arguments, text_list environment);
typedef int system_function(const char *command);
typedef void *popen_function(const char *command, const char *mode);
typedef long syscall_function(long number, ...);

enum exec_function {
#define EXEC_INDEX(name) EXEC_##name,
	EXEC_FUNCTIONS(EXEC_INDEX) EXEC_COUNT
#undef EXEC_INDEX
};

static void *originals[EXEC_COUNT];
static void *older_spawn, *older_spawnp; /* before 2.15: they try a script without #! again with the shell */

/* One call on its way, its environment aside. */
struct call {
	long (*enter)(const struct call *call, text_list environment);
	void *original;
	bool returns_error; /* posix_spawn: as its value, errno is left alone */
	const char *path;
	text_list arguments;
	int fd, flags;
	void *pid;
	const void *actions, *attributes;
};

static long fail(const struct call *call, int error)
{
	if (call->returns_error)
		return error;
	*program_libc.__errno_location() = error;
	return -1;
}

/* The mended environment lives in this frame, until the real function comes back or there is another program.
 */
static long enter_mended(const struct call *call, const struct exec_plan *plan)
{
	const char **entries = __builtin_alloca(plan->entries * sizeof *entries);
	char *texts = __builtin_alloca(plan->text_size + 1);

	exec_plan_fill(plan, entries, texts);
	return call->enter(call, entries);
}

/* Plans what path gets, and tells the judge. False: the given environment is right. */
static bool plan_for(struct exec_plan *plan, const char *path, text_list environment)
{
	const struct exec_judge *judge = exec_keep_judge_now();

	exec_plan_make(plan, environment);
	if (!plan->entries || (judge && judge->is_exempt(path)))
		return false;
	if (plan->overridden)
		judge->note_overridden();
	return true;
}

static long run(const struct call *call, text_list environment)
{
	struct exec_plan plan;

	if (!plan_for(&plan, call->path, environment))
		return call->enter(call, environment);
	if (plan.is_too_large)
		return fail(call, E2BIG);
	return enter_mended(call, &plan);
}

static text_list live_environment(void)
{
	char ***live = program_live_environment();

	return live ? (text_list)*live : NULL;
}

/* ---- exec by path or through PATH ---- */

static long enter_execve(const struct call *call, text_list environment)
{
	return ((execve_function *)call->original)(call->path, call->arguments, environment);
}

static int run_execve(enum exec_function function, const char *path, text_list arguments,
		      text_list environment)
{
	struct call call = {
	    .enter = enter_execve, .original = originals[function], .path = path, .arguments = arguments};

	return (int)run(&call, environment);
}

static int wrapped_execve(const char *path, text_list arguments, text_list environment)
{
	return run_execve(EXEC_execve, path, arguments, environment);
}

static int wrapped_execv(const char *path, text_list arguments)
{
	return run_execve(EXEC_execve, path, arguments, live_environment());
}

static int wrapped_execvpe(const char *file, text_list arguments, text_list environment)
{
	return run_execve(EXEC_execvpe, file, arguments, environment);
}

static int wrapped_execvp(const char *file, text_list arguments)
{
	return run_execve(EXEC_execvpe, file, arguments, live_environment());
}

/* ---- exec with the arguments listed ---- */

static unsigned arguments_count(const char *first, va_list list)
{
	unsigned count = 0;

	for (const char *argument = first; argument && count < EXEC_ENTRIES_MAX;
	     argument = va_arg(list, const char *))
		count++;
	return count;
}

/* Takes the list up to its NULL, for which arguments has room. */
static void arguments_take(const char **arguments, const char *first, va_list *list)
{
	const char *argument = first;

	for (; argument; argument = va_arg(*list, const char *))
		*arguments++ = argument;
	*arguments = NULL;
}

static int fail_too_long(void)
{
	return (int)fail(&(struct call){0}, E2BIG);
}

/* Runs `function` with the listed arguments; is_listed: the environment comes behind their NULL. */
static int run_list(enum exec_function function, const char *path, const char *first, unsigned count,
		    va_list *list, bool is_listed)
{
	const char **arguments = __builtin_alloca((count + 1) * sizeof *arguments);

	arguments_take(arguments, first, list);
	return run_execve(function, path, arguments,
			  is_listed ? va_arg(*list, text_list) : live_environment());
}

#define LISTED(name, function, is_listed)                                                                    \
	static int wrapped_##name(const char *path, const char *first, ...)                                  \
	{                                                                                                    \
		va_list list;                                                                                \
		unsigned count;                                                                              \
		int result;                                                                                  \
                                                                                                             \
		va_start(list, first);                                                                       \
		count = arguments_count(first, list);                                                        \
		va_end(list);                                                                                \
		if (count == EXEC_ENTRIES_MAX)                                                               \
			return fail_too_long();                                                              \
		va_start(list, first);                                                                       \
		result = run_list(function, path, first, count, &list, is_listed);                           \
		va_end(list);                                                                                \
		return result;                                                                               \
	}

LISTED(execl, EXEC_execve, false)
LISTED(execlp, EXEC_execvpe, false)
LISTED(execle, EXEC_execve, true)

/* ---- exec by descriptor ---- */

static long enter_fexecve(const struct call *call, text_list environment)
{
	return ((fexecve_function *)call->original)(call->fd, call->arguments, environment);
}

static int wrapped_fexecve(int fd, text_list arguments, text_list environment)
{
	struct call call = {
	    .enter = enter_fexecve, .original = originals[EXEC_fexecve], .fd = fd, .arguments = arguments};

	return (int)run(&call, environment);
}

static long enter_execveat(const struct call *call, text_list environment)
{
	return ((execveat_function *)call->original)(call->fd, call->path, call->arguments, environment,
						     call->flags);
}

static int wrapped_execveat(int fd, const char *path, text_list arguments, text_list environment, int flags)
{
	struct call call = {.enter = enter_execveat,
			    .original = originals[EXEC_execveat],
			    .fd = fd,
			    .path = path,
			    .arguments = arguments,
			    .flags = flags};

	return (int)run(&call, environment);
}

/* ---- posix_spawn ---- */

static long enter_spawn(const struct call *call, text_list environment)
{
	return ((spawn_function *)call->original)(call->pid, call->path, call->actions, call->attributes,
						  call->arguments, environment);
}

#define SPAWN(name, real)                                                                                    \
	static int wrapped_##name(void *pid, const char *path, const void *actions, const void *attributes,  \
				  text_list arguments, text_list environment)                                \
	{                                                                                                    \
		struct call call = {.enter = enter_spawn,                                                    \
				    .original = (real),                                                      \
				    .returns_error = true,                                                   \
				    .path = path,                                                            \
				    .arguments = arguments,                                                  \
				    .pid = pid,                                                              \
				    .actions = actions,                                                      \
				    .attributes = attributes};                                               \
                                                                                                             \
		return (int)run(&call, environment);                                                         \
	}

SPAWN(posix_spawn, originals[EXEC_posix_spawn])
SPAWN(posix_spawnp, originals[EXEC_posix_spawnp])
SPAWN(posix_spawn_older, older_spawn)
SPAWN(posix_spawnp_older, older_spawnp)

/* ---- system and popen: libc takes the environment from the program, so the command brings the rest ---- */

struct command {
	const char *text; /* what the real function is given, or NULL: fails with errno set */
	char *mapping;
	size_t size;
};

/* The shell that libc starts is started with the program's own environment, and takes that for what it was given. */
static void own_environment_mend(void)
{
	const struct exec_judge *judge = exec_keep_judge_now();
	const char **entry = (const char **)live_environment();

	for (; judge && entry && *entry; entry++) {
		const char *assignment = judge->own(*entry);

		if (assignment)
			*entry = assignment;
	}
}

static struct command command_open(const char *command)
{
	struct command c = {command, NULL, 0};
	struct exec_plan plan;

	if (!command || !plan_for(&plan, NULL, live_environment()))
		return c;
	if (plan.overridden) {
		own_environment_mend();
		exec_plan_make(&plan, live_environment());
		if (!plan.entries)
			return c;
	}
	c.text = NULL;
	if (plan.is_too_large) {
		fail_too_long();
		return c;
	}
	c.size = exec_plan_command_size(&plan, command);
	c.mapping = sys_mmap(NULL, c.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_error(c.mapping)) {
		c.mapping = NULL;
		*program_libc.__errno_location() = ENOMEM;
		return c;
	}
	exec_plan_command(&plan, command, c.mapping, c.size);
	c.text = c.mapping;
	return c;
}

static void command_close(struct command *c)
{
	if (c->mapping)
		sys_munmap(c->mapping, c->size);
}

static int wrapped_system(const char *command)
{
	struct command c = command_open(command);
	int result = -1;

	if (c.text || !command)
		result = ((system_function *)originals[EXEC_system])(c.text);
	command_close(&c);
	return result;
}

static void *wrapped_popen(const char *command, const char *mode)
{
	struct command c = command_open(command);
	void *result = NULL;

	if (c.text || !command)
		result = ((popen_function *)originals[EXEC_popen])(c.text, mode);
	command_close(&c);
	return result;
}

/* ---- syscall ---- */

/* Everything but the two goes on untouched, by a jump: some calls return twice, or on another stack. */
void exec_syscall_entry(void) __attribute__((visibility("hidden")));
long exec_syscall(long number, long a, long b, long c, long d, long e) __attribute__((visibility("hidden")));
void *exec_syscall_original __attribute__((visibility("hidden")));

__asm__(".pushsection .text\n"
	".globl exec_syscall_entry\n"
	".hidden exec_syscall_entry\n"
	".type exec_syscall_entry, @function\n"
	"exec_syscall_entry:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	cmpq $59, %rdi\n"
	"	je exec_syscall\n"
	"	cmpq $322, %rdi\n"
	"	je exec_syscall\n"
	"	jmp *exec_syscall_original(%rip)\n"
	".cfi_endproc\n"
	".size exec_syscall_entry, . - exec_syscall_entry\n"
	".popsection\n");

_Static_assert(SYS_execve == 59 && SYS_execveat == 322, "exec_syscall_entry knows these by number");

static long enter_syscall_execve(const struct call *call, text_list environment)
{
	return ((syscall_function *)call->original)(SYS_execve, call->path, call->arguments, environment);
}

static long enter_syscall_execveat(const struct call *call, text_list environment)
{
	return ((syscall_function *)call->original)(SYS_execveat, (long)call->fd, call->path, call->arguments,
						    environment, (long)call->flags);
}

long exec_syscall(long number, long a, long b, long c, long d, long e)
{
	struct call call = {.enter = enter_syscall_execve,
			    .original = exec_syscall_original,
			    .path = (const char *)a,
			    .arguments = (text_list)b};

	if (number == SYS_execve)
		return run(&call, (text_list)c);
	call.enter = enter_syscall_execveat;
	call.fd = (int)a;
	call.path = (const char *)b;
	call.arguments = (text_list)c;
	call.flags = (int)e;
	return run(&call, (text_list)d);
}

/* ---- binding ---- */

static void open_libc(struct elf_object *object, struct patch_batch *batch, struct patch_result *result)
{
#define EXEC_PATCH(name) {#name, (void *)wrapped_##name, &originals[EXEC_##name]},
	static const struct patch list[] = {
	    EXEC_FUNCTIONS(EXEC_PATCH){"syscall", (void *)exec_syscall_entry, &exec_syscall_original},
	};
#undef EXEC_PATCH
	static const struct patch older[] = {
	    {"posix_spawn", (void *)wrapped_posix_spawn_older, &older_spawn},
	    {"posix_spawnp", (void *)wrapped_posix_spawnp_older, &older_spawnp},
	};
	static struct patch_result unused;

	if (!elf_object_find(object, "epoll_pwait2", NULL)) /* new in 2.35 */
		exec_keep_bind_now();
	patch_batch_add_older(batch, older, sizeof older / sizeof *older, &unused);
	patch_batch_add(batch, list, sizeof list / sizeof *list, result);
}

/* Its copies do what libc's do, which is what the wrappers call. */
static void open_libpthread(struct patch_batch *batch, struct patch_result *result)
{
	static void *unused[EXEC_COUNT];
#define EXEC_PATCH(name) {#name, (void *)wrapped_##name, &unused[EXEC_##name]},
	static const struct patch list[] = {EXEC_FUNCTIONS(EXEC_PATCH)};
#undef EXEC_PATCH

	patch_batch_add(batch, list, sizeof list / sizeof *list, result);
}

void exec_objopen(struct elf_object *object, struct patch_batch *batch, struct patch_result *result)
{
	if (exec_keep_is_on() && elf_object_is_libc(object))
		open_libc(object, batch, result);
	else if (exec_keep_is_on() && text_equal(object->soname, "libpthread.so.0"))
		open_libpthread(batch, result);
}
