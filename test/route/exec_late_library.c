/* What exec_late opens: the first in its program that can look execve up. */
#include <unistd.h>

__attribute__((constructor)) static void start(void)
{
	static char *arguments[] = {"show", "a b", 0}, *nothing[] = {0};

	execve("./show", arguments, nothing);
}
