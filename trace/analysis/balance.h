/*
 * trace/analysis/balance.h - which workers compute more than the others, step after step. This is the question to traces of
 * program phases (trace/analysis/phases.h): their communication names no groups, so nobody can be proven late.
 *
 * Step     the argument "step" or "iteration" of a span. Spans without one belong to the part of the recording in which they
 *          begin, of eight equal parts.
 * Excess   of a worker in a step: its computation, less that of the median worker (the lower median).
 * Verdict  a worker computes more if its excess is at least MRD_BALANCE_EXCESS of the median's computation, if it had
 *          an excess in MRD_BALANCE_STEADY of the steps, and if its excess is at least half of the largest.
 *
 * Memory   a cell for each pair of step and worker, up to MRD_BALANCE_CELLS; later steps are not compared.
 * Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_BALANCE_H
#define MRD_TRACE_BALANCE_H

#include "trace/model/catalog.h"

#define MRD_BALANCE_EXCESS 0.1
#define MRD_BALANCE_STEADY 0.9
#define MRD_BALANCE_CELLS  1048576u

typedef struct mrd_balance mrd_balance;

typedef struct {
    uint32_t worker;        /* with the largest excess */
    bool by_step;           /* spans name their steps */
    size_t workers;         /* how many compute more; 0 if none does */
    size_t steps, over;     /* compared, and those in which `worker` had an excess */
    uint64_t ns, median_ns; /* computation of `worker` and of the median worker in all steps */
} mrd_imbalance;

/* The recording lasts from first to last. Returns NULL when out of memory. */
mrd_balance *mrd_balance_new(const mrd_catalog *cat, size_t workers, mrd_ev_ns first,
                             mrd_ev_ns last);
void mrd_balance_free(mrd_balance *b); /* accepts NULL */
/* Adds computation of a worker. Errors: NOMEM. */
mrd_err mrd_balance_add(mrd_balance *b, uint32_t worker, const mrd_event *ev);
/* Compares the workers. With fewer than two steps, none computes more. Errors: NOMEM. */
mrd_err mrd_balance_judge(mrd_balance *b, mrd_imbalance *ret);
/* Returns true if this worker is one of those that compute more. Call mrd_balance_judge first. */
bool mrd_balance_is_over(const mrd_balance *b, uint32_t worker);

#endif
