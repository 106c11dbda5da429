/* The region of a process that is limited on its own: it is in no file, only in that process's memory. */
#ifndef AMVGPU_PRIVATE_REGION_H
#define AMVGPU_PRIVATE_REGION_H

#include <stdbool.h>
#include <sys/types.h>

/* Such a region is named "private:PID" where the path of a file is expected. */
#define PRIVATE_REGION_PREFIX "private:"

/* A copy of it as a file in memory, or -errno: -ENOENT if the process has none, -EACCES and -EPERM if its
 * memory may not be read. That takes the rights of a debugger: the same user and no yama, CAP_SYS_PTRACE, or
 * being its tracer. */
int private_region_copy(int pid);

/* A path that opens what name means: name itself, or for "private:PID" a copy's, whose descriptor is then in
 * *fd (close it; else -1). NULL and errno. storage: at least 40 bytes. */
const char *private_region_path(const char *name, char *storage, int *fd);

/* Field 22 of /proc/PID/stat; 0 if it cannot be read. */
unsigned long long process_start_time(int pid);

#endif
