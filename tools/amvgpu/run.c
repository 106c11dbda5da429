/* amvgpu run: becomes the program, in the environment that a container would give it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amvgpu.h"
#include "elf_file.h"
#include "library.h"
#include "region.h"
#include "slice.h"

struct run {
	struct slice slice;
	char **program;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct run *run = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &run->slice;
		return 0;
	case ARGP_KEY_ARG:
		run->program = state->argv + state->next - 1;
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which program? amvgpu run --memory 4G -- PROGRAM ARG...");
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&slice_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    NULL,
    parse,
    "[--] PROGRAM [ARG...]",
    "Start a program with its own slice of the card.\v"
    "The program replaces amvgpu: its exit status and signals are its own. amvgpu exits with 125 if it "
    "cannot prepare the slice, "
    "126 if the program cannot be executed, 127 if there is none.",
    children,
    NULL,
    NULL,
};

/* Every run has a region of its own; programs that share a name share one. */
static bool set_region(const struct run *run)
{
	const char *base = strrchr(run->program[0], '/');
	char own[64];
	char *path;

	snprintf(own, sizeof own, "pid%d-%.40s", (int)getpid(), base ? base + 1 : run->program[0]);
	for (char *c = own; *c; c++) {
		if (*c == '/' || *c == ' ')
			*c = '_';
	}
	path = region_path_of_run(run->slice.name ? run->slice.name : own);
	if (!path)
		return false;
	setenv("HIP_DEVICE_MEMORY_SHARED_CACHE", path, 1);
	free(path);
	return true;
}

/* The limit cannot act on such a program; its children may still be limited, so it starts. */
static void warn_of_program(const char *name)
{
	char *path = elf_program_find(name);
	struct elf_file file;

	if (path && !elf_file_read(path, &file)) {
		if (file.kind != ELF_DYNAMIC_GLIBC && file.kind != ELF_SCRIPT)
			complain(0, "%s is %s: the limit cannot act on it ('amvgpu doctor -- %s' explains)",
				 path, elf_kind_text(file.kind), name);
		else if (file.is_secure)
			complain(0,
				 "%s runs with more rights than its user (AT_SECURE): the loader ignores "
				 "LD_AUDIT and the limit "
				 "cannot act on it ('amvgpu doctor -- %s' explains)",
				 path, name);
		elf_file_free(&file);
	}
	free(path);
}

static int become(char **program)
{
	execvp(program[0], program);
	if (errno == ENOENT)
		return complain(EXIT_ABSENT, "there is no program '%s'", program[0]);
	return complain(EXIT_DENIED, "%s: %s", program[0], strerror(errno));
}

int verb_run(int argc, char **argv)
{
	struct run run = {.slice = SLICE_NONE};
	char *library;

	argp_err_exit_status = EXIT_RUN;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &run);
	library = library_find(run.slice.library);
	if (!library)
		return complain(EXIT_RUN,
				"%s was not found; build it (make -f Makefile.hip) or name it with --library",
				run.slice.library ? run.slice.library : LIBRARY_NAME);
	if (!set_region(&run))
		return complain(EXIT_RUN,
				"no folder for the slice's region: set XDG_RUNTIME_DIR to a writable folder");
	slice_set_loader(library);
	slice_set_limits(&run.slice);
	free(library);
	warn_of_program(run.program[0]);
	return become(run.program);
}
