/* tests/timesync/exact.h - the exact information of packets about a clock of constant rate. The set
 * of offsets and rates is a plain feasible set, and its corners are found by testing all pairs of
 * packets. */
#ifndef MRD_TESTS_TIMESYNC_EXACT_H
#define MRD_TESTS_TIMESYNC_EXACT_H

#include <math.h>

#include "tests/check.h"
#include "timesync/feasible.h"

typedef struct {
    double d, v; /* x + rate * d, above or below v */
    bool lower;
} half_plane;

static inline bool
allows(const half_plane *h, double x, double rate, double slack)
{
    return h->lower ? x + rate * h->d >= h->v - slack : x + rate * h->d <= h->v + slack;
}

/*
 * Returns the exact range of offset and rate at `at` seconds after the reference. Corners are
 * intersections of two inequalities, or of one with a limit of the rate, that satisfy all
 * inequalities. Each inequality is relaxed by `slack`.
 */
static inline mrd_poly_range
corners(const half_plane *h, size_t n, double rate_max, double at, double slack)
{
    mrd_poly_range r = { INFINITY, -INFINITY, INFINITY, -INFINITY };

    for (size_t i = 0; i < n; i++) {
        double vi = h[i].v + (h[i].lower ? -slack : slack);

        /* the last two values of j stand for the limits of the rate, not for an inequality */
        for (size_t j = 0; j < n + 2; j++) {
            double rate = j == n ? rate_max : -rate_max, x;
            bool fits = true;

            if (j < n && fabs(h[i].d - h[j].d) < 1e-9)
                continue;
            if (j < n)
                rate = (vi - h[j].v - (h[j].lower ? -slack : slack)) / (h[i].d - h[j].d);
            if (fabs(rate) > rate_max)
                continue;
            x = vi - rate * h[i].d;
            for (size_t k = 0; k < n && fits; k++)
                fits = k == i || k == j || allows(&h[k], x, rate, slack);
            if (!fits)
                continue;
            r.lo = fmin(r.lo, x + rate * at);
            r.hi = fmax(r.hi, x + rate * at);
            r.rate_lo = fmin(r.rate_lo, rate);
            r.rate_hi = fmax(r.rate_hi, rate);
        }
    }
    return r;
}

/* number of sets that were wider than the exact one by more than rounding */
TEST_SHARED size_t trimmed;

static inline bool
is_outside(mrd_poly_range in, mrd_poly_range out, double room, double rate_room)
{
    return out.lo <= in.lo + room && out.hi >= in.hi - room &&
           out.rate_lo <= in.rate_lo + rate_room && out.rate_hi >= in.rate_hi - rate_room;
}

/* Returns true if the set is not narrower than the exact set, and not wider than rounding allows.
 * Sets with more than MRD_POLY_VERTICES corners may rarely be wider by a part of their width. */
static inline bool
is_exact(const char *what, mrd_poly_range got, const half_plane *h, size_t n, double rate_max,
         double at)
{
    mrd_poly_range in = corners(h, n, rate_max, at, 0), out = corners(h, n, rate_max, at, 0.2);
    double part = 0.06 * (out.hi - out.lo), rate_part = 0.06 * (out.rate_hi - out.rate_lo);

    trimmed += !is_outside(got, out, 0.1, 0.1);
    if (is_outside(in, got, 1e-3, 1e-3) && is_outside(got, out, 0.1 + part, 0.1 + rate_part))
        return true;
    fprintf(stderr, "%s: [%.3f, %.3f] at [%.3f, %.3f], exactly [%.3f, %.3f] at [%.3f, %.3f]\n",
            what, got.lo, got.hi, got.rate_lo, got.rate_hi, in.lo, in.hi, in.rate_lo, in.rate_hi);
    return false;
}

#endif
