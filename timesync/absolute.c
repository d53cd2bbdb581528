#include "timesync/absolute.h"

#include <math.h>
#include <stdlib.h>

static int
by_utc(const void *a, const void *b)
{
    const mrd_abs *x = a, *y = b;

    return x->utc.ns != y->utc.ns ? mrd_wall_after(x->utc, y->utc) - mrd_wall_before(x->utc, y->utc)
                                  : mrd_ev_after(x->at, y->at) - mrd_ev_before(x->at, y->at);
}

size_t
mrd_abs_order(mrd_abs *absolute, size_t n)
{
    size_t kept = 0;

    if (n > 0)
        qsort(absolute, n, sizeof(*absolute), by_utc);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || (mrd_wall_after(absolute[i].utc, absolute[kept - 1].utc) &&
                          mrd_ev_after(absolute[i].at, absolute[kept - 1].at)))
            absolute[kept++] = absolute[i];
    }
    return kept;
}

/* Returns the index of the last reading at or before the time `utc`, or SIZE_MAX if there is
 * none. */
static size_t
before(const mrd_abs *absolute, size_t n, mrd_wall_ns utc)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (!mrd_wall_after(absolute[mid].utc, utc))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo == 0 ? SIZE_MAX : lo - 1;
}

bool
mrd_abs_ineqs(const mrd_abs *server, size_t n, const mrd_abs *node, double w,
              mrd_stamp_source source, mrd_ineq ret[2])
{
    size_t i = before(server, n, node->utc);
    double a, b, f, ahead;
    int64_t base, offset, e;

    if (i == SIZE_MAX || i + 1 >= n || mrd_wall_diff(node->utc, server[i].utc) > MRD_ABS_NEAR ||
        mrd_wall_diff(server[i + 1].utc, node->utc) > MRD_ABS_NEAR)
        return false;
    a = (double) mrd_wall_diff(node->utc, server[i].utc) * 1e-9;
    b = (double) mrd_wall_diff(server[i + 1].utc, node->utc) * 1e-9;
    f = a / (a + b);
    /* offset of session time from absolute time, in ns */
    base = server[i].at.ns - server[i].utc.ns;
    ahead = f * (double) (server[i + 1].at.ns - server[i + 1].utc.ns - base);
    offset = base + llround(ahead) + node->utc.ns - node->at.ns;
    /* The node's uncertainty grows by 1,000 ppm of its value, because the two clocks may drift
     * apart within that time. */
    e = (int64_t) ceil((1 - f) * (double) server[i].e + f * (double) server[i + 1].e +
                       w * a * b / 2) +
        node->e + node->e / 1000 + 2;
    ret[0] =
        (mrd_ineq){ .t = node->at.ns, .v = offset + e, .position = 1, .source = (uint8_t) source };
    ret[1] = (mrd_ineq){
        .t = node->at.ns, .v = offset - e, .lower = true, .position = 1, .source = (uint8_t) source
    };
    return true;
}

mrd_dur_ns
mrd_abs_disagree(const mrd_align *align, const mrd_ineq pair[2])
{
    mrd_align_cursor cursor = { 0 };
    mrd_align_bound bound;
    mrd_sess_ns at;
    int64_t above, below;

    if (!mrd_align_map(align, &cursor, (mrd_local_ns){ pair[0].t }, &at, &bound) ||
        bound.quality <= MRD_ALIGN_SUSPECT)
        return 0;
    above = bound.lo.ns - pair[0].t - pair[0].v;
    below = pair[1].v - (bound.hi.ns - pair[0].t);
    return above > 0 ? above : below > 0 ? below : 0;
}
