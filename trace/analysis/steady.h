/*
 * trace/analysis/steady.h - tests whether a worker is late again and again, or only by chance or
 * for a while.
 *
 * Data     for each collective, the worker that came last and how long the others waited for this
 *          worker alone. The collectives are divided into at most MRD_STEADY_BLOCKS blocks, in
 *          order of time.
 * Test     if no worker is slower than the others, each block could equally have its waiting at
 *          other workers. Then all assignments of a block's amounts to the workers are equally
 *          likely. The p value is the probability that some worker gets at least the total of the
 *          worker in question. It is Chernoff's upper bound of this probability, times the number
 *          of workers, so it is never too small. One long wait proves nothing, because there is
 *          always a longest one. The same worker in block after block proves it.
 * Lasts    the test treats blocks as independent, but a disturbance of a worker fills several
 *          blocks in a row. So in each quarter of the recording the worker has to have more waiting
 *          than each other worker, and a tenth of all its waiting. A worker that became slow during
 *          the recording has to meet both conditions in each quarter of the second half. This needs
 *          at least MRD_STEADY_BLOCKS collectives in the recording.
 *
 * Memory   8 bytes for each worker and block. Threads: belongs to one thread.
 * Source   permutation tests (Fisher 1935); the bound, Chernoff (1952).
 */
#ifndef MRD_TRACE_STEADY_H
#define MRD_TRACE_STEADY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* must be even; when all blocks are used, pairs of blocks are joined */
#define MRD_STEADY_BLOCKS 32u

typedef struct mrd_steady mrd_steady;

mrd_steady *mrd_steady_new(size_t workers); /* returns NULL if out of memory */
void mrd_steady_free(mrd_steady *steady);   /* accepts NULL */
/* Adds a collective, in which the others waited `ns` for this worker alone. `ns` is 0 if no worker
 * came last. */
void mrd_steady_add(mrd_steady *steady, uint32_t worker, uint64_t ns);

typedef struct {
    double p;   /* p value of the test above; 1 if no other worker waited for this one */
    bool lasts; /* late in all parts of the recording, or until its end */
} mrd_steadiness;

/* Tests one worker. `workers` is the number of workers that took part in collectives. */
mrd_steadiness mrd_steady_of(const mrd_steady *steady, uint32_t worker, size_t workers);

#endif
