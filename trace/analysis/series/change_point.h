/*
 * trace/analysis/series/change_point.h - finds where the level of a series changed for good.
 *
 * Test     the values are replaced by their ranks, so one extreme value does not decide. Each
 *          place is tried as a border between two parts. The border with the largest difference
 *          of the mean ranks, divided by its standard deviation, is the candidate. The variance is
 *          corrected for ties.
 * p        the chance that a series without a change has a border with such a difference. It is
 *          Miller and Siegmund's formula for the best of many borders. Correlated neighbours make
 *          changes by chance. So the variance is multiplied by (1 + r) / (1 - r). r is the
 *          correlation of neighbouring ranks after subtracting the mean rank of each part, limited
 *          to 0 .. 0.9.
 * Ends     both parts need at least MRD_CHANGE_LEAST values. If most values are equal, for
 *          example zero, the parts are longer: each probably has MRD_CHANGE_LEAST other values.
 * Effect   the levels have to differ by a share of the larger level. A level is a mean. For this
 *          mean, the largest 1/256 of all values are reduced to the next smaller value.
 * Several  after a change, both parts are tested in the same way. If the level rises for a short
 *          time and falls again, the mean ranks of a long series hardly change. Therefore windows
 *          of a half, a quarter, an eighth of the part are tested too, and p is multiplied by their
 *          number. At the end each change is tested again with the values between its neighbouring
 *          changes, and removed if it fails.
 * Place    a change is placed where the values differ least, in total, from the median of their
 *          part. If the medians are equal, it is placed where the sum of the squared differences
 *          from the parts' levels is least.
 *
 * Limits   the test needs at least 2 * MRD_CHANGE_LEAST values. A steady rise has no border. It is
 *          found as several changes.
 * Cost     n log^2 n for each change. Threads: the function is pure.
 * Source   maximally selected rank statistics: Miller and Siegmund (1982), Lausen and Schumacher
 *          (1992). Windows: seeded binary segmentation, Kovács and others (2023). Correction for
 *          serial correlation: Bayley and Hammersley (1946).
 */
#ifndef MRD_TRACE_CHANGE_POINT_H
#define MRD_TRACE_CHANGE_POINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MRD_CHANGE_LEAST 5
#define MRD_CHANGE_P     0.001
/* the maximum number of changes that are found */
#define MRD_CHANGES_MOST 8

typedef struct {
    size_t at;            /* index of the first value after the change */
    double before, after; /* levels of the neighbouring parts */
    double p;
} mrd_change_point;

typedef struct {
    mrd_change_point change[MRD_CHANGES_MOST]; /* in order of the index */
    size_t n;
    bool more;    /* the series has more changes than were stored */
    double level; /* level of the whole series */
} mrd_change_points;

/* Finds the changes in `n` finite values. `effect` is the smallest difference of two levels, as a
 * share of the larger one. Too few values have no change. MRD_NOMEM if out of memory. */
mrd_err mrd_change_points_of(const double *v, size_t n, double effect, mrd_change_points *ret);

#endif
