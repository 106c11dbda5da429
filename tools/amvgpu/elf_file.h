/* What a file says about how it would be started: read from the file alone, nothing is executed. */
#ifndef AMVGPU_ELF_FILE_H
#define AMVGPU_ELF_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* KIND(name, "it is ...") */
#define ELF_KINDS(KIND)                                                                                      \
	KIND(DYNAMIC_GLIBC, "a dynamic glibc program")                                                       \
	KIND(DYNAMIC_MUSL, "linked against musl, whose loader knows no LD_AUDIT")                            \
	KIND(DYNAMIC_OTHER, "started by a loader that is not glibc's")                                       \
	KIND(STATIC, "statically linked, so that no loader runs")                                            \
	KIND(SHARED, "a shared object")                                                                      \
	KIND(SCRIPT, "a script")                                                                             \
	KIND(WRONG_ARCH, "built for another processor")                                                      \
	KIND(NOT_ELF, "no program that the kernel loads")

enum elf_kind {
#define KIND(name, text) ELF_##name,
	ELF_KINDS(KIND)
#undef KIND
};

struct elf_file {
	enum elf_kind kind;
	bool is_secure;     /* set-user-id, set-group-id or file capabilities that would take effect for us */
	bool is_static_tls; /* DF_STATIC_TLS: its thread-locals must be in static TLS */
	bool is_audit;      /* exports la_version */
	uint64_t tls_size;  /* of PT_TLS, its alignment included */
	char *interpreter;  /* PT_INTERP, or of a script the program behind #! (owned); NULL */
};

/* 0 or -errno. Free it after 0. */
int elf_file_read(const char *path, struct elf_file *file);
void elf_file_free(struct elf_file *file);
const char *elf_kind_text(enum elf_kind kind);

/* The path execvp would take; NULL if there is none. Caller frees. */
char *elf_program_find(const char *name);

#endif
