/* Which region files a verb looks at, and where `amvgpu run` puts its own. */
#ifndef AMVGPU_REGION_H
#define AMVGPU_REGION_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* Paths, owned. */
struct region_list {
	char **paths;
	size_t count;
};

/* What the command line asked for; nothing: look where the library would. */
struct region_options {
	struct region_list named; /* PATH... */
	const char *name;         /* --name N: the region of `amvgpu run --name N` */
	int pid;                  /* --pid PID: the regions this process has mapped */
};

/* An argp child that fills a struct region_options (its input). Takes the verb's arguments as paths. */
extern const struct argp region_argp;
#define REGION_ARGS "[REGION...]"
#define REGION_DOC                                                                                           \
	"\vREGION is the path of a region file, for example one below a container's root seen from the "     \
	"host. Without one, the "                                                                            \
	"region of this container (HIP_DEVICE_MEMORY_SHARED_CACHE or where the library puts it) and those "  \
	"of `amvgpu run` are shown."

/* The regions to look at. True if at least one was found; else one line on stderr says what to do. Free the
 * list. */
bool region_find(const struct region_options *options, struct region_list *list);
/* The same without a word, also those named that cannot be read. */
void region_look(const struct region_options *options, struct region_list *list);
void region_list_add(struct region_list *list, const char *path); /* once */
void region_list_free(struct region_list *list);

/* The regions that a process has mapped, its mount namespace respected. */
void region_of_process(int pid, struct region_list *list);
/* "private:PID" if that process is limited on its own and its memory may be read; of one process, and of all.
 */
void region_of_private(int pid, struct region_list *list);
void region_of_all_private(struct region_list *list);
/* Where the library would put the pod's region: the paths that exist. */
void region_default(struct region_list *list);
/* Those made by `run` that exist. */
void region_of_runs(struct region_list *list);

/* The path for a region of `run`: in the first folder that is ours alone and writable, which is made. NULL:
 * none. Caller frees. */
char *region_path_of_run(const char *name);
/* A name becomes a file's name: letters, digits, - _ . and not a dot first. */
bool region_name_is_valid(const char *name);

/* Whether path is a region that can be read: 0 or -errno (-EPROTO: not one of this version). */
int region_probe(const char *path);

#endif
