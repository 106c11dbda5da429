/* A program that does something unusual and then fills its card: "filled N REFUSAL", N blocks of 1 MiB.
 *
 *	trap plain                          nothing unusual
 *	trap stack BYTES                    on a thread with so small a stack
 *	trap dlmopen                        the runtime is in a namespace of its own
 *	trap deny NUMBER,...                once the runtime is loaded these system calls say EPERM
 *	trap no-descriptors                 closes every descriptor, before and after the first allocation
 *	trap nofile NUMBER                  may have so many descriptors, from the moment the runtime is loaded
 *	trap uid NUMBER                     becomes another user before its first allocation
 *	trap storm                          a signal every 100 us, without SA_RESTART, on 3 threads at the limit
 *	trap deferred | asynchronous        a thread is cancelled inside of the runtime
 *	trap throw | jump  here | deeper    an exception goes through the runtime, or a signal handler jumps out of it;
 *	                                    then more than the card has is asked for, from the same depth of the stack or below
 *
 * With a trailing "stay" it then waits for its standard input to end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

enum { MIB = 1 << 20, MOST = 4096 };

static int (*take)(void **, size_t);
static int (*give)(void *);
static int (*count_devices)(int *);
static void *blocks[MOST];

static int load(Lmid_t namespace)
{
	const char *name = getenv("HIPSH_RUNTIME");
	void *runtime = namespace == LM_ID_BASE ? dlopen(name, RTLD_NOW | RTLD_GLOBAL) : dlmopen(namespace, name, RTLD_NOW);

	if (!runtime) {
		fprintf(stderr, "trap: %s\n", dlerror());
		return 0;
	}
	/* as a program that is linked with the runtime, whatever is preloaded */
	take = (int (*)(void **, size_t))dlsym(namespace == LM_ID_BASE ? RTLD_DEFAULT : runtime, "hipMalloc");
	if (!take)
		take = (int (*)(void **, size_t))dlsym(runtime, "hipMalloc");
	give = (int (*)(void *))dlsym(runtime, "hipFree");
	count_devices = (int (*)(int *))dlsym(runtime, "hipGetDeviceCount");
	return take && give && count_devices;
}

static void fill(void)
{
	int n = 0, error = 0;
	char text[64];

	while (n < MOST && !(error = take(&blocks[n], MIB)))
		n++;
	for (int i = 0; i < n; i++)
		give(blocks[i]);
	n = 0;
	while (n < MOST && !(error = take(&blocks[n], MIB)))
		n++;
	if (write(1, text, (size_t)snprintf(text, sizeof text, "filled %d %d\n", n, error)) < 0)
		_exit(3);
}

static void *fill_thread(void *unused)
{
	fill();
	return unused;
}

static void fill_on_stack(size_t bytes)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	pthread_attr_init(&attributes);
	error = pthread_attr_setstacksize(&attributes, bytes);
	if (!error)
		error = pthread_create(&thread, &attributes, fill_thread, NULL);
	if (error) {
		printf("no thread %d\n", error);
		return;
	}
	pthread_join(thread, NULL);
}

static void deny(char *list)
{
	struct sock_filter program[128];
	unsigned short n = 0;

	program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
		program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(word), 0, 1);
		program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){ n, program }))
		_exit(4);
}

static void close_all(void)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
}

static void nothing(int signal)
{
	(void)signal;
}

static void *hammer(void *errors)
{
	void *held[16] = { 0 };
	int *wrong = errors, error;

	for (unsigned i = 0; i < 40000; i++) {
		void **p = &held[i * 7 % 16];

		if (*p) {
			error = give(*p);
			*p = NULL;
		} else if ((error = take(p, 3 * MIB))) {
			*p = NULL;
		}
		*wrong += error && error != 2;
	}
	for (unsigned i = 0; i < 16; i++) {
		if (held[i])
			*wrong += give(held[i]) != 0;
	}
	return NULL;
}

static void storm(void)
{
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = nothing };
	pthread_t thread[3];
	int wrong[3] = { 0 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, hammer, &wrong[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	if (wrong[0] + wrong[1] + wrong[2])
		printf("wrong\n");
}

/* ---- what happens inside of a call: the preloaded interposer.cc does it ---- */

enum { THROW = 1, RAISE, PAUSE, CIRCLE };

static int *trap_next(void)
{
	int *next = dlsym(RTLD_DEFAULT, "trap_next");

	if (!next)
		_exit(6);
	return next;
}

static void take_one(void)
{
	void *p;

	take(&p, 4096);
}

static void *cancelled(void *type)
{
	int what = *(int *)type;

	pthread_setcanceltype(what == CIRCLE ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, NULL);
	*trap_next() = what;
	take_one();
	return NULL;
}

static void cancel(int what)
{
	pthread_t thread;
	void *end;

	pthread_create(&thread, NULL, cancelled, &what);
	usleep(50000);
	pthread_cancel(thread);
	pthread_join(thread, &end);
	if (end != PTHREAD_CANCELED)
		printf("not cancelled\n");
}

static void throw(void)
{
	int (*catch)(void (*)(void)) = (int (*)(void (*)(void)))dlsym(RTLD_DEFAULT, "trap_catch");

	*trap_next() = THROW;
	printf(catch && catch(take_one) ? "caught\n" : "not thrown\n");
}

static sigjmp_buf back;

static void jump_back(int signal)
{
	siglongjmp(back, signal);
}

static void jump(void)
{
	signal(SIGUSR1, jump_back);
	*trap_next() = RAISE;
	if (sigsetjmp(back, 1))
		printf("jumped\n");
	else
		take_one();
}

static void ask_too_much(void)
{
	void *p;

	printf("then %d\n", take(&p, (size_t)65 * MIB));
}

static void ask_deeper(void)
{
	volatile char room[8192];

	memset((char *)room, 1, sizeof room);
	ask_too_much();
	room[0] = 0;
}

static void leave(void (*how)(void), const char *where)
{
	how();
	if (!strcmp(where, "deeper"))
		ask_deeper();
	else
		ask_too_much();
	exit(0);
}

static void prepare(const char *what, char *with)
{
	int devices;

	if (!strcmp(what, "deny")) {
		count_devices(&devices);
		deny(with);
	} else if (!strcmp(what, "no-descriptors")) {
		count_devices(&devices);
		close_all();
		if (!take(&blocks[0], MIB))
			give(blocks[0]);
		close_all();
	} else if (!strcmp(what, "nofile")) {
		struct rlimit few = { (rlim_t)atoi(with), (rlim_t)atoi(with) };

		count_devices(&devices);
		setrlimit(RLIMIT_NOFILE, &few);
	} else if (!strcmp(what, "uid")) {
		count_devices(&devices);
		if (setgid((gid_t)atoi(with)) || setuid((uid_t)atoi(with)))
			_exit(5);
	} else if (!strcmp(what, "storm")) {
		storm();
	} else if (!strcmp(what, "deferred")) {
		cancel(PAUSE);
	} else if (!strcmp(what, "asynchronous")) {
		cancel(CIRCLE);
	} else if (!strcmp(what, "throw")) {
		leave(throw, with);
	} else if (!strcmp(what, "jump")) {
		leave(jump, with);
	}
}

int main(int count, char **argument)
{
	const char *what = count > 1 ? argument[1] : "plain";
	char byte;

	if (!load(strcmp(what, "dlmopen") ? LM_ID_BASE : LM_ID_NEWLM))
		return 2;
	prepare(what, count > 2 ? argument[2] : NULL);
	fflush(stdout);
	if (!strcmp(what, "stack"))
		fill_on_stack((size_t)atol(argument[2]));
	else
		fill();
	if (count > 2 && !strcmp(argument[count - 1], "stay") && read(0, &byte, 1) < 0)
		return 3;
	return 0;
}
