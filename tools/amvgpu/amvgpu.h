/* What every verb of amvgpu shares: its entry point, its exit statuses, its way to complain. */
#ifndef AMVGPU_AMVGPU_H
#define AMVGPU_AMVGPU_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* argv[0] is "amvgpu VERB", argv[1..] the verb's own arguments. The result is the exit status. */
#define VERB(name, what) int verb_##name(int argc, char **argv);
#include "verb.def"
#undef VERB

enum {
	EXIT_OK = 0,
	EXIT_NO = 1,       /* the answer is no: not enforced, nothing there */
	EXIT_USAGE = 2,    /* the command line makes no sense */
	EXIT_RUN = 125,    /* run: could not prepare the program (as env(1) and timeout(1) do) */
	EXIT_DENIED = 126, /* run: the program cannot be executed */
	EXIT_ABSENT = 127, /* run: there is no such program */
};

/* One line on stderr, "amvgpu: ...": what is wrong and what to do. Returns status, so that `return
 * complain(...)` reads well. */
int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
