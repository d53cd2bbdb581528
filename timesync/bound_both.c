/* Computes the bounds of all bins of an epoch from the packets before and after each bin. */
#include "timesync/bound.h"

#include "timesync/bound_impl.h"

#include <stdlib.h>

/* Makes the set of all states of a clock that are possible before the first packet. It is a box.
 * Its width is limited, so that doubles can still resolve MRD_POLY_SLACK. */
static void
anything(mrd_poly *poly, double rate_max)
{
    mrd_poly_box(poly, -MRD_BOUND_FREE, MRD_BOUND_FREE, -rate_max, rate_max);
}

static bool
step(mrd_poly *poly, const mrd_span *from, const mrd_span *to, const mrd_ineq *ineqs, int64_t base,
     const mrd_bound_options *options)
{
    mrd_bound_advance(poly, from->t0, to->t0, options);
    return mrd_ineqs_cut(poly, ineqs + to->first, to->n, base, to->t0, options->w);
}

bool
mrd_bound_forward(const mrd_span *spans, size_t n, const mrd_ineq *ineqs, int64_t base,
                  const mrd_bound_options *options, mrd_poly_range *ret_range)
{
    mrd_poly poly;

    anything(&poly, options->rate_max);
    for (size_t i = 0; i < n; i++) {
        if (!step(&poly, &spans[i > 0 ? i - 1 : 0], &spans[i], ineqs, base, options))
            return false;
        ret_range[i] = mrd_poly_extent(&poly);
    }
    return true;
}

bool
mrd_bound_both(const mrd_span *spans, size_t n, const mrd_ineq *ineqs, int64_t base,
               const mrd_bound_options *options, mrd_poly_range *ret_range)
{
    mrd_poly *forward = malloc((n == 0 ? 1 : n) * sizeof(*forward)), poly;
    bool ok = forward != NULL;

    anything(&poly, options->rate_max);
    for (size_t i = 0; ok && i < n; i++) {
        ok = step(&poly, &spans[i > 0 ? i - 1 : 0], &spans[i], ineqs, base, options);
        forward[i] = poly;
    }
    anything(&poly, options->rate_max);
    for (size_t i = n; ok && i-- > 0;) {
        /* For a run backward in time, dt is negative. The set has the same coordinates in both
         * directions. */
        ok = step(&poly, &spans[i + 1 < n ? i + 1 : i], &spans[i], ineqs, base, options);
        if (ok && (ok = mrd_poly_intersect(&forward[i], &poly)))
            ret_range[i] = mrd_poly_extent(&forward[i]);
    }
    free(forward);
    return ok;
}

size_t
mrd_bound_retreat(const mrd_span *earlier, size_t n_earlier, const mrd_span *later, size_t n_later,
                  const mrd_ineq *ineqs, int64_t base, const mrd_bound_options *options)
{
    const mrd_span *last = &later[n_later - 1];
    mrd_poly poly;

    anything(&poly, options->rate_max);
    for (size_t i = n_later; i-- > 0; last = &later[i]) {
        /* Only rounding can cause a contradiction here, because the run forward in time found
         * none. */
        if (!step(&poly, last, &later[i], ineqs, base, options))
            return 0;
    }
    for (size_t i = n_earlier; i-- > 0; last = &earlier[i]) {
        if (!step(&poly, last, &earlier[i], ineqs, base, options))
            return n_earlier - 1 - i;
    }
    return 0;
}
