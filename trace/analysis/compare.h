/*
 * trace/analysis/compare.h - whether two sets of measurements differ, and by how much: for the comparison
 * of runs.
 *
 * Mean     trimmed: a tenth of the values on each side counts for nothing, so that a few slow steps
 *          (a checkpoint, a compilation) do not decide. With fewer than MRD_COMPARE_TRIM values none
 *          is trimmed.
 * Error    Yuen's, of the trimmed mean, from the winsorized variance. Values that are alike over some
 *          time say less than their number: the error grows by (1 + r) / (1 - r), r the correlation
 *          of neighbours where it is positive, or by what the means of 2, 4, 8 ... neighbours vary
 *          more than that explains.
 * Drift    where means over a good part of a run vary more than chance explains (a machine that warms
 *          up), nothing is said from fewer than MRD_COMPARE_RUNS runs a side: within a run a drift
 *          cannot be told from a difference. A drift that stays below the noise may still be missed.
 * Runs     with several runs on a side the spread between their means counts as well, when it is
 *          larger than what their values explain. With one run it cannot be known: what differs
 *          between two runs of the same program for other causes is then not in the error.
 * Test     Welch's t with Satterthwaite's degrees of freedom, two-sided.
 *
 * Threads: pure.
 * Source: batch means, Law and Carson (1979); Yuen, "The two-sample trimmed t for unequal population variances" (1974); the incomplete beta
 * function by Lentz' continued fraction.
 */
#ifndef MRD_TRACE_COMPARE_H
#define MRD_TRACE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MRD_COMPARE_LEAST   5  /* values a side below which nothing is said */
#define MRD_COMPARE_RUNS    3  /* a side, from which on their spread answers for drifts */
#define MRD_COMPARE_BATCHES 4  /* fewer means say nothing about their spread */
#define MRD_COMPARE_TRIM    20 /* values of a run from which on a tenth is trimmed */

typedef struct {
    const double *v; /* finite, in the order of time */
    size_t n;
} mrd_compare_run;

typedef struct {
    double base, now; /* means */
    double change;    /* now - base */
    double error;     /* standard error of change */
    double df;        /* degrees of freedom */
    bool drifts;      /* nothing is said, see Drift */
    double
        p; /* a difference as large by chance, when there is none; 1: too few values, or a drift */
} mrd_compared;

/* Runs without a value are left out. Errors: NOMEM; *ret untouched. */
mrd_err mrd_compare(const mrd_compare_run *base, size_t n_base, const mrd_compare_run *now,
                    size_t n_now, mrd_compared *ret);
/* Half the width of the interval that holds the true change with this probability, 0 < level < 1.
 * Infinite when nothing is said. */
double mrd_compare_half(const mrd_compared *c, double level);
/* P(|T| > |t|) for Student's t. */
double mrd_student_tail(double t, double df);

#endif
