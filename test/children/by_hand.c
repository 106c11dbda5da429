/* by_hand PROGRAM [ARGUMENT...]: starts it with an empty environment by an execve that it finds in the loaded libc's symbol table
 * itself, without a symbol of that name and without dlsym. */
#include <link.h>
#include <stdio.h>
#include <string.h>

/* Where the first mapping of libc begins. */
static ElfW(Addr) libc_base(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start = 0;
	char line[512];

	while (maps && fgets(line, sizeof line, maps)) {
		if (strstr(line, "/libc.so.6") || strstr(line, "/libc-2")) {
			sscanf(line, "%lx", &start);
			break;
		}
	}
	return start;
}

/* ld.so has turned these offsets into addresses. */
static ElfW(Addr) dynamic_value(const ElfW(Dyn) *dynamic, ElfW(Sxword) tag)
{
	while (dynamic->d_tag != DT_NULL && dynamic->d_tag != tag)
		dynamic++;
	return dynamic->d_un.d_ptr;
}

int main(int argc, char **argv)
{
	char *const nothing[] = { NULL };
	ElfW(Addr) base = libc_base();
	const ElfW(Ehdr) *header = (const void *)base;
	const ElfW(Phdr) *segment = (const void *)(base + header->e_phoff);
	const ElfW(Dyn) *dynamic;
	const ElfW(Sym) *symbol;
	const char *names;

	(void)argc;
	while (segment->p_type != PT_DYNAMIC)
		segment++;
	dynamic = (const void *)(base + segment->p_vaddr);
	symbol = (const void *)dynamic_value(dynamic, DT_SYMTAB);
	names = (const char *)dynamic_value(dynamic, DT_STRTAB);
	while (strcmp(names + symbol->st_name, "execve"))
		symbol++;
	((int (*)(const char *, char *const *, char *const *))(base + symbol->st_value))(argv[1], argv + 1, nothing);
	return 126;
}
