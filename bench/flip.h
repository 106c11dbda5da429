/* With the library and without it, in one process image.
 *
 * An audit library has no off switch, and two processes differ by more than it. So every binding of this process that
 * leads into the library is found once (by the relocations of each loaded object), together with what it would lead to
 * without it (by the symbol table on disk, which the library never touches). flip() then writes one or the other.
 * Load everything with RTLD_NOW or LD_BIND_NOW before flip_init: a binding made later is not known.
 */
#ifndef BENCH_FLIP_H
#define BENCH_FLIP_H

#include <stdbool.h>

enum flip_mode { FLIP_WITHOUT, FLIP_WITH, FLIP_MODES };

/* library: the path it was loaded from. How many bindings lead into it; -1: it is not loaded. */
int flip_init(const char *library);
void flip(enum flip_mode mode);

/* The function as the file of its object says; NULL: no object has it. */
void *flip_original(const char *name);

#endif
