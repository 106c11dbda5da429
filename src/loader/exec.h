/* The exec family of the program's libc, so that what it starts stays in the pod.
 *
 * Wrappers of execve execv execvp execvpe execl execlp execle fexecve execveat posix_spawn posix_spawnp
 * system popen and syscall (for execve and execveat only) mend the environment (exec_environment.h) and call
 * the real function: on any thread, in the child of a fork or a vfork. An environment that is right is passed
 * on as it is; the caller's is never written to; every error comes back as the real function gives it.
 *
 * Holes: programs and libraries that make the system call themselves, wordexp(), another namespace's libc
 * (dlmopen), and the one in demand.h.
 */
#ifndef AMVGPU_EXEC_H
#define AMVGPU_EXEC_H

#include "elf_object.h"
#include "exec_environment.h"

#define EXEC_FUNCTIONS(F)                                                                                    \
	F(execve)                                                                                            \
	F(execv)                                                                                             \
	F(execvp)                                                                                            \
	F(execvpe)                                                                                           \
	F(execl)                                                                                             \
	F(execlp)                                                                                            \
	F(execle)                                                                                            \
	F(fexecve)                                                                                           \
	F(execveat)                                                                                          \
	F(posix_spawn)                                                                                       \
	F(posix_spawnp)                                                                                      \
	F(system)                                                                                            \
	F(popen)

/* For la_objopen, base namespace, after exec_keep_init and program_libc_objopen: has the family bound if object
 * is the libc, or the libpthread that had a `system` of its own before 2.34. Adds nothing for anything else,
 * and if nothing is kept. */
void exec_objopen(struct elf_object *object, struct patch_batch *batch, struct patch_result *result);

#endif
