/* Starts `show` in an empty environment in the way that its argument names, from its own directory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *nothing[] = {NULL};
static char *arguments[] = {"show", "a b", NULL};
static char *odd[] = {"OTHER=1", "GLIBC_TUNABLES=glibc.malloc.check=0", "LD_AUDIT=", NULL};

static void by_execve(void)
{
	execve("./show", arguments, nothing);
}

static void by_execve_null(void)
{
	char *const *volatile none = NULL;

	execve("./show", arguments, none);
}

static void by_execv(void)
{
	clearenv();
	execv("./show", arguments);
}

static void by_execvp(void)
{
	clearenv();
	setenv("PATH", ".", 1);
	execvp("show", arguments);
}

static void by_execvpe(void)
{
	setenv("PATH", ".", 1);
	execvpe("show", arguments, nothing);
}

static void by_execl(void)
{
	clearenv();
	execl("./show", "show", "a b", (char *)NULL);
}

static void by_execlp(void)
{
	clearenv();
	setenv("PATH", ".", 1);
	execlp("show", "show", "a b", (char *)NULL);
}

static void by_execle(void)
{
	execle("./show", "show", "a b", (char *)NULL, nothing);
}

static void by_fexecve(void)
{
	fexecve(open("./show", O_RDONLY), arguments, nothing);
}

static void by_execveat(void)
{
	int (*function)(int, const char *, char *const *, char *const *, int) =
	    (int (*)(int, const char *, char *const *, char *const *, int))dlsym(RTLD_DEFAULT, "execveat");

	if (function)
		function(AT_FDCWD, "./show", arguments, nothing, 0);
	else
		printf("this libc has none\n");
}

static void wait_for(pid_t child)
{
	waitpid(child, NULL, 0);
	exit(0);
}

static void by_posix_spawn(void)
{
	pid_t child;

	if (!posix_spawn(&child, "./show", NULL, NULL, arguments, nothing))
		wait_for(child);
}

static void by_posix_spawnp(void)
{
	pid_t child;

	setenv("PATH", ".", 1);
	if (!posix_spawnp(&child, "show", NULL, NULL, arguments, nothing))
		wait_for(child);
}

/* As a program linked before 2015 finds it. */
static void by_old_posix_spawn(void)
{
	int (*function)(pid_t *, const char *, const void *, const void *, char *const *, char *const *) =
	    (int (*)(pid_t *, const char *, const void *, const void *, char *const *, char *const *))dlvsym(
		RTLD_DEFAULT, "posix_spawn", "GLIBC_2.2.5");
	pid_t child;

	if (function && !function(&child, "./show", NULL, NULL, arguments, nothing))
		wait_for(child);
}

static void by_system(void)
{
	clearenv();
	if (system("./show 'a b'") == 7 << 8 && !environ)
		exit(0);
}

/* The shell that system starts is in the pod too. */
static void by_system_unset(void)
{
	clearenv();
	system("unset LD_AUDIT AMVGPU_KEPT GLIBC_TUNABLES LD_BIND_NOW; ./show 'a b'");
	exit(0);
}

static void by_popen(void)
{
	char line[256] = "";
	FILE *pipe;

	clearenv();
	pipe = popen("./show \"a b\"", "r");
	if (!pipe || !fgets(line, sizeof line, pipe))
		return;
	fputs(line, stdout);
	if (pclose(pipe) == 7 << 8 && !environ)
		exit(0);
}

static void by_syscall(void)
{
	syscall(SYS_execve, "./show", arguments, nothing);
}

static void by_syscall_at(void)
{
	syscall(SYS_execveat, AT_FDCWD, "./show", arguments, nothing, 0);
}

static void by_vfork(void)
{
	pid_t child = vfork();

	if (!child) {
		execve("./show", arguments, nothing);
		_exit(1);
	}
	wait_for(child);
}

static void by_pointer(void)
{
	static int (*const table[])(const char *, char *const *, char *const *) = {execve};
	int (*const volatile *functions)(const char *, char *const *, char *const *) = table;

	functions[0]("./show", arguments, nothing);
}

static void by_dlsym(void)
{
	((int (*)(const char *, char *const *, char *const *))dlsym(RTLD_NEXT, "execve"))("./show", arguments,
											  nothing);
}

static void *in_thread(void *unused)
{
	(void)unused;
	execve("./show", arguments, nothing);
	return NULL;
}

static void by_small_thread(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 32768);
	pthread_create(&thread, &attributes, in_thread, NULL);
	pthread_join(thread, NULL);
}

/* Tunables of its own and an empty LD_AUDIT: both are lists that ours is added to. */
static void by_merge(void)
{
	execve("./show", arguments, odd);
}

/* Errors are those of the real functions, and what they were given is as it was. */
static void by_failing(void)
{
	char **before = environ, *first = environ[0];
	char **huge = calloc(70001, sizeof *huge);
	int wrong = 0;
	pid_t child = -5;

	for (int i = 0; i < 70000; i++)
		huge[i] = "A=1";
	wrong |= 1 * (execve("./none", arguments, nothing) != -1 || errno != ENOENT);
	wrong |= 2 * (execv("/", arguments) != -1 || errno != EACCES);
	wrong |= 4 * (execve("./show", arguments, huge) != -1 || errno != E2BIG);
	wrong |= 8 * (posix_spawn(&child, "./none", NULL, NULL, arguments, nothing) != ENOENT);
	errno = 77;
	wrong |= 16 * (posix_spawn(&child, "./show", NULL, NULL, arguments, huge) != E2BIG || errno != 77);
	wrong |= 32 * (syscall(SYS_execve, "./none", arguments, nothing) != -1 || errno != ENOENT);
	wrong |= 64 * (syscall(SYS_getpid) != getpid() || syscall(SYS_close, 4711) != -1 || errno != EBADF);
	wrong |= 128 * (system(NULL) == 0 || system("exit 3") != 3 << 8 || system("kill -9 $$") != 9);
	wrong |=
	    256 * (environ != before || environ[0] != first || nothing[0] || strcmp(arguments[1], "a b"));
	wrong |= 512 * (execlp("none", "none", (char *)NULL) != -1 || errno != ENOENT);
	printf("wrong=%d\n", wrong);
	exit(0);
}

static const struct {
	const char *name;
	void (*start)(void);
} ways[] = {
    {"execve", by_execve},
    {"execve_null", by_execve_null},
    {"execv", by_execv},
    {"execvp", by_execvp},
    {"execvpe", by_execvpe},
    {"execl", by_execl},
    {"execlp", by_execlp},
    {"execle", by_execle},
    {"fexecve", by_fexecve},
    {"execveat", by_execveat},
    {"posix_spawn", by_posix_spawn},
    {"posix_spawnp", by_posix_spawnp},
    {"old_posix_spawn", by_old_posix_spawn},
    {"system", by_system},
    {"system_unset", by_system_unset},
    {"popen", by_popen},
    {"syscall", by_syscall},
    {"syscall_at", by_syscall_at},
    {"vfork", by_vfork},
    {"pointer", by_pointer},
    {"dlsym", by_dlsym},
    {"small_thread", by_small_thread},
    {"merge", by_merge},
    {"failing", by_failing},
};

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++) {
		if (!strcmp(argv[1], ways[i].name))
			ways[i].start();
	}
	return 1;
}
