/*
 * trace/analysis/steady.h - whether one worker is late again and again, or was late by chance or for a while.
 *
 * Data     for each collective, the worker that came last and how long the others waited for it alone. The
 *          collectives are divided into at most MRD_STEADY_BLOCKS blocks, in the order of time.
 * Test     if no worker is slower than the others, each block could as well have had its waiting at other
 *          workers: all assignments of a block's amounts to the workers are equally likely. The p value
 *          is the probability that some worker then gets at least as much in all blocks together as the
 *          worker in question. It is Chernoff's upper bound of that, times the number of workers, so it is
 *          never too small. One long wait proves nothing, because somebody always has it; the same
 *          worker in block after block does.
 *
 * Lasts    the test takes blocks as independent of each other, but something that disturbs a worker for a while
 *          fills several blocks in a row. So the worker has to have more than each other worker, and a tenth of all
 *          its waiting, in each quarter of the recording. A worker that became slow on the way has to have that
 *          in each eighth of the second half, of at least MRD_STEADY_BLOCKS collectives.
 *
 * Memory   8 bytes for each worker and block. Threads: belongs to one thread.
 * Source   permutation tests (Fisher 1935); the bound, Chernoff (1952).
 */
#ifndef MRD_TRACE_STEADY_H
#define MRD_TRACE_STEADY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MRD_STEADY_BLOCKS 32u /* even; blocks are joined in pairs when there are more */

typedef struct mrd_steady mrd_steady;

mrd_steady *mrd_steady_new(size_t workers); /* NULL without memory */
void mrd_steady_free(mrd_steady *s);        /* NULL is fine */
/* One more collective: the others waited `ns` for this worker alone; 0 if nobody came last. */
void mrd_steady_add(mrd_steady *s, uint32_t worker, uint64_t ns);

typedef struct {
    double p;   /* 1 without any waiting for the worker */
    bool lasts; /* in all parts of the recording, or until its end */
} mrd_steadiness;

/* Of one worker, when `workers` took part in collectives. */
mrd_steadiness mrd_steady_of(const mrd_steady *s, uint32_t worker, size_t workers);

#endif
