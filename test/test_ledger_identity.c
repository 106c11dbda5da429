/* Whose bytes are whose: through fork, exec, threads, namespaces and all that looks like death and is not.
 *
 * Each claim is tried on an ordinary file system, where a mapping keeps the slot's byte, and on overlayfs,
 * where only a descriptor does. What does not hold on overlayfs is tested as the hole that it is. Needs root
 * for its mounts.
 */
#include "ledger_root.h"

#include <linux/sched.h>
#include <sys/syscall.h>

#include "../src/multiprocess/testpoint.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

typedef void body(const char *path, bool is_overlay);

static void on_both(body *b)
{
	IN_OWN_ROOT(b("/tmp/region", false));
	IN_OWN_ROOT(b(test_overlay_path(), true));
}

#define CLAIM(name)                                                                                          \
	static void name##_body(const char *path, bool is_overlay);                                          \
	TEST(name)                                                                                           \
	{                                                                                                    \
		on_both(name##_body);                                                                        \
	}                                                                                                    \
	static void name##_body(const char *path, __attribute__((unused)) bool is_overlay)

/* A child that runs `before` (may be NULL), holds 800 of 1000, runs `then` and stays. */
static pid_t hold(const char *path, void (*before)(void), void (*then)(void))
{
	struct test_gate holds = test_gate();
	pid_t pid;

	CHILD(pid, {
		if (before)
			before();
		if (test_take(test_ledger(path, 1000), 800) != LEDGER_GRANTED)
			_exit(1);
		if (then)
			then();
		test_gate_open(&holds);
		for (;;)
			pause();
	});
	test_gate_pass(&holds);
	return pid;
}

static void check_alive(struct ledger *l)
{
	CHECK_EQ(test_take(l, 201), LEDGER_OVER_LIMIT);
	usleep(60000);
	CHECK_EQ(test_used(l), 800);
	CHECK_EQ(test_take(l, 200), LEDGER_GRANTED);
	test_give(l, 200);
}

static void check_dead(struct ledger *l)
{
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	test_give(l, 1000);
	CHECK_EQ(test_used(l), 0);
}

static void close_everything(void)
{
	syscall(SYS_close_range, 3, ~0u, 0);
}

/* ---- fork */

CLAIM(a_forked_child_has_a_slot_of_its_own_and_owns_nothing_of_its_parents)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	test_take(l, 600);
	CHILD(pid, {
		status = test_used(l) != 600 || test_take(l, 401) != LEDGER_OVER_LIMIT || test_take(l, 400);
		status |= test_used(l) != 1000;
		test_give(l, 400);
		status |= test_used(l) != 600;
		test_take(l, 400);
	});
	CHECK_EQ(test_wait(pid), 0);
	CHECK_EQ(test_take(l, 400), LEDGER_GRANTED);
	CHECK_EQ(test_used(l), 1000);
}

CLAIM(a_forked_child_that_never_asks_for_anything_changes_nothing)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	test_take(l, 600);
	CHILD(pid, status = 0);
	CHECK_EQ(test_wait(pid), 0);
	CHECK_EQ(test_used(l), 600);
}

CLAIM(bytes_of_a_dead_parent_are_free_while_its_forked_child_lives)
{
	struct ledger *l = test_ledger(path, 1000);
	struct test_gate holds = test_gate(), over = test_gate();
	pid_t pid;

	ledger_open(l);
	CHILD(pid, {
		test_take(test_ledger(path, 1000), 800);
		if (!fork()) {
			test_gate_open(&holds);
			test_gate_pass(&over);
			_exit(0);
		}
		pause();
	});
	test_gate_pass(&holds);
	test_kill(pid);
	check_dead(l);
	test_gate_open(&over);
}

CLAIM(the_parents_rows_survive_the_death_of_a_forked_child)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	test_take(l, 600);
	for (int i = 0; i < 20; i++) {
		CHILD(pid, status = test_take(l, 400));
		CHECK_EQ(test_wait(pid), 0);
	}
	CHECK_EQ(test_take(l, 401), LEDGER_OVER_LIMIT);
	CHECK_EQ(test_take(l, 400), LEDGER_GRANTED);
}

CLAIM(a_vfork_child_changes_nothing)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	test_take(l, 600);
	pid = vfork();
	if (!pid)
		_exit(0);
	CHECK_EQ(test_wait(pid), 0);
	CHECK_EQ(test_used(l), 600);
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	CHECK_EQ(test_wait(pid), 0);
	CHECK_EQ(test_used(l), 600);
	CHECK_EQ(test_take(l, 401), LEDGER_OVER_LIMIT);
}

CLAIM(a_raw_clone_without_SIGCHLD_has_a_slot_of_its_own)
{
	struct ledger *l = test_ledger(path, 1000);
	int status = -1;
	pid_t pid;

	test_take(l, 600);
	pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	if (!pid)
		_exit(test_used(l) != 600 || test_take(l, 400));
	CHECK(waitpid(pid, &status, __WCLONE) == pid && status == 0);
	CHECK_EQ(test_take(l, 400), LEDGER_GRANTED);
}

static struct ledger *busy_ledger;
static _Atomic bool busy_is_over;

static void *busy_thread(void *unused)
{
	while (!busy_is_over) {
		if (test_take(busy_ledger, 10) == LEDGER_GRANTED)
			test_give(busy_ledger, 10);
	}
	return unused;
}

CLAIM(a_fork_while_other_threads_allocate_neither_hangs_nor_loses_a_byte)
{
	pthread_t id[3];
	pid_t pid;

	busy_ledger = test_ledger(path, 1000);
	for (int i = 0; i < 3; i++)
		MUST(pthread_create(&id[i], NULL, busy_thread, NULL) == 0);
	for (int i = 0; i < 100; i++) {
		CHILD(pid, {
			alarm(20);
			status = test_take(busy_ledger, 900);
		});
		CHECK_EQ(test_wait(pid), 0);
	}
	busy_is_over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(id[i], NULL);
	CHECK_EQ(test_take(busy_ledger, 1000), LEDGER_GRANTED);
	CHECK_EQ(test_take(busy_ledger, 1), LEDGER_OVER_LIMIT);
}

static bool is_forking_under_the_lock;
static pid_t lock_inheritor;

static bool is_forking_in_a_call;
static int child_in_the_call;

void testpoint_reached(enum testpoint point)
{
	if (point == TESTPOINT_reserve_entered && is_forking_in_a_call) {
		pid_t pid = fork(); /* as a signal handler would that returns in the child too */

		is_forking_in_a_call = false;
		if (pid)
			child_in_the_call = test_wait(pid);
		else
			signal(SIGSEGV, SIG_DFL); /* not a sanitizer's */
	}
	if (point != TESTPOINT_reserve_queued || !is_forking_under_the_lock)
		return;
	is_forking_under_the_lock = false;
	CHILD(lock_inheritor, {
		for (;;)
			pause();
	});
}

/* A known hole: docs/failure-policy.md. */
CLAIM(a_child_forked_within_a_call_that_returns_into_it_crashes_and_the_parent_does_not_mind)
{
	struct ledger *l = test_ledger(path, 1000);

	MUST(ledger_open(l) == 0);
	is_forking_in_a_call = true;
	CHECK_EQ(test_take(l, 800), LEDGER_GRANTED);
	CHECK_EQ(child_in_the_call, 128 + SIGSEGV);
	CHECK_EQ(test_used(l), 800);
	CHECK_EQ(test_take(l, 201), LEDGER_OVER_LIMIT);
}

CLAIM(a_child_forked_under_the_regions_lock_does_not_keep_it)
{
	struct ledger *l = test_ledger(path, 1000);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	pid_t pid;
	int fd;

	ledger_open(l);
	CHILD(pid, test_take(test_ledger(path, 1000), 800));
	test_wait(pid);
	is_forking_under_the_lock = true;
	CHECK_EQ(test_take(l, 1000), LEDGER_GRANTED);
	CHECK(lock_inheritor > 0);
	fd = open(path, O_RDWR);
	CHECK(fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
	close(fd);
	test_kill(lock_inheritor);
}

/* ---- exec */

static int after_exec(const char *path)
{
	struct ledger *l = test_ledger(path, 1000);

	return test_used(l) != 0 || test_take(l, 1000) != LEDGER_GRANTED;
}

CLAIM(what_a_process_held_before_exec_is_not_held_after_it)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	CHILD(pid, {
		test_take(test_ledger(path, 1000), 800);
		execl("/proc/self/exe", "identity", path, NULL);
	});
	CHECK_EQ(test_wait(pid), 0);
	check_dead(l);
}

static void become_sleep(void)
{
	if (!fork()) {
		execl("/bin/sleep", "sleep", "2", NULL);
		_exit(1);
	}
}

/* The end of the pipe that closes at exec says when that was. */
static pid_t exec_sleep_holding(const char *path)
{
	int until_exec[2];
	char c;
	pid_t pid;

	MUST(pipe2(until_exec, O_CLOEXEC) == 0);
	CHILD(pid, {
		test_take(test_ledger(path, 1000), 800);
		execl("/bin/sleep", "sleep", "100", NULL);
	});
	close(until_exec[1]);
	MUST(read(until_exec[0], &c, 1) == 0);
	usleep(50000); /* the old address space goes a little later */
	close(until_exec[0]);
	return pid;
}

CLAIM(exec_of_a_program_that_knows_nothing_of_us_frees_the_bytes_but_on_overlayfs_only_its_end_does)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = exec_sleep_holding(path);
	if (is_overlay)
		check_alive(l);
	else
		check_dead(l);
	test_kill(pid);
	check_dead(l);
}

CLAIM(an_execed_child_does_not_keep_its_dead_parent_alive)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = hold(path, NULL, become_sleep);
	check_alive(l);
	test_kill(pid);
	check_dead(l);
}

/* ---- what looks dead and is not */

static void *last_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

CLAIM(a_process_whose_main_thread_ended_is_alive)
{
	struct ledger *l = test_ledger(path, 1000);
	struct test_gate holds = test_gate();
	pid_t pid;

	ledger_open(l);
	CHILD(pid, {
		pthread_t id;

		test_take(test_ledger(path, 1000), 800);
		MUST(pthread_create(&id, NULL, last_thread, NULL) == 0);
		test_gate_open(&holds);
		syscall(SYS_exit, 0);
	});
	test_gate_pass(&holds);
	usleep(20000);
	check_alive(l);
	test_kill(pid);
	check_dead(l);
}

CLAIM(a_daemon_that_closes_all_descriptors_is_alive)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = hold(path, NULL, close_everything);
	check_alive(l);
	test_kill(pid);
	check_dead(l);
}

static void become_nobody(void)
{
	MUST(setresgid(65533, 65533, 65533) == 0 && setresuid(65533, 65533, 65533) == 0);
}

CLAIM(a_process_that_hidepid_hides_is_alive_until_it_is_dead)
{
	struct test_gate dead = test_gate(), seen = test_gate();
	pid_t pid, watcher;

	ledger_open(test_ledger(path, 1000));
	MUST(mount("proc", "/proc", "proc", 0, "hidepid=2") == 0);
	pid = hold(path, NULL, NULL);
	CHILD(watcher, {
		struct ledger *l = (become_nobody(), test_ledger(path, 1000));

		check_alive(l);
		test_gate_open(&seen);
		test_gate_pass(&dead);
		check_dead(l);
		status = test_failures != 0;
		fflush(stdout);
	});
	test_gate_pass(&seen);
	test_kill(pid);
	test_gate_open(&dead);
	CHECK_EQ(test_wait(watcher), 0);
}

static void lose_proc(void)
{
	MUST(umount2("/proc", MNT_DETACH) == 0);
}

CLAIM(a_process_without_proc_is_alive_until_it_is_dead)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = hold(path, lose_proc, NULL);
	check_alive(l);
	test_kill(pid);
	check_dead(l);
}

/* ---- namespaces */

/* The first process of a pid namespace holds 800; the pid is that of its parent here, which dies with it. */
static pid_t hold_in_namespace(const char *path, int flags, void (*then)(void))
{
	struct test_gate holds = test_gate();
	pid_t pid;

	CHILD(pid, {
		MUST(unshare(flags) == 0);
		pid_t inner = fork();
		if (!inner) {
			MUST(unshare(CLONE_NEWNS) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0);
			if (test_take(test_ledger(path, 1000), 800) != LEDGER_GRANTED)
				_exit(1);
			if (then)
				then();
			test_gate_open(&holds);
			for (;;)
				pause();
		}
		status = test_wait(inner);
	});
	test_gate_pass(&holds);
	return pid;
}

/* pid is the parent of the namespace's only process. */
static void end_namespace(pid_t pid)
{
	char path[64], children[32] = "";
	int fd;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	fd = open(path, O_RDONLY);
	MUST(fd >= 0 && read(fd, children, sizeof children - 1) > 0);
	close(fd);
	kill(atoi(children), SIGKILL);
	test_wait(pid);
}

CLAIM(two_pid_namespaces_share_one_limit_and_see_each_others_deaths)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = hold_in_namespace(path, CLONE_NEWPID, NULL);
	check_alive(l);
	end_namespace(pid);
	check_dead(l);
}

CLAIM(a_process_in_another_pid_namespace_may_close_all_descriptors_but_on_overlayfs_then_looks_dead)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = hold_in_namespace(path, CLONE_NEWPID, close_everything);
	if (is_overlay)
		check_dead(l);
	else
		check_alive(l);
	end_namespace(pid);
	check_dead(l);
}

/* The child is one of the holder's own pid namespace, so that only the holder's byte tells the rest of us. */
CLAIM(bytes_of_a_dead_parent_in_another_namespace_are_free_while_its_child_that_allocates_lives)
{
	struct ledger *l = test_ledger(path, 1000);
	struct test_gate holds = test_gate(), died = test_gate(), over = test_gate();
	pid_t pid;

	ledger_open(l);
	CHILD(pid, {
		MUST(unshare(CLONE_NEWPID) == 0);
		pid_t first = fork();
		if (!first) {
			pid_t holder;

			MUST(unshare(CLONE_NEWNS) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0);
			CHILD(holder, {
				struct ledger *k = test_ledger(path, 1000);

				test_take(k, 800);
				if (!fork()) {
					test_take(k, 1);
					test_gate_open(&holds);
					test_gate_pass(&over);
					_exit(0);
				}
				pause();
			});
			test_gate_pass(&holds);
			test_kill(holder);
			test_gate_open(&died);
			pause();
		}
		status = test_wait(first);
	});
	test_gate_pass(&died);
	CHECK_EQ(test_take(l, 999), LEDGER_GRANTED);
	CHECK_EQ(test_used(l), 1000);
	test_gate_open(&over);
	end_namespace(pid);
}

CLAIM(a_process_in_another_time_namespace_is_alive_until_it_is_dead)
{
	struct ledger *l = test_ledger(path, 1000);
	pid_t pid;

	ledger_open(l);
	pid = hold_in_namespace(path, CLONE_NEWPID | CLONE_NEWTIME, NULL);
	check_alive(l);
	end_namespace(pid);
	check_dead(l);
}

CLAIM(a_container_that_starts_anew_on_the_same_file_has_its_own_limit)
{
	pid_t pid = hold_in_namespace(path, CLONE_NEWPID, NULL);

	end_namespace(pid);
	CHILD(pid, {
		MUST(unshare(CLONE_NEWPID) == 0);
		pid_t inner = fork();
		if (!inner) {
			MUST(unshare(CLONE_NEWNS) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0);
			struct ledger *l = test_ledger(path, 7000);

			_exit(ledger_limit(l, 0) != 7000 || test_used(l) != 0 || test_take(l, 7000));
		}
		status = test_wait(inner);
	});
	CHECK_EQ(test_wait(pid), 0);
}

static void set_last_pid(pid_t pid)
{
	char line[16];

	test_write_file("/proc/sys/kernel/ns_last_pid", line, (size_t)sprintf(line, "%d", (int)pid - 1));
}

static int reuse_pid(const char *path)
{
	struct ledger *l;
	pid_t pid, again;

	MUST(unshare(CLONE_NEWNS) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0);
	l = test_ledger(path, 1000);
	ledger_open(l);
	pid = hold(path, NULL, NULL);
	check_alive(l);
	usleep(30000);
	test_kill(pid);
	set_last_pid(pid);
	CHILD(again, pause());
	MUST(again == pid);
	check_dead(l);
	test_kill(again);
	return test_failures != 0;
}

CLAIM(a_pid_that_is_used_again_does_not_inherit_the_dead_ones_bytes)
{
	pid_t pid;

	CHILD(pid, {
		MUST(unshare(CLONE_NEWPID) == 0);
		pid_t inner = fork();
		if (!inner)
			_exit(reuse_pid(path));
		status = test_wait(inner);
	});
	CHECK_EQ(test_wait(pid), 0);
}

int main(int count, char **argument)
{
	return count == 2 ? after_exec(argument[1]) : test_main();
}
