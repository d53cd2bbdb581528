/*
 * trace/analysis/series/steady.h - tests whether a worker is late throughout a recording, or only
 * by chance or for a while. Also finds the time since which it is late.
 *
 * Data     for each collective, the worker that came last and how long the others waited for this
 *          worker alone. The collectives are divided into at most MRD_STEADY_BLOCKS blocks, in
 *          order of time.
 * Test     suppose that no worker is slower than the others. Then the waiting times of a block
 *          could as well have belonged to other workers, and all assignments to workers are equally
 *          likely. The p value is the probability that some worker then gets at least the total of
 *          the tested worker. It is Chernoff's upper bound of this probability, times the number of
 *          workers, so it is never too small. One long wait proves nothing, because there is always
 *          a longest one. The same worker in block after block proves it.
 * Lasts    the test treats blocks as independent, but one disturbance of a worker may fill several
 *          blocks in a row. So two conditions have to hold in each quarter of the recording. The
 *          others wait longer for this worker than for any other worker. They also wait at least a
 *          tenth of the worker's total. A worker that became slow during the recording has to meet
 *          both conditions in each quarter of the second half. This needs at least
 *          MRD_STEADY_BLOCKS collectives in the recording.
 *
 * Since    the time of a change in the waits for this worker (trace/analysis/series/onset.h).
 *
 * Memory   8 bytes for each worker and block, and MRD_ONSET_MOST collectives.
 * Threads  belongs to one thread.
 * Source   permutation tests (Fisher 1935); the bound, Chernoff (1952).
 */
#ifndef MRD_TRACE_STEADY_H
#define MRD_TRACE_STEADY_H

#include "trace/analysis/series/onset.h"

/* must be even, because pairs of blocks are joined when all blocks are used */
#define MRD_STEADY_BLOCKS 32u

typedef struct mrd_steady mrd_steady;

mrd_steady *mrd_steady_new(size_t workers); /* returns NULL if out of memory */
void mrd_steady_free(mrd_steady *steady);   /* accepts NULL */
/* Adds a collective in which the other workers waited `ns` for this worker alone. `ns` is 0 if no
 * single worker came last. `at` is the time when the last worker came. */
void mrd_steady_add(mrd_steady *steady, mrd_ev_ns at, uint32_t worker, uint64_t ns);

typedef struct {
    /* p value of the test (see the head of this file); 1 if no other worker waited for this one */
    double p;
    bool lasts; /* the worker was late in each quarter of the recording, or of its second half */
} mrd_steadiness;

/* Tests one worker. `workers` is the number of workers that took part in collectives. */
mrd_steadiness mrd_steady_of(const mrd_steady *steady, uint32_t worker, size_t workers);
/* Finds since when a worker is late. Fails as mrd_onset_of does. */
mrd_err mrd_steady_since(const mrd_steady *steady, uint32_t worker, mrd_onset_result *ret);

#endif
