/* amvgpu: run, see, explain. Looks the verb up and hands over; every verb has its own file. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amvgpu.h"

static const struct verb {
	const char *name;
	const char *what;
	int (*run)(int argc, char **argv);
} verbs[] = {
#define VERB(name, what) {#name, what, verb_##name},
#include "verb.def"
#undef VERB
};

enum { VERBS = sizeof verbs / sizeof *verbs };

int complain(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("amvgpu: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	return status;
}

static void usage(FILE *to)
{
	fputs("Usage: amvgpu VERB [OPTION...]\n"
	      "Run programs on a slice of an AMD GPU, see who uses it, explain why a limit does not act.\n\n",
	      to);
	for (unsigned i = 0; i < VERBS; i++)
		fprintf(to, "  %-9s %s\n", verbs[i].name, verbs[i].what);
	fputs("\n'amvgpu VERB --help' has the options of a verb; amvgpu(1) has all of them, with examples.\n",
	      to);
}

static int verb_run_named(const char *name, int argc, char **argv)
{
	for (unsigned i = 0; i < VERBS; i++) {
		char full[32];

		if (strcmp(verbs[i].name, name))
			continue;
		snprintf(full, sizeof full, "amvgpu %s", name);
		argv[0] = full;
		return verbs[i].run(argc, argv);
	}
	complain(0, "there is no verb '%s'", name);
	usage(stderr);
	return EXIT_USAGE;
}

/* A full disk or a closed pipe must not look like success. */
static int flush_stdout(int status)
{
	if (fflush(stdout) || ferror(stdout))
		return complain(status ? status : EXIT_NO, "the output could not be written");
	return status;
}

int main(int argc, char **argv)
{
	argp_err_exit_status = EXIT_USAGE;
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return flush_stdout(EXIT_OK);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		argv[1] = "version";
	return flush_stdout(verb_run_named(argv[1], argc - 1, argv + 1));
}
