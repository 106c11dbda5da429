/* Can look up nothing but dlopen; the library that it opens starts `show` in an empty environment. */
#include <dlfcn.h>

int main(void)
{
	return dlopen("./late_library.so", RTLD_NOW) ? 1 : 2;
}
