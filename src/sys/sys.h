/* The floor: raw Linux system calls.
 *
 * The library lives in an audit namespace without a libc, so this is the only file that enters the kernel.
 * Every function returns what the kernel returned: a result >= 0, or -errno. None touches the program's errno,
 * none is a cancellation point, all may be called on any thread, under the loader lock, after fork and in a
 * signal handler. Also usable in hosted programs (the tests and tools include it).
 */
#ifndef AMVGPU_SYS_H
#define AMVGPU_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef __x86_64__
#error "amd-hami-core supports x86-64 only: ROCm's kernel driver and runtimes exist for nothing else"
#endif

static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define SYS_CALL(number, a, b, c) sys_call6((number), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS_CALL4(number, a, b, c, d) sys_call6((number), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

static inline int sys_open(const char *path, int flags, unsigned mode)
{
	return (int)SYS_CALL(SYS_open, path, flags, mode);
}

static inline int sys_close(int fd)
{
	return (int)SYS_CALL(SYS_close, fd, 0, 0);
}

static inline long sys_read(int fd, void *buffer, size_t size)
{
	return SYS_CALL(SYS_read, fd, buffer, size);
}

static inline long sys_write(int fd, const void *buffer, size_t size)
{
	return SYS_CALL(SYS_write, fd, buffer, size);
}

static inline long sys_pread(int fd, void *buffer, size_t size, uint64_t offset)
{
	return SYS_CALL4(SYS_pread64, fd, buffer, size, offset);
}

static inline long sys_pwrite(int fd, const void *buffer, size_t size, uint64_t offset)
{
	return SYS_CALL4(SYS_pwrite64, fd, buffer, size, offset);
}

static inline int sys_fstat(int fd, struct stat *st)
{
	return (int)SYS_CALL(SYS_fstat, fd, st, 0);
}

static inline int sys_stat(const char *path, struct stat *st)
{
	return (int)SYS_CALL(SYS_stat, path, st, 0);
}

static inline long sys_readlink(const char *path, char *buffer, size_t size)
{
	return SYS_CALL(SYS_readlink, path, buffer, size);
}

static inline int sys_access(const char *path, int mode)
{
	return (int)SYS_CALL(SYS_access, path, mode, 0);
}

static inline int sys_unlink(const char *path)
{
	return (int)SYS_CALL(SYS_unlink, path, 0, 0);
}

static inline int sys_link(const char *from, const char *to)
{
	return (int)SYS_CALL(SYS_link, from, to, 0);
}

static inline int sys_rename(const char *from, const char *to)
{
	return (int)SYS_CALL(SYS_rename, from, to, 0);
}

static inline int sys_ftruncate(int fd, uint64_t size)
{
	return (int)SYS_CALL(SYS_ftruncate, fd, size, 0);
}

static inline int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t size)
{
	return (int)SYS_CALL4(SYS_fallocate, fd, mode, offset, size);
}

static inline int sys_fchmod(int fd, unsigned mode)
{
	return (int)SYS_CALL(SYS_fchmod, fd, mode, 0);
}

static inline int sys_fcntl(int fd, int command, long argument)
{
	return (int)SYS_CALL(SYS_fcntl, fd, command, argument);
}

static inline long sys_getdents64(int fd, void *buffer, size_t size)
{
	return SYS_CALL(SYS_getdents64, fd, buffer, size);
}

/* 0: both descriptors of this process stand for one open file. */
static inline long sys_kcmp_file(int fd, int other)
{
	enum { FILE_KIND = 0 };
	long pid = SYS_CALL(SYS_getpid, 0, 0, 0);

	return sys_call6(SYS_kcmp, pid, pid, FILE_KIND, fd, other, 0);
}

/* The mapping, or -errno in the last page of the address space: test with sys_is_error(). */
static inline void *sys_mmap(void *address, size_t size, int protection, int flags, int fd, uint64_t offset)
{
	return (void *)sys_call6(SYS_mmap, (long)address, (long)size, protection, flags, fd, (long)offset);
}

static inline bool sys_is_error(const void *mapping)
{
	return (uintptr_t)mapping >= (uintptr_t)-4095;
}

static inline int sys_munmap(void *address, size_t size)
{
	return (int)SYS_CALL(SYS_munmap, address, size, 0);
}

static inline int sys_mprotect(void *address, size_t size, int protection)
{
	return (int)SYS_CALL(SYS_mprotect, address, size, protection);
}

static inline int sys_madvise(void *address, size_t size, int advice)
{
	return (int)SYS_CALL(SYS_madvise, address, size, advice);
}

static inline int sys_getpid(void)
{
	return (int)SYS_CALL(SYS_getpid, 0, 0, 0);
}

static inline int sys_gettid(void)
{
	return (int)SYS_CALL(SYS_gettid, 0, 0, 0);
}

static inline unsigned sys_geteuid(void)
{
	return (unsigned)SYS_CALL(SYS_geteuid, 0, 0, 0);
}

static inline int sys_kill(int pid, int signal)
{
	return (int)SYS_CALL(SYS_kill, pid, signal, 0);
}

static inline int sys_sched_yield(void)
{
	return (int)SYS_CALL(SYS_sched_yield, 0, 0, 0);
}

static inline int sys_futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
	return (int)SYS_CALL4(SYS_futex, word, operation, value, timeout);
}

static inline uint64_t sys_clock_ns(int clock)
{
	struct timespec t = { 0, 0 };

	SYS_CALL(SYS_clock_gettime, clock, &t, 0);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void sys_sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	SYS_CALL(SYS_nanosleep, &t, 0, 0);
}

/* `int fd_close_later __attribute__((cleanup(sys_close_fd)))`: closes fd if it is one. */
static inline void sys_close_fd(int *fd)
{
	if (*fd >= 0)
		sys_close(*fd);
}
#define CLEANUP_CLOSE __attribute__((cleanup(sys_close_fd)))

#endif
