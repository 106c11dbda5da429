/* amvgpu metrics: the books in the text format of Prometheus, on stdout, in a file for node-exporter, or over
 * HTTP. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amvgpu.h"
#include "listen.h"
#include "prometheus.h"
#include "region.h"

enum { OPTION_LISTEN = 'l', OPTION_TEXTFILE = 't', OPTION_EVERY = 'e' };

struct metrics {
	struct region_options regions;
	const char *listen;
	const char *textfile;
	double every_s; /* 0: once */
};

static const struct argp_option options[] = {
    {"listen", OPTION_LISTEN, "ADDR:PORT", 0, "serve them over HTTP at /metrics", 1},
    {"textfile", OPTION_TEXTFILE, "PATH", 0,
     "replace PATH in one step, for node-exporter's textfile collector", 1},
    {"every", OPTION_EVERY, "SECONDS", 0, "with --textfile: again every SECONDS, until interrupted", 1},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct metrics *m = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &m->regions;
		return 0;
	case OPTION_LISTEN:
		m->listen = argument;
		return 0;
	case OPTION_TEXTFILE:
		m->textfile = argument;
		return 0;
	case OPTION_EVERY:
		m->every_s = strtod(argument, &end);
		if (*end || !(m->every_s >= 0.1 && m->every_s < 1e6))
			argp_error(state, "--every takes a number of seconds, 0.1 or more");
		return 0;
	case ARGP_KEY_END:
		if (m->listen && m->textfile)
			argp_error(state, "--listen and --textfile are two ways; choose one");
		if (m->every_s && !m->textfile)
			argp_error(state, "--every belongs to --textfile");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {{&region_argp, 0, "Which slices:", 2}, {0}};
static const struct argp argp = {
    options,     parse,
    REGION_ARGS, "Publish the books for Prometheus: on stdout, in a file, or over HTTP." REGION_DOC,
    children,    NULL,
    NULL,
};

/* Beside the final file, under a name that the collector does not take (it takes *.prom). */
static int write_beside(const char *path, const char *text, size_t length, char *beside, size_t size)
{
	int fd, error = 0;

	if ((size_t)snprintf(beside, size, "%s.XXXXXX", path) >= size)
		return -ENAMETOOLONG;
	fd = mkstemp(beside);
	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < length && !error;) {
		ssize_t n = write(fd, text + done, length - done);

		if (n < 0)
			error = -errno;
		else
			done += (size_t)n;
	}
	if (!error && (fchmod(fd, 0644) || fsync(fd)))
		error = -errno;
	if (close(fd) && !error)
		error = -errno;
	if (error)
		unlink(beside);
	return error;
}

static int replace_file(const char *path, const char *text, size_t length)
{
	char beside[PATH_MAX];
	int error = write_beside(path, text, length, beside, sizeof beside);

	if (!error && rename(beside, path)) {
		error = -errno;
		unlink(beside);
	}
	if (error)
		return complain(EXIT_NO, "%s: %s", path, strerror(-error));
	return EXIT_OK;
}

int verb_metrics(int argc, char **argv)
{
	struct metrics m = {0};
	int status = EXIT_OK;

	argp_parse(&argp, argc, argv, 0, NULL, &m);
	if (m.listen)
		status = listen_serve(m.listen, &m.regions);
	while (!m.listen) {
		size_t length;
		char *text = prometheus_render(&m.regions, &length);

		if (!text)
			return complain(EXIT_NO, "out of memory");
		if (m.textfile)
			status = replace_file(m.textfile, text, length);
		else
			fwrite(text, 1, length, stdout);
		free(text);
		if (!m.every_s)
			break;
		usleep((useconds_t)(m.every_s * 1e6));
	}
	region_list_free(&m.regions.named);
	return status;
}
