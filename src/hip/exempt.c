/* See exempt.h. */
#include "exempt.h"

#include "env_read.h"

bool exempt_is_program(const char *path)
{
	struct env_block pod = { 0 };
	bool is_exempt;

	if (!path || *path != '/' || env_read(ENV_POD_PATH, &pod))
		return false;
	is_exempt = exempt_list_has(env_find(&pod, EXEMPT_NAME), path);
	env_close(&pod);
	return is_exempt;
}

bool exempt_is_self(const struct env_block *pod)
{
	const char *list = env_find(pod, EXEMPT_NAME);
	char path[4096];
	long length;

	if (!list)
		return false;
	length = sys_readlink("/proc/self/exe", path, sizeof path - 1);
	if (length <= 0)
		return false;
	path[length] = 0;
	return exempt_list_has(list, path);
}
