/* The two environments that count, as the library reads them: the pod specification (/proc/1/environ) and our
 * own. */
#ifndef AMVGPU_ENVIRONMENT_H
#define AMVGPU_ENVIRONMENT_H

#include <stdbool.h>

#include "../../src/hip/env_policy.h"

struct environment {
	struct env_block pod; /* empty where it cannot be read */
	struct env_block own;
	bool pod_is_self; /* we are PID 1 */
	int pod_error;    /* 0 or -errno */
	struct env_policy policy;
};

/* sysroot: "" or the folder below which /proc is looked for. The text it points into lives as long as the
 * program. */
void environment_load(struct environment *e, const char *sysroot);
void environment_free(struct environment *e);
/* The environment block of a process; NULL and errno if it cannot be read. *size counts the last NUL. Caller
 * frees. */
char *environment_read(const char *path, size_t *size);

#endif
