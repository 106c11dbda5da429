/* Many at once: threads and processes of one pod, each doing the same pairs. */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

/* Prints one JSON object. Never returns in the processes it makes. Status for main. */
int crowd(unsigned processes, unsigned threads, unsigned pairs, unsigned rounds);

#endif
