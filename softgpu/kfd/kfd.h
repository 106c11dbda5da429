/* The commands of /dev/kfd. */
#ifndef KFDEMU_KFD_H
#define KFDEMU_KFD_H

/* 0 or -errno; -EINVAL, said on stderr and in the log, for a command that the emulation does not know. Any
 * thread. */
int kfd_command(unsigned long command, void *args);

#endif
