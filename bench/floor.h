#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

/* Prints one JSON object, ns each. */
int floor_print(void);

#endif
