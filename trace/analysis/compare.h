/*
 * trace/analysis/compare.h - whether two sets of measurements differ, and by how much: for the comparison
 * of runs.
 *
 * Warm-up  what a run begins with is left out: its first values, at most half of them, up to the first
 *          that is not above MRD_COMPARE_ABOVE of the values of its later half. Only when they stand
 *          out: the median of the first third of them lies further above the later half's than
 *          MRD_COMPARE_EVIDENT times what the middle eight tenths of that half span. A slow drift or
 *          values that are alike over some time do not do that. Fewer than MRD_COMPARE_TRIM values,
 *          or less than three of them to leave out: none is. All that follows is of the others.
 * Mean     two are compared, the test of each at half the level, and the one with the smaller p is
 *          the answer. Trimmed: a tenth of the values on each side counts for nothing, so that a few slow
 *          steps (a checkpoint, a compilation) do not decide; with fewer than MRD_COMPARE_TRIM values
 *          none is trimmed. Median: half of the steps may be slow (a machine with other work).
 * Error    of a run's mean: as much as the means of its MRD_COMPARE_PARTS parts differ from each other
 *          (their standard deviation, not divided by the root of their number). For noise without
 *          memory that is three times too wide. For 1/f noise, which machines have, it is what
 *          two runs differ by: means over longer times differ no less. Never below Yuen's error
 *          of the trimmed mean from the winsorized variance, grown where values are alike
 *          over some time by (1 + r) / (1 - r), r the correlation of neighbours where it is positive,
 *          or by what the means of 2, 4, 8 ... neighbours vary more than that explains.
 * Drift    where means over a good part of a run vary more than chance explains (a machine that warms
 *          up), nothing is said from fewer than MRD_COMPARE_RUNS runs a side: within a run a drift
 *          cannot be told from a difference. A drift that stays below the noise may still be missed.
 * Runs     with several runs on a side the spread between their means is the error, when it is
 *          larger than that, and when there are MRD_COMPARE_RUNS of them and one has fewer than
 *          MRD_COMPARE_RUN values, too few for a spread of its own. With one run what is constant in a
 *          run and differs between runs (another machine, another placement) is not in the error, and
 *          cannot be.
 * Test     Welch's t with Satterthwaite's degrees of freedom, two-sided.
 *
 * Threads: pure.
 * Source: leaving out the initial transient, Law, "Simulation Modeling and Analysis", 9.5; flicker floor,
 * Allan, "Statistics of atomic frequency standards" (1966); batch means, Law and Carson (1979); Yuen,
 * "The two-sample trimmed t for unequal population variances" (1974); the incomplete beta function by
 * Lentz' continued fraction.
 */
#ifndef MRD_TRACE_COMPARE_H
#define MRD_TRACE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MRD_COMPARE_LEAST   5  /* values a side below which nothing is said */
#define MRD_COMPARE_RUN     4  /* values of a run: two parts of two */
#define MRD_COMPARE_RUNS    3  /* a side, from which on their spread answers for drifts */
#define MRD_COMPARE_PARTS   8  /* of a run */
#define MRD_COMPARE_BATCHES 4  /* fewer means say nothing about their spread */
#define MRD_COMPARE_TRIM    20 /* values of a run from which on a tenth is trimmed */
#define MRD_COMPARE_ABOVE   0.9
#define MRD_COMPARE_EVIDENT 3

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
    bool median;      /* of medians; else of trimmed means */
    double
        p; /* a difference as large by chance, when there is none; 1: too few values, or a drift */
} mrd_compared;

/* How many values of the run are its warm-up. Errors: NOMEM; *ret untouched. */
mrd_err mrd_compare_warmup(const mrd_compare_run *run, size_t *ret);
/* Runs without a value are left out. Errors: NOMEM; *ret untouched. */
mrd_err mrd_compare(const mrd_compare_run *base, size_t n_base, const mrd_compare_run *now,
                    size_t n_now, mrd_compared *ret);
/* Half the width of the interval that holds the true change with this probability, 0 < level < 1.
 * Infinite when nothing is said. */
double mrd_compare_half(const mrd_compared *c, double level);
/* P(|T| > |t|) for Student's t. */
double mrd_student_tail(double t, double df);

#endif
