/* The environment that a program gives to another one, with what must not be lost put back.
 *
 * A program that starts another with an emptied environment (env -i, subprocess(env={})) does not mean to
 * leave its pod. Runs on any thread and in the child of a vfork, which shares its parent's memory: so nothing
 * is allocated and nothing outside of the caller's stack is written.
 */
#ifndef AMVGPU_EXEC_ENVIRONMENT_H
#define AMVGPU_EXEC_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

enum {
	EXEC_KEEP_MAX = 128, /* assignments that are kept */
	EXEC_ENTRIES_MAX =
	    65536, /* of an environment or argument list that can be mended: 512 KiB of stack */
	EXEC_MERGED_MAX =
	    1 << 16, /* bytes of LD_AUDIT and GLIBC_TUNABLES together, where they need mending */
};

/* What is to be kept: "NAME=value" each, LD_AUDIT=library among them. Both the array and the texts stay the
 * caller's and must live, unchanged, as long as the process; the texts of the initial block do not
 * (setproctitle). More than EXEC_KEEP_MAX are ignored. Called once, under the loader lock, before the program
 * runs; without it nothing is kept. */
void exec_keep_init(const char *const *assignments, unsigned count);

/* What the keeper of the list knows better than this module. Every function runs where exec does: on any thread,
 * in the child of a vfork. */
struct exec_judge {
	/* The value that an entry of the new environment must have instead of its own, or NULL: it may stay. */
	const char *(*value)(const char *entry);
	/* The assignment that an entry of the program's own environment must be replaced by, for a child that reads what it is
	 * started with before anything can be mended, or NULL. Lives as long as the process. */
	const char *(*own)(const char *entry);
	/* Whether the index-th assignment, missing in given, shall stay away. */
	bool (*is_needless)(unsigned index, const char *const *given);
	/* An entry did not stay as it was asked for. */
	void (*note_overridden)(void);
	/* Whether the program at path is to be started in the environment as it is given; path may be NULL. */
	bool (*is_exempt)(const char *path);
};

/* Once, after exec_keep_init; without it what is given always stays. */
void exec_keep_judge(const struct exec_judge *judge);
const struct exec_judge *exec_keep_judge_now(void);

bool exec_keep_is_on(void);

/* glibc before 2.35: children need LD_BIND_NOW=1, or every call through a PLT stays slow under an audit
 * library. */
void exec_keep_bind_now(void);

/* What it takes to mend an environment: looked up first, so that the caller can make room on its stack. */
struct exec_plan {
	const char *const *given; /* or NULL: empty */
	unsigned given_count;
	bool has[EXEC_KEEP_MAX]; /* which of the kept are in it */
	bool has_bind_now;
	unsigned audit, tunables; /* where in it they are; ~0: nowhere */
	bool is_audit_right, is_tunables_right;
	unsigned overridden; /* entries that must not stay as they are */
	unsigned entries;  /* of the mended one, its NULL included; 0: the given one is right */
	size_t text_size;  /* of its new texts */
	bool is_too_large; /* to be mended: E2BIG */
};

void exec_plan_make(struct exec_plan *plan, const char *const *given);

/* Fills in entries[plan->entries], texts[plan->text_size]. */
void exec_plan_fill(const struct exec_plan *plan, const char **entries, char *texts);

/* A command for /bin/sh -c that runs `command` in the environment mended by plan, as one program more: what
 * system() and popen() are given in its place, since they take the environment from the program and nowhere
 * else. */
size_t exec_plan_command_size(const struct exec_plan *plan, const char *command);
void exec_plan_command(const struct exec_plan *plan, const char *command, char *text, size_t size);

#endif
