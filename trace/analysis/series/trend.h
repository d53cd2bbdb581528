/*
 * trace/analysis/series/trend.h - tests whether the values of a short series grow or fall by more
 * than their spread explains.
 *
 * Test     Mann and Kendall: S is the number of pairs with a larger later value minus the number of
 *          pairs with a smaller later value. p is two-sided, from a normal distribution with the
 *          variance of S, corrected for ties. One is subtracted from |S| for continuity. Only the
 *          order of the values counts, so one slow step does not decide.
 * Alike    correlated values make trends by chance. So the variance of S is multiplied by (1 + r) /
 *          (1 - r). r is the correlation of neighbouring values after subtracting the fitted line
 *          (Line, below), limited to 0 .. 0.9. Values on the line, up to rounding, have r = 0. The
 *          caller omits the correction if the level itself matters. For example, memory that rose
 *          once and stays in use is a real increase, although its values are correlated.
 * Line     Theil and Sen: the slope is the median of the slopes of all pairs.
 * Says     MRD_TREND_UP or DOWN if p <= MRD_TREND_P and the line changes by at least
 *          MRD_TREND_SHARE of the mean from the first value to the last. Otherwise FLAT, and NONE
 *          with fewer than MRD_TREND_LEAST values.
 *
 * Threads  all functions are pure.
 * Source   test: Mann (1945), Kendall (1975). Line: Sen (1968). Correction for serial correlation:
 *          Bayley and Hammersley (1946).
 */
#ifndef MRD_TRACE_TREND_H
#define MRD_TRACE_TREND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MRD_TREND_LEAST 8
#define MRD_TREND_MOST  64
#define MRD_TREND_P     0.001
#define MRD_TREND_SHARE 0.005

typedef enum { MRD_TREND_NONE, MRD_TREND_FLAT, MRD_TREND_UP, MRD_TREND_DOWN } mrd_trend_says;

typedef struct {
    mrd_trend_says says;
    size_t n;
    int64_t s;
    double r;      /* correlation of neighbouring values that the test used, 0 .. 0.9 */
    double p;      /* p value of the test; 1 if there are too few values */
    double slope;  /* change of the line from one value to the next */
    double change; /* change of the line from the first value to the last */
    double mean;
} mrd_trend;

/* Tests a series of finite values at equal distances in time. Only the first MRD_TREND_MOST values
 * count. `alike` enables the correction for correlated values. */
mrd_trend mrd_trend_of(const double *v, size_t count, bool alike);
const char *mrd_trend_text(mrd_trend_says says); /* returns a static text such as "up" */

#endif
