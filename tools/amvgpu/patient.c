/* Runs a program and looks at it, and at all its descendants, at the moment each of them ends.
 *
 * ptrace stops a process on its way out while its memory is still there: its mappings tell whether the
 * library and a GPU runtime were loaded, and the region it has mapped has its slot. Where ptrace is not
 * allowed we look every 20 ms.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"
#include "library.h"
#include "private_region.h"
#include "region.h"

enum { LOOK_EVERY_US = 5000 };

static struct patient *patient_of(struct doctor *d, int pid)
{
	struct patient *more;

	for (unsigned i = 0; i < d->patient_count; i++) {
		if (d->patients[i].pid == pid)
			return &d->patients[i];
	}
	more = realloc(d->patients, (d->patient_count + 1) * sizeof *more);
	if (!more)
		return NULL;
	d->patients = more;
	more[d->patient_count] = (struct patient){.pid = pid};
	return &more[d->patient_count++];
}

/* Names of mapped files tell: wheels put a hash into a library's name, but leave its beginning. */
static void look_at_maps(struct patient *p)
{
	char path[64], line[4400];
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%d/maps", p->pid);
	if (!(maps = fopen(path, "re")))
		return;
	while (fgets(line, sizeof line, maps)) {
		const char *base = strrchr(line, '/');

		if (!base)
			continue;
		/* A loader that gave up half-way leaves its first, read-only piece mapped. */
		if (!strncmp(base + 1, LIBRARY_STEM, sizeof LIBRARY_STEM - 1) && strstr(line, " r-xp "))
			p->has_library = true;
		if (!strncmp(base, "/libamdhip64", 12) || !strncmp(base, "/libhsa-runtime64", 17))
			p->has_runtime = true;
	}
	fclose(maps);
}

static bool look_for_slot(struct patient *p, const char *name, uint64_t start)
{
	struct ledger_view *view = calloc(1, ledger_view_size());
	struct ledger_process slot;
	char storage[40];
	unsigned n = 0;
	bool found = false;
	int copy;
	const char *path = private_region_path(name, storage, &copy);

	if (view && path && !ledger_view_open(view, path)) {
		while (!found && ledger_view_next(view, &n, &slot))
			found = slot.pid == (unsigned)p->pid && (!start || slot.start_time == start);
		ledger_view_close(view);
	}
	if (copy >= 0)
		close(copy);
	free(view);
	if (!found)
		return false;
	p->has_slot = true;
	p->slot = slot;
	free(p->region);
	p->region = strdup(name);
	return true;
}

/* What it has mapped; on its way out it may have unmapped it, then where a region would be. */
static void look_at_regions(struct patient *p)
{
	struct region_list list = {0};
	uint64_t start = process_start_time(p->pid);
	size_t mapped;

	region_of_process(p->pid, &list);
	mapped = list.count;
	region_of_private(p->pid, &list);
	region_default(&list);
	for (size_t i = 0; i < list.count; i++) {
		if (look_for_slot(p, list.paths[i], i < mapped ? 0 : start))
			break;
	}
	region_list_free(&list);
}

static void look_at(struct doctor *d, int pid, bool is_probe)
{
	struct patient *p = patient_of(d, pid);
	char path[64];
	FILE *file;

	if (!p)
		return;
	p->is_probe = is_probe;
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	if ((file = fopen(path, "re"))) {
		if (fgets(p->command, sizeof p->command, file))
			p->command[strcspn(p->command, "\n")] = 0;
		fclose(file);
	}
	look_at_maps(p);
	look_at_regions(p);
}

/* A shell that started the program, and the like, is shown only where there is nothing better: the last to
 * end, the first. */
static void forget_bystanders(struct doctor *d, unsigned from, int first)
{
	unsigned kept = from;
	bool any = false;

	for (unsigned i = from; i < d->patient_count; i++)
		any |= d->patients[i].has_runtime && !d->patients[i].is_probe;
	for (unsigned i = from; i < d->patient_count; i++) {
		if (any ? d->patients[i].has_runtime : d->patients[i].pid == first)
			d->patients[kept++] = d->patients[i];
	}
	d->patient_count = kept;
}

static volatile sig_atomic_t ticks;

static void on_alarm(int signal)
{
	(void)signal;
	ticks++;
}

static void set_timer(double seconds)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval timer = {0};

	ticks = 0;
	timer.it_value.tv_sec = (time_t)seconds;
	timer.it_value.tv_usec = (suseconds_t)((seconds - (double)timer.it_value.tv_sec) * 1e6);
	timer.it_interval = seconds < 1 ? timer.it_value : (struct timeval){1, 0};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Lets a stopped tracee go on. A stop of its whole group (job control) is left standing. */
static void go_on(int pid, int status)
{
	int event = status >> 16, signal = WSTOPSIG(status);

	if (event == PTRACE_EVENT_STOP &&
	    (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU))
		ptrace(PTRACE_LISTEN, pid, 0, 0);
	else
		ptrace(PTRACE_CONT, pid, 0, event ? 0 : signal);
}

/* Until nobody is left, or, once the first has ended, until time is up: then the rest is stopped. */
static int watch_traced(struct doctor *d, int first, bool is_probe)
{
	int status, result = 0, rounds = 0;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0 && errno == EINTR) {
			kill(-first, rounds++ ? SIGKILL : SIGTERM);
			continue;
		}
		if (pid < 0)
			return result;
		if (WIFSTOPPED(status)) {
			if (status >> 16 == PTRACE_EVENT_EXIT)
				look_at(d, pid, is_probe);
			go_on(pid, status);
		} else if (pid == first) {
			result = status;
		}
	}
}

/* Before it has executed its program a child is still a copy of us. */
static bool is_still_us(int pid)
{
	char link[64], ours[PATH_MAX], its[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", ours, sizeof ours), m;

	snprintf(link, sizeof link, "/proc/%d/exe", pid);
	m = readlink(link, its, sizeof its);
	return n > 0 && m == n && !memcmp(ours, its, (size_t)n);
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int watch_untraced(struct doctor *d, int first, bool is_probe, double seconds)
{
	double end = now_s() + seconds;
	int status = 0, rounds = 0;

	for (;;) {
		pid_t pid = waitpid(first, &status, WNOHANG);

		if (pid == first || (pid < 0 && errno != EINTR))
			return status;
		if (is_probe || !is_still_us(first))
			look_at(d, first, is_probe);
		usleep(LOOK_EVERY_US);
		if (seconds > 0 && now_s() > end + rounds)
			kill(-first, rounds++ ? SIGKILL : SIGTERM);
	}
}

/* The child waits for a byte, so that it is traced from its first instruction on. */
static void child(char **argv, int gate, bool to_stderr)
{
	char byte;

	setpgid(0, 0);
	if (to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (read(gate, &byte, 1) != 1)
		_exit(125);
	execvp(argv[0], argv);
	fprintf(stderr, "amvgpu: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int patient_watch(struct doctor *d, char **argv, bool is_probe, double seconds)
{
	const unsigned long wanted =
	    PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
	unsigned before = d->patient_count;
	int gate[2], status;
	bool traced;
	pid_t pid;

	if (pipe(gate))
		return -1;
	/* An exec into a container can leave us undumpable, and with us the child: then nobody may look at
	 * it. */
	prctl(PR_SET_DUMPABLE, 1);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(gate[1]);
		child(argv, gate[0], is_probe || d->is_stdout_ours);
	}
	close(gate[0]);
	if (pid < 0) {
		close(gate[1]);
		return -1;
	}
	setpgid(pid, pid);
	traced = !ptrace(PTRACE_SEIZE, pid, 0, wanted);
	if (write(gate[1], "", 1) != 1)
		kill(pid, SIGKILL);
	close(gate[1]);
	if (traced && seconds > 0)
		set_timer(seconds);
	status = traced ? watch_traced(d, pid, is_probe) : watch_untraced(d, pid, is_probe, seconds);
	set_timer(0);
	forget_bystanders(d, before, pid);
	return status;
}
