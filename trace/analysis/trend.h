/*
 * trace/analysis/trend.h - whether a short series grows or falls by more than its spread shows.
 *
 * Test    Mann and Kendall's: S is the number of pairs whose later value is larger less those whose later
 *         value is smaller; p is two-sided, from the normal distribution with the variance of S (ties
 *         taken off) and a correction of one for continuity. Ranks only: one slow step does not decide.
 * Alike   values that are alike over some time make trends by chance. The variance of S is multiplied by
 *         (1 + r) / (1 - r), r the correlation of neighbours around the line below where it is
 *         positive, at most 0.9; values on the line, up to rounding, have none.
 *         Not where what is asked is the level itself, as of memory: what rose and stays is no noise.
 * Line    Theil and Sen's: the slope is the median of the slopes of all pairs.
 * Says    MRD_TREND_UP or DOWN when p <= MRD_TREND_P and the line changes by at least MRD_TREND_SHARE of the
 *         mean from the first value to the last; else FLAT. With fewer than MRD_TREND_LEAST values NONE.
 *
 * Threads: pure.
 * Source: Mann (1945), Kendall (1975), Sen (1968); the correction for serial correlation, Bayley and
 * Hammersley (1946).
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
    double r;      /* as it is used: 0 .. 0.9 */
    double p;      /* 1 with too few values */
    double slope;  /* from one value to the next */
    double change; /* of the line, from the first value to the last */
    double mean;
} mrd_trend;

/* v: finite, of equal distance in time; of more than MRD_TREND_MOST the first so many. alike: see above. */
mrd_trend mrd_trend_of(const double *v, size_t n, bool alike);
const char *mrd_trend_text(mrd_trend_says says); /* "up", static */

#endif
