/* The two environments that count, as the library reads them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "environment.h"

char *environment_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "re");
	size_t room = 0, n = 0, got;
	char *text = NULL;

	if (!file)
		return NULL;
	do {
		char *more = realloc(text, (room += 65536) + 1);

		if (!more)
			break;
		text = more;
		got = fread(text + n, 1, room - n, file);
		n += got;
	} while (got && n == room);
	if (ferror(file) || !text) {
		free(text);
		text = NULL;
		n = 0;
	} else {
		text[n] = 0; /* env_block wants a NUL behind the text */
	}
	fclose(file);
	*size = n;
	return text;
}

void environment_load(struct environment *e, const char *sysroot)
{
	char path[4096];

	*e = (struct environment){.own.pointers = (const char *const *)environ};
	snprintf(path, sizeof path, "%s/proc/1/environ", sysroot);
	e->pod_is_self = getpid() == 1;
	errno = 0;
	e->pod.text = environment_read(path, &e->pod.size);
	if (!e->pod.text)
		e->pod_error = errno ? -errno : -EIO;
	env_policy_load(&e->policy, &e->pod, &e->own);
}

void environment_free(struct environment *e)
{
	free((char *)e->pod.text);
	*e = (struct environment){0};
}
