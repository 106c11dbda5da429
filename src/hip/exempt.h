/* The operator's exemption: programs that the pod specification says are to be left alone.
 *
 * AMVGPU_EXEMPT is a list of absolute paths, separated by colons. It counts in the pod specification only (the environment
 * that PID 1 was started with), never in a process's own. A listed program is started in the environment that its parent
 * gives it, and nothing is limited in it.
 */
#ifndef AMVGPU_EXEMPT_H
#define AMVGPU_EXEMPT_H

#include "env_policy.h"

#define EXEMPT_NAME "AMVGPU_EXEMPT"

/* Whether the list, or NULL, has path. Pure. */
static inline bool exempt_list_has(const char *list, const char *path)
{
	size_t length = text_length(path);

	if (*path != '/')
		return false;
	while (list && *list) {
		if (text_starts(list, path) && (!list[length] || list[length] == ':'))
			return true;
		while (*list && *list++ != ':')
			;
	}
	return false;
}

/* Asks the pod specification. Any thread, also in a vfork child: nothing is kept. */
bool exempt_is_program(const char *path);

/* Whether this process's own program is on the list. */
bool exempt_is_self(const struct env_block *pod);

#endif
