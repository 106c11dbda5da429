/* Starts `show` in an empty environment by a system call of its own: nobody but the kernel sees that. */
#include <sys/syscall.h>

int main(void)
{
	static char *arguments[] = {"show", "a b", 0}, *nothing[] = {0};
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_execve), "D"("./show"), "S"(arguments), "d"(nothing)
			 : "rcx", "r11", "memory");
	return (int)result;
}
