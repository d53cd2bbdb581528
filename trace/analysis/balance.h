/*
 * trace/analysis/balance.h - finds the workers that compute more than the others in most steps. The
 * report uses this for traces that contain only named phases of a program
 * (trace/analysis/phases.h). In such traces no event names the group of a communication, so no
 * worker can be proven late.
 *
 * Step     the step number of a span is its argument "step", "iteration" or the like. Without this
 *          argument, it is the number of the program step that encloses the span. Without such a
 *          step, it is the number in the span's name, as in "optimizer step 7".
 * Part     one of eight equal parts of the recording. If most of the computation has no step
 *          number, workers are compared in these parts instead of in steps.
 * Excess   the computation of a worker in a step minus the computation of the median worker (the
 *          lower median).
 * Verdict  a worker computes more if three conditions hold. Its excess is at least
 *          MRD_BALANCE_EXCESS of the median's computation. It had an excess in MRD_BALANCE_STEADY
 *          of the steps. Its excess is at least half of the largest excess.
 *
 * Memory   a cell for each pair of step and worker, up to MRD_BALANCE_CELLS. Later steps are not
 *          compared.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_BALANCE_H
#define MRD_TRACE_BALANCE_H

#include "trace/analysis/workers.h"

#define MRD_BALANCE_EXCESS 0.1
#define MRD_BALANCE_STEADY 0.9
#define MRD_BALANCE_CELLS  1048576u

typedef struct mrd_balance mrd_balance;

typedef struct {
    /* the worker with the largest excess computation, as the head of this file defines it */
    uint32_t worker;
    bool by_step;   /* true if spans state the number of their step */
    size_t workers; /* number of workers that compute more than the others; 0 if none */
    /* number of steps that were compared, and of steps in which `worker` had an excess */
    size_t steps, over;
    uint64_t ns, median_ns; /* computation of `worker` and of the median worker in all steps */
} mrd_imbalance;

/* Creates an object that compares the workers of a recording from `first` to `last`. Returns NULL
 * if out of memory. */
mrd_balance *mrd_balance_new(const mrd_catalog *cat, size_t workers, mrd_ev_ns first,
                             mrd_ev_ns last);
void mrd_balance_free(mrd_balance *balance); /* accepts NULL */
/* Adds a span that encloses work, such as a step of the program, and is no work itself. The work
 * inside gets the step number of this span: the number in its step argument. Without this argument,
 * a step span (`is_step`) has the number in its name, or else the previous number plus 1. Other
 * spans without this argument are ignored. A span on the track of a worker with ranks
 * (mrd_worker.ranks) applies to this worker, and any other span to all workers of its process. */
void mrd_balance_around(mrd_balance *balance, const mrd_workers *who, const mrd_event *ev,
                        bool is_step);
/* Adds a span in which this worker computes. Spans come in order of their begins. Time that several
 * spans of a worker cover counts once. Errors: NOMEM. */
mrd_err mrd_balance_add(mrd_balance *balance, uint32_t worker, const mrd_event *ev);
/* Stores the number of the step in which this worker's span lies. Returns false if it is
 * unknown. */
bool mrd_balance_step(const mrd_balance *balance, uint32_t worker, const mrd_event *ev,
                      uint64_t *ret_step);
/* Compares the workers and stores the result in *ret. With fewer than two steps, no worker counts
 * as computing more than the others. Errors: NOMEM. */
mrd_err mrd_balance_judge(mrd_balance *balance, mrd_imbalance *ret);
/* Returns true if this worker computes more than the others. Call mrd_balance_judge first. */
bool mrd_balance_is_over(const mrd_balance *balance, uint32_t worker);

#endif
