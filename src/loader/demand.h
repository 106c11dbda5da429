/* Which of the functions that we wrap in libc something in the program can look up.
 *
 * A name in libc's symbol table leads to our wrapper for whoever looks it up; as long as nobody can, it need
 * not, and the page that it lies in stays the file's. Looking up takes a symbol of that name in an object of
 * one's own, or dlsym and its like: each object is asked for both before it is relocated. Under the loader
 * lock.
 *
 * Hole: code that asks for none of these and reads the loaded libc's symbol table by an address it has from
 * elsewhere.
 */
#ifndef AMVGPU_DEMAND_H
#define AMVGPU_DEMAND_H

#include "elf_object.h"

/* For la_objopen: has batch bound in libc, now and later, as its names come into demand. The lists and the
 * results stay the caller's and in use. False: this object's names cannot wait, and nothing was done. */
bool demand_bind(struct elf_object *object, const struct patch_batch *batch);

/* For la_objopen, of every object but libc, in every namespace, before anything is relocated against it.
 * NULL: it cannot be read, and may look up anything. True: more is bound in libc than before. */
bool demand_objopen(const struct elf_object *object);

/* Whether the name is in demand. One that is not on the list in demand.c always is. */
bool demand_has(const char *name);

#endif
