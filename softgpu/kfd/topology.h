/* The files of /sys that a ROCm runtime and the usual tools read, written into a temporary folder of this
 * process.
 *
 * The folder is locked as long as its process lives; the next process of the same kind removes unlocked ones,
 * so that a crash leaves nothing for long. */
#ifndef KFDEMU_TOPOLOGY_H
#define KFDEMU_TOPOLOGY_H

#include "state.h"

#include <stdbool.h>
#include <stddef.h>

/* Writes the folder. Called once, while connecting; aborts when it cannot. */
void topology_write(struct state *state);

/* Where PATH is in the folder, in BUFFER; PATH itself when it is none of the emulated files. Connects when
 * needed. Accounting files are brought up to date by this. */
const char *topology_redirect(const char *path, char *buffer, size_t size);

/* In a forked child: the folder is the parent's. */
void topology_forget(void);

#endif
