/* A root file system of one's own for a child: empty /tmp and /dev/shm, mounts that nobody else sees. For
 * root only. */
#ifndef AMVGPU_LEDGER_ROOT_H
#define AMVGPU_LEDGER_ROOT_H

#include "ledger_test.h"

#include <sys/mount.h>

static inline void test_write_file(const char *path, const void *content, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	MUST(fd >= 0 && write(fd, content, size) == (ssize_t)size && close(fd) == 0);
}

/* In a forked child only. */
static inline void test_own_root(void)
{
	MUST(unshare(CLONE_NEWNS) == 0);
	MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777") == 0);
	MUST(mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777") == 0);
}

static inline void test_make_read_only(const char *path)
{
	MUST(mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
}

/* A region on overlayfs, where the image of a container has its /tmp. In test_own_root() only. */
static inline const char *test_overlay_path(void)
{
	if (mkdir("/tmp/lower", 0777) == 0)
		MUST(mkdir("/tmp/upper", 0777) == 0 && mkdir("/tmp/work", 0777) == 0 &&
		     mkdir("/tmp/merged", 01777) == 0 &&
		     mount("overlay", "/tmp/merged", "overlay", 0,
			   "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work") == 0);
	MUST(chmod("/tmp/merged", 01777) == 0);
	return "/tmp/merged/region";
}

/* In a child: the checks of the block fail the parent's test. */
#define IN_OWN_ROOT(...)                                                                                     \
	do {                                                                                                 \
		pid_t pid_;                                                                                  \
		CHILD(pid_, {                                                                                \
			test_own_root();                                                                     \
			test_failures = 0;                                                                   \
			__VA_ARGS__;                                                                         \
			fflush(stdout);                                                                      \
			status = test_failures != 0;                                                         \
		});                                                                                          \
		CHECK_EQ(test_wait(pid_), 0);                                                                \
	} while (0)

/* The reasons that a process shows in the region at path; 0 if it has no slot there. */
static inline uint64_t test_reasons(const char *path, pid_t pid)
{
	struct ledger_view *view = calloc(1, ledger_view_size());
	static struct ledger_process process;
	uint64_t reasons = 0;
	unsigned slot = 0;

	if (ledger_view_open(view, path) == 0) {
		while (ledger_view_next(view, &slot, &process)) {
			if (process.pid == (uint32_t)pid)
				reasons = process.reasons;
		}
		ledger_view_close(view);
	}
	free(view);
	return reasons;
}

#define REASON_BIT(name) (UINT64_C(1) << LEDGER_REASON_##name)

#endif
