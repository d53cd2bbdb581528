/*
 * trace/analysis/judge/what_if.h - computes how long the steps of a training job would be without
 * stragglers, and how much of the difference the slowest workers and the last pipeline stage cause.
 *
 * Input    traces of program phases (trace/analysis/phases.h) with the operations that
 *          trace/analysis/judge/pipeline.h names. Their step is found as trace/analysis/balance.h
 *          says, and the stage of a worker is in its ranks ("PP rank 2"). Workers without a stage
 *          are replicas of one stage.
 * Own      the time that an operation itself takes. For computation it is the recorded duration.
 *          For communication it is the time from the last begin in its group to its own end.
 * Ideal    the time of an operation without stragglers: the mean of all own times of its kind for
 *          computation, and the median for communication. Workers, stages and steps count alike, so
 *          stages with unequal work are stragglers, too.
 * Replay   begins each operation when its dependencies have ended, and gives it its own or its
 *          ideal time. The time between operations counts as nothing.
 * Share    the part of the slowdown that disappears if only these operations take their ideal time.
 *          It can be below 0 or above 1, because the ideal time is a mean, and so longer than the
 *          own times of fast operations.
 * Slowest  the 3 % of workers, at least one, with the highest scores. The score of a worker is the
 *          smaller of two slowdowns. In the first one, only the workers of its replica have their
 *          own times. In the second one, only the workers of its stage do.
 * Unknown  the slowdown is unknown if the dependencies are unknown, or if there are fewer than two
 *          workers or complete steps. It is also unknown if the replay with own times differs from
 *          the recorded steps by more than MRD_WHAT_IF_ERROR. Shares are computed only for a
 *          slowdown of at least MRD_WHAT_IF_LEAST.
 * Source   S, M_W and M_S of the OSDI'25 paper "Understanding Stragglers in Large Model Training
 *          Using What-if Analysis".
 *
 * Memory   MRD_WHAT_IF_OPS operations. Later steps are not replayed. Jobs with many workers replay
 *          fewer steps, so that all replays take at most about a second.
 * Threads  belongs to one thread.
 */
#ifndef MRD_TRACE_WHAT_IF_H
#define MRD_TRACE_WHAT_IF_H

#include "trace/analysis/balance.h"

#define MRD_WHAT_IF_ERROR 0.05
#define MRD_WHAT_IF_LEAST 1.03
#define MRD_WHAT_IF_OPS   524288u

typedef struct mrd_what_if mrd_what_if;

typedef struct {
    size_t steps;    /* number of replayed steps; 0 if the slowdown is unknown */
    double step_ns;  /* mean length of a step, with own times */
    double ideal_ns; /* ... with ideal times */
    bool has_shares; /* the members below are known */
    uint32_t worker; /* the slowest worker */
    size_t slowest;  /* number of slowest workers */
    double slowest_share;
    int64_t last_stage; /* number of the last stage; MRD_NONE if there is only one */
    double last_stage_share;
} mrd_slowdown;

/* Creates an object for these workers, which must outlive it. Returns NULL if out of memory. */
mrd_what_if *mrd_what_if_new(const mrd_catalog *cat, const mrd_workers *who);
void mrd_what_if_free(mrd_what_if *what_if); /* accepts NULL */
/* Adds a finished span, which `balance` has already received or ignores. Spans that are no
 * operation of a worker are ignored. Spans come in order of their begins. Errors: NOMEM. */
mrd_err mrd_what_if_add(mrd_what_if *what_if, const mrd_balance *balance, const mrd_event *ev);
/* Computes the result. Call once, after the last span. Errors: NOMEM. */
mrd_err mrd_what_if_judge(mrd_what_if *what_if, mrd_slowdown *ret);

#endif
