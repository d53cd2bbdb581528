/*
 * trace/analysis/judge/compare.h - tests whether two sets of measurements differ, and by how much.
 * It is used to compare runs of a program. The two sets are called sides, and each side consists of
 * one or more runs.
 *
 * Warmup   the first values of a run may be left out, at most half of all values. They are the
 *          values before the first one that is not larger than a share MRD_COMPARE_ABOVE of the
 *          values in the run's later half. They are left out only if the median of their first
 *          third is above the later half's median. The distance between the two medians has to be
 *          more than MRD_COMPARE_EVIDENT times the range of the middle eight tenths of the later
 *          half. A slow drift or correlated values do not reach this distance. If the run has fewer
 *          than MRD_COMPARE_TRIM values, or fewer than three would be left out, all values count.
 *          Everything below uses the remaining values.
 * Mean     two kinds of mean are compared, and each is tested at half the significance level. The
 *          result is the one with the smaller p. The trimmed mean ignores a tenth of the values on
 *          each side, so that a few slow steps (a checkpoint, a compilation) do not decide. With
 *          fewer than MRD_COMPARE_TRIM values none is trimmed. The median allows half of the steps
 *          to be slow (a machine with other work).
 * Error    the error of a run's mean is the standard deviation of the means of its
 *          MRD_COMPARE_PARTS parts, not divided by the root of their number. For independent noise
 *          this error is three times too large. But the noise of machines is 1/f noise, for which
 *          means over longer times differ as much as means over shorter times. For such noise this
 *          error equals the difference between two runs. The error is never below Yuen's error of
 *          the trimmed mean from the winsorized variance. If values are correlated, Yuen's error is
 *          multiplied by (1 + r) / (1 - r), where r is a positive correlation of neighbours. If the
 *          means of 2, 4, 8 ... neighbours vary more than r explains, their variance is used.
 * Drift    a run drifts if means over a large part of it vary more than chance explains (a machine
 *          that warms up). Then there is no result from fewer than MRD_COMPARE_RUNS runs on a side,
 *          because within a run a drift looks like a difference. A drift that stays below the noise
 *          may be missed.
 * Runs     with several runs on a side, the spread between their means is the error if it is
 *          larger. It is also the error if there are MRD_COMPARE_RUNS runs and one has fewer than
 *          MRD_COMPARE_RUN values, too few for a spread of its own. With one run, the error cannot
 *          contain effects that are constant in a run and differ between runs (another machine,
 *          another placement).
 * Test     Welch's t with Satterthwaite's degrees of freedom, two-sided.
 *
 * Threads  all functions are pure.
 * Sources  initial transient   Law, "Simulation Modeling and Analysis", 9.5.
 *          flicker floor       Allan, "Statistics of atomic frequency standards" (1966).
 *          batch means         Law and Carson (1979).
 *          trimmed t           Yuen, "The two-sample trimmed t for unequal population variances"
 *                              (1974).
 *          continued fraction  Lentz, for the incomplete beta function.
 */
#ifndef MRD_TRACE_COMPARE_H
#define MRD_TRACE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MRD_COMPARE_LEAST 5 /* minimum number of values on a side; with fewer there is no result */
/* minimum number of values of a run: two parts with two values each */
#define MRD_COMPARE_RUN 4
/* minimum number of runs on a side; with fewer, a drift prevents a result */
#define MRD_COMPARE_RUNS  3
#define MRD_COMPARE_PARTS 8 /* number of parts into which a run is divided */
/* minimum number of batch means from which their variance is estimated */
#define MRD_COMPARE_BATCHES 4
/* a tenth of a run's values is trimmed only if the run has this number of values */
#define MRD_COMPARE_TRIM    20
#define MRD_COMPARE_ABOVE   0.9
#define MRD_COMPARE_EVIDENT 3

typedef struct {
    const double *v; /* the measured values in order of time; all are finite */
    size_t n;
} mrd_compare_run;

typedef struct {
    double base, now; /* means of the two compared sides: the base and the new runs */
    double change;    /* now - base */
    double error;     /* standard error of change */
    double df;        /* degrees of freedom */
    /* there is no result because of a drift (see Drift in the head of this file) */
    bool drifts;
    bool median; /* the compared means are medians (true) or trimmed means (false) */
    double p;    /* probability of such a difference by chance; 1 for too few values or a drift */
} mrd_compared;

/* Stores how many values at the begin of the run are warm-up. Errors: NOMEM, and *ret is
 * unchanged. */
mrd_err mrd_compare_warmup(const mrd_compare_run *run, size_t *ret);
/* Compares the runs of two sides. Runs without values are left out. Errors: NOMEM, and *ret is
 * unchanged. */
mrd_err mrd_compare(const mrd_compare_run *base, size_t n_base, const mrd_compare_run *now,
                    size_t n_now, mrd_compared *ret);
/* Returns half the width of the interval that contains the true change with probability `level`, 0
 * < level < 1. Infinite if there is no result. */
double mrd_compare_half(const mrd_compared *compared, double level);
/* Returns P(|T| > |t|) for Student's t. */
double mrd_student_tail(double t, double df);

#endif
