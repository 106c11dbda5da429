/* What this process was given and must hand on: to itself in other programs, and to whatever it starts.
 *
 * The list comes from the process's own initial block alone (no file is read at start). It is a ceiling: a program that is
 * started with a larger limit, none, or an unreadable one gets ours, a smaller one stays; a pinned variable that differs gets
 * ours. What is merely restored is put back only where it is missing (see ENV_VARIABLES).
 */
#ifndef AMVGPU_KEEP_H
#define AMVGPU_KEEP_H

/* For la_objopen, after program_libc_objopen and before exec_objopen; the first call does it all: libpthread may come before
 * libc. Under the loader lock. */
void keep_init(void);

/* The process has got a slot: what happened before is noted in it. */
void keep_note_slot(void);

#endif
