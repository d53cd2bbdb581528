/*
 * trace/analysis/balance.h - finds which workers compute more than the others, step after step. It
 * is used for traces that contain only named phases of a program (trace/analysis/phases.h). Their
 * communication names no groups, so no worker can be proven late.
 *
 * Step     the argument "step", "iteration" or the like of a span. Else it is the step of the
 *          program around the span, else the number in the span's name, as in "optimizer step 7".
 * Part     the recording is divided into eight equal parts. If most of the computation has no step,
 *          the parts in which spans begin are compared instead of steps.
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
    uint32_t worker; /* the worker with the largest excess, as the head of this file defines it */
    bool by_step;    /* spans name their steps */
    size_t workers;  /* number of workers that compute more; 0 if none */
    /* number of steps that were compared, and of steps in which `worker` had an excess */
    size_t steps, over;
    uint64_t ns, median_ns; /* computation of `worker` and of the median worker in all steps */
} mrd_imbalance;

/* Creates a balance for a recording from `first` to `last`. Returns NULL if out of memory. */
mrd_balance *mrd_balance_new(const mrd_catalog *cat, size_t workers, mrd_ev_ns first,
                             mrd_ev_ns last);
void mrd_balance_free(mrd_balance *balance); /* accepts NULL */
/* Adds a span around other work, which is no work itself. Work inside this span belongs to its
 * step: the step argument, for a step span the number in its name, or else the count of steps begun
 * before it. On a line with ranks the span holds for one worker, on another line for all workers of
 * the process. */
void mrd_balance_around(mrd_balance *balance, const mrd_workers *who, const mrd_event *ev,
                        bool is_step);
/* Adds a span of computation of this worker, in the order of begins. Time that several spans of a
 * worker cover counts once. Errors: NOMEM. */
mrd_err mrd_balance_add(mrd_balance *balance, uint32_t worker, const mrd_event *ev);
/* Compares the workers. With fewer than two steps, none computes more. Errors: NOMEM. */
mrd_err mrd_balance_judge(mrd_balance *balance, mrd_imbalance *ret);
/* Returns true if this worker computes more than the others. Call mrd_balance_judge first. */
bool mrd_balance_is_over(const mrd_balance *balance, uint32_t worker);

#endif
