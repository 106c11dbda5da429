/* A slice as the command line describes it, and the environment that makes a program live in it. */
#ifndef AMVGPU_SLICE_H
#define AMVGPU_SLICE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../src/hip/env_policy.h"

struct slice {
	const char *library; /* --library; NULL: found */
	const char *name;    /* --name; NULL: one of its own */
	const char *cus;
	int priority; /* -1 unset, 0 high, 1 low */
	bool oversubscribe;
	bool has_memory;
	char limit_all[24]; /* as written; "" if only single devices are named */
	char limit[ENV_DEVICES][24];
};

/* An argp child that fills a struct slice (its input). */
extern const struct argp slice_argp;
#define SLICE_NONE ((struct slice){.priority = -1})

/* Sets what a container would: LD_AUDIT (before other tools in it), the static-TLS tunable (merged),
 * LD_BIND_NOW where glibc is older than 2.35. */
void slice_set_loader(const char *library);
/* Sets limits, mask, priority, oversubscription. What the slice does not name stays; limits are replaced as a
 * whole. */
void slice_set_limits(const struct slice *slice);

#endif
