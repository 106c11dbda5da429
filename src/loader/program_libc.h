/* The program's own libc and its initial block, found without calling anything.
 *
 * The library has no libc. What only the program's can do (change its environment, run a handler at fork) is
 * called by the address that the base namespace's libc exports; what the kernel handed over (arguments,
 * environment, auxiliary vector) is read where ld.so found it.
 */
#ifndef AMVGPU_PROGRAM_LIBC_H
#define AMVGPU_PROGRAM_LIBC_H

#include "elf_object.h"

/* F(result, name, parameters) of each function of the program's libc that we may call. */
#define PROGRAM_LIBC_FUNCTIONS(F)                                                                            \
	F(int, setenv, (const char *name, const char *value, int overwrite))                                 \
	F(int, unsetenv, (const char *name))                                                                 \
	F(char *, getenv, (const char *name))                                                                \
	F(int *, __errno_location, (void))                                                                   \
	F(int, __register_atfork,                                                                            \
	  (void (*before)(void), void (*parent)(void), void (*child)(void), void *owner))

struct program_libc {
#define PROGRAM_LIBC_POINTER(result, name, parameters) result(*name) parameters;
	PROGRAM_LIBC_FUNCTIONS(PROGRAM_LIBC_POINTER)
#undef PROGRAM_LIBC_POINTER
};

/* The addresses; NULL each until the libc is opened. They are the real functions only if program_libc_objopen
 * sees the libc before anything patches it. Only to be called when the program has started (la_preinit), and
 * not in a vfork child: malloc and locks. */
extern struct program_libc program_libc __attribute__((visibility("hidden")));

/* To be called by la_objopen for every object, before it is patched, with what elf_object_load made of map, or
 * NULL, and the Lmid_t it got. Under the loader lock. */
void program_libc_objopen(struct link_map *map, const struct elf_object *object, long namespace);

/* The main program at a fixed address, which elf_object_load cannot read. False: map is something else. */
bool program_main_load(struct elf_object *object, struct link_map *map);

/* What the kernel gave this process: known from the first program_libc_objopen on, which finds ld.so through
 * the main program's link_map. Each is NULL before. The strings may be overwritten later (setproctitle): read
 * them early. */
const char *const *program_initial_arguments(void);
const char *const *program_initial_environment(void);
const Elf64_auxv_t *program_auxv(void); /* ends with AT_NULL */

/* The value of an entry of the auxiliary vector, or 0. */
uint64_t program_auxv_value(uint64_t type);

/* The variable `environ` as the program's own code sees it (a program at a fixed address has its own copy),
 * or NULL. */
char ***program_live_environment(void);

/* The value in the live environment, or in the initial one as long as libc has not started. Walks it without
 * a lock, as getenv does. */
const char *program_getenv_live(const char *name);

/* setenv(name, value, 1) in the program, its errno kept. 0, -ENOSYS without a libc, or setenv's -errno. */
int program_setenv(const char *name, const char *value);

/* Has child run in each child of fork(), as pthread_atfork does. 0, -ENOSYS, or a negative error. */
int program_at_fork_child(void (*child)(void));

#endif
