/* Reading a whole environment from /proc, whatever its size. */
#ifndef AMVGPU_ENV_READ_H
#define AMVGPU_ENV_READ_H

#include "env_policy.h"
#include "../sys/sys.h"

#define ENV_POD_PATH "/proc/1/environ"

/* A NUL follows the text. 0 or -errno. Any thread, also in a vfork child: memory comes from the kernel and nothing else is
 * touched. */
static inline int env_read(const char *path, struct env_block *block)
{
	int fd CLEANUP_CLOSE = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t capacity = 1 << 16, size = 0;
	char *text;

	if (fd < 0)
		return fd;
	text = sys_mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (;;) {
		long n;

		if (sys_is_error(text))
			return -ENOMEM;
		n = sys_read(fd, text + size, capacity - 1 - size);
		if (n == -EINTR)
			continue;
		if (n < 0) {
			sys_munmap(text, capacity);
			return (int)n;
		}
		if (n == 0)
			break;
		size += (size_t)n;
		if (size + 1 == capacity) {
			text = (void *)sys_call6(SYS_mremap, (long)text, (long)capacity, (long)capacity * 2,
						 MREMAP_MAYMOVE, 0, 0);
			capacity *= 2;
		}
	}
	*block = (struct env_block){ .text = text, .size = size, .mapped = capacity };
	return 0;
}

static inline void env_close(struct env_block *block)
{
	if (block->mapped)
		sys_munmap((void *)block->text, block->mapped);
	*block = (struct env_block){ 0 };
}

#endif
