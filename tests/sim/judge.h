/*
 * tests/sim/judge.h - compares estimates with the truth: errors, widths and coverage of the live
 * and the offline estimate, and of other methods on the same probes.
 */
#ifndef MRD_TESTS_SIM_JUDGE_H
#define MRD_TESTS_SIM_JUDGE_H

#include "timesync/follow.h"

#include <stdio.h>

/* The results of one kind of estimate: lists of errors and widths, and the number of misses. */
typedef struct {
    double *error, *width; /* ns */
    size_t n, cap;
    size_t missed;      /* the truth was outside the bound */
    size_t missed_good; /* the part of `missed` whose quality gave no warning */
    size_t gap, none;   /* events inside a gap; events without an answer */
    double worst_miss;  /* ns */
} verdict;

void verdict_add(verdict *v, mrd_sess_ns got, const mrd_align_bound *bound, int64_t truth);
void verdict_fini(verdict *v);
double verdict_error(verdict *v, double q); /* quantile of |error|, us */
double verdict_width(verdict *v, double q); /* us */
void verdict_print(const char *name, verdict *v);

/* The measured or simulated data, and the truth. */
typedef struct {
    const mrd_probe *probes; /* in the order in which the aggregator received them */
    const int64_t *known;    /* session time in ns at which the aggregator received each probe */
    size_t n;
    int64_t from, to;                                    /* session ns */
    int64_t (*local_of)(void *self, int64_t session_ns); /* the true clock */
    void *self;
    /* number of events, spread over the session, at which the estimates are evaluated */
    size_t events;
    uint64_t seed;
    bool ordered;    /* the clock never runs backward, so order must be kept */
    int64_t step_at; /* session ns; 0 none */
} judge_input;

typedef struct {
    /* errors of the estimates that were made at the time of the event, 30 s later, and at the end */
    verdict live, late, offline;
    size_t suspected;     /* number of live answers with a warning about their bound */
    uint32_t live_epochs; /* number of epochs of the live answers */
    mrd_follow_report report;
    mrd_align *align;
    mrd_err err;
    mrd_why why;
    /* time from step_at to the first warning of the live estimate, NAN if never */
    double noticed_s;
    bool disorder; /* a later time was mapped to an earlier one */
} outcome;

/* Evaluates the live estimate at the time of each event, and the offline one over the whole
 * session. */
void judge(const judge_input *in, outcome *ret_outcome);
void outcome_fini(outcome *o);

/* Simple methods of clock alignment, with which the results are compared. Each returns the offset at
 * any local time. */
typedef enum {
    BASE_MIDDLE,
    BASE_TWO_POINT,
    BASE_BEST_OF_8,
    BASE_REGRESSION,
    BASE_HULL,
    BASE_COUNT
} baseline;

extern const char *const baseline_names[BASE_COUNT];

typedef struct {
    int64_t t0, base;
    bool ok;     /* the hull may be infeasible */
    double a, b; /* offset = base + a + b * (t - t0) */
    int64_t *t;  /* best-of-8: segments */
    double *v;
    size_t n;
} baseline_fit;

void baseline_solve(baseline kind, const mrd_probe *probes, size_t n, baseline_fit *ret_fit);
int64_t baseline_offset(const baseline_fit *fit, int64_t local);
void baseline_fini(baseline_fit *fit);

#endif
