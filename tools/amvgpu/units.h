/* Numbers as people read them. */
#ifndef AMVGPU_UNITS_H
#define AMVGPU_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "0", "512 B", "1.5 GiB". Writes into one of eight static buffers in turn: enough for one printf. */
const char *units_bytes(uint64_t bytes);
/* The same, "-" for 0: a table reads better without zeros. */
const char *units_bytes_or_dash(uint64_t bytes);
/* "12 s ago", "3 min ago", "2 h ago", "5 d ago"; since the epoch in ns. Same buffers. */
const char *units_age(uint64_t realtime_ns);
/* width cells, filled in proportion of used to whole; all of them where used exceeds it. Same buffers (width
 * <= 24). */
const char *units_bar(uint64_t used, uint64_t whole, unsigned width);
/* Whole percent, rounded down so that 100 means full; 0 where there is no whole. */
unsigned units_percent(uint64_t used, uint64_t whole);
/* Whether the terminal takes UTF-8 (setlocale has been called). */
bool units_is_utf8(void);
/* text with everything that is not printable ASCII replaced by '?': names come from other processes. Same
 * buffers (63). */
const char *units_printable(const char *text);

#endif
