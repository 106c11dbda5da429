/* What doctor reads of the program's file: whether its loader would take an audit library, and whether what
 * it needs would fit.
 *
 * Nothing of the program runs: its loader is asked for the list of libraries, as ldd does.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "elf_file.h"

/* Below this glibc nothing has been tested; below the other one calls are slow (glibc BZ 15533). */
static const char oldest[] = "2.31", fast[] = "2.35";

/* What glibc keeps for libraries with static TLS once an audit library is there: measured 1664 bytes on 2.31
 * to 2.43, of which 512 are the tunable's default. */
enum { TLS_SURPLUS = 1664, TLS_TUNABLE_DEFAULT = 512 };

static uint64_t tls_budget(void)
{
	static const char name[] = "glibc.rtld.optional_static_tls=";
	const char *set = getenv("GLIBC_TUNABLES");
	const char *at = set ? strstr(set, name) : NULL;

	return TLS_SURPLUS - TLS_TUNABLE_DEFAULT +
	       (at ? strtoull(at + sizeof name - 1, NULL, 0) : TLS_TUNABLE_DEFAULT);
}

/* The version in the banner of a libc.so.6: "... release version 2.36." False where there is none. */
static bool glibc_version(const char *path, char *version, size_t size)
{
	static const char banner[] = "release version ";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool found = false;
	struct stat st;
	char *image, *at;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && st.st_size > 0) {
		image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (image != MAP_FAILED) {
			at = memmem(image, (size_t)st.st_size, banner, sizeof banner - 1);
			if (at && at + sizeof banner + 8 < image + st.st_size) {
				snprintf(version, size, "%.*s",
					 (int)strspn(at + sizeof banner - 1, "0123456789."),
					 at + sizeof banner - 1);
				found = true;
			}
			munmap(image, (size_t)st.st_size);
		}
	}
	close(fd);
	if (found && *version && version[strlen(version) - 1] == '.')
		version[strlen(version) - 1] = 0;
	return found;
}

static void examine_glibc(struct doctor *d, const char *path)
{
	const char *bind_now = getenv("LD_BIND_NOW");
	char version[16];

	if (!glibc_version(path, version, sizeof version))
		return;
	if (strverscmp(version, oldest) < 0)
		doctor_note(d, FINDING_GLIBC_TOO_OLD, "%s is glibc %s", path, version);
	else if (strverscmp(version, fast) < 0 && (!bind_now || !*bind_now))
		doctor_note(d, FINDING_GLIBC_SLOW, "%s is glibc %s", path, version);
}

/* The loader's list of what it would map, without an audit library. NULL if it cannot be started. */
static FILE *open_list(const char *loader, const char *program, pid_t *child)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return NULL;
	*child = fork();
	if (!*child) {
		unsetenv("LD_AUDIT");
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
		execl(loader, loader, program, (char *)NULL);
		_exit(EXIT_FAILURE);
	}
	close(ends[1]);
	if (*child > 0)
		return fdopen(ends[0], "r");
	close(ends[0]);
	return NULL;
}

/* "	libx.so => /lib/libx.so (0x...)", "	/lib64/ld.so (0x...)", "	libx.so => not found" */
static void examine_library_line(struct doctor *d, char *line, uint64_t *tls)
{
	char *path = strchr(line, '/'), *missing = strstr(line, " => not found");
	struct elf_file file;

	if (missing) {
		*missing = 0;
		doctor_note(d, FINDING_PROGRAM_INCOMPLETE, "%s", line + strspn(line, "\t "));
		return;
	}
	if (!path || !strstr(path, " (0x"))
		return;
	*strstr(path, " (0x") = 0;
	if (strstr(path, "/libc.so.6"))
		examine_glibc(d, path);
	if (strstr(path, "/libc.so.6") || elf_file_read(path, &file))
		return;
	if (file.is_static_tls && file.kind == ELF_SHARED)
		*tls += file.tls_size;
	elf_file_free(&file);
}

static void examine_libraries(struct doctor *d, const char *loader, const char *program)
{
	char line[PATH_MAX + 200];
	uint64_t tls = 0;
	pid_t child;
	FILE *list = open_list(loader, program, &child);

	if (!list)
		return;
	while (fgets(line, sizeof line, list))
		examine_library_line(d, line, &tls);
	fclose(list);
	waitpid(child, NULL, 0);
	if (tls > tls_budget())
		doctor_note(d, FINDING_STATIC_TLS, "they need %llu bytes, glibc keeps %llu",
			    (unsigned long long)tls, (unsigned long long)tls_budget());
}

static void examine_file(struct doctor *d, const char *path, unsigned depth);

static void examine_kind(struct doctor *d, const char *path, const struct elf_file *file, unsigned depth)
{
	switch (file->kind) {
	case ELF_DYNAMIC_GLIBC:
		examine_libraries(d, file->interpreter, path);
		break;
	case ELF_DYNAMIC_MUSL:
		doctor_note(d, FINDING_PROGRAM_MUSL, "%s: its loader is %s", path, file->interpreter);
		break;
	case ELF_DYNAMIC_OTHER:
		doctor_note(d, FINDING_PROGRAM_OTHER_LOADER, "%s: its loader is %s", path, file->interpreter);
		break;
	case ELF_STATIC:
		doctor_note(d, FINDING_PROGRAM_STATIC, "%s", path);
		break;
	case ELF_WRONG_ARCH:
		doctor_note(d, FINDING_PROGRAM_WRONG_ARCH, "%s", path);
		break;
	case ELF_SCRIPT:
		examine_file(d, file->interpreter, depth + 1);
		break;
	default:
		doctor_note(d, FINDING_PROGRAM_NO_ELF, "%s", path);
	}
}

/* "#!/usr/bin/env python3" leads on to env, which is as good as python3 for our questions. */
static void examine_file(struct doctor *d, const char *path, unsigned depth)
{
	struct elf_file file;
	int error = elf_file_read(path, &file);

	if (error || depth > 4) {
		doctor_note(d, FINDING_PROGRAM_MISSING, "%s: %s", path,
			    error ? strerror(-error) : "too many scripts");
		return;
	}
	if (file.is_secure && file.kind != ELF_SCRIPT)
		doctor_note(d, FINDING_PROGRAM_SECURE, "%s", path);
	examine_kind(d, path, &file, depth);
	elf_file_free(&file);
}

void doctor_examine_program(struct doctor *d)
{
	char *path = elf_program_find(d->program[0]);

	if (!path) {
		doctor_note(d, FINDING_PROGRAM_MISSING, "%s", d->program[0]);
		return;
	}
	examine_file(d, path, 0);
	free(path);
}
