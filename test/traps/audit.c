/* Another audit library, that looks at everything: every object, every binding, every call. */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	(void)map, (void)namespace, (void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name)
{
	(void)index, (void)from, (void)to, (void)flags, (void)name;
	return symbol->st_value;
}

Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, La_x86_64_regs *regs,
				  unsigned *flags, const char *name, long *frame)
{
	(void)index, (void)from, (void)to, (void)regs, (void)flags, (void)name, (void)frame;
	return symbol->st_value;
}
