#include "timesync/gap_bins.h"

#include <math.h>
#include <stdlib.h>

#include "timesync/follow_impl.h"

/* What is known about the offset at one time from one side of the gap. `line` is the offset if the
 * clock's rate did not change. `departure` is the largest assumed distance of the offset from
 * `line`. [lo, hi] is the resulting range of the offset. */
typedef struct {
    double lo, hi, line, departure;
} guess;

/* Adds the estimates of the hour after bin `at` to the box in reverse order, with negated times.
 * The box then predicts earlier times. */
static void
take_after(const mrd_gap_epoch *epoch, size_t at, mrd_rate_box *box)
{
    size_t last = at;

    mrd_rate_box_start(box);
    while (last + 1 < epoch->n && epoch->bins[last + 1].t0 - epoch->bins[at].t0 <=
                                      MRD_RATE_BOX_HISTORY + MRD_RATE_BOX_MINUTE)
        last++;
    for (size_t i = last + 1; i-- > at;)
        mrd_rate_box_add(box, -epoch->bins[i].t0, epoch->est[i].est);
}

/* Predicts the offset d ns after a bin, from what the box learned. `age` is the time from the box's
 * last point to the bin. Returns false if the box knows too little. In a box with negated times,
 * "after" means before, and rates have the other sign. */
static bool
continue_from(const mrd_smooth_bin *bin, const mrd_estimate *est, mrd_rate_box *box, mrd_dur_ns age,
              mrd_dur_ns d, guess *ret)
{
    mrd_rate_ahead ahead, since = { 0, 0 };
    double move;

    if (!mrd_rate_box_ahead(box, age + d, &ahead))
        return false;
    (void) mrd_rate_box_ahead(box, age, &since);
    move = ahead.rate * (double) d * 1e-9;
    ret->departure = ahead.departure + since.departure;
    ret->line = est->est + move;
    ret->lo = bin->range.lo + move - ret->departure;
    ret->hi = bin->range.hi + move + ret->departure;
    return true;
}

/* Makes the bin at the time t in the gap after bin i of the epoch. `from_a` and `from_b` are the
 * predictions from the begin and from the end of the gap. Returns false if these contradict each
 * other. */
static bool
make_bin(const mrd_gap_epoch *epoch, size_t i, int64_t t, const guess *from_a, const guess *from_b,
         mrd_align_bin *ret)
{
    const mrd_smooth_bin *a = &epoch->bins[i], *b = a + 1;
    const mrd_estimate *est = &epoch->est[i];
    double span = (double) (b->t0 - a->t0) * 1e-9, f = (double) (t - a->t0) * 1e-9 / span;
    double widen = epoch->w * span * span * f * (1 - f) / 2;
    double room_a = epoch->w * span * f, room_b = epoch->w * span * (1 - f);
    double lo = a->range.lo + (b->range.lo - a->range.lo) * f - widen;
    double hi = a->range.hi + (b->range.hi - a->range.hi) * f + widen;

    lo = fmax(lo, fmax(from_a->lo, from_b->lo));
    hi = fmin(hi, fmin(from_a->hi, from_b->hi));
    *ret = (mrd_align_bin){
        .at = { t },
        .lo = lo,
        .hi = hi,
        .est = from_a->line * (1 - f) + from_b->line * f,
        .rate = (float) (est[0].rate * (1 - f) + est[1].rate * f),
        .rate_lo = mrd_float_down(fmax(a->range.rate_lo - room_a, b->range.rate_lo - room_b)),
        .rate_hi = mrd_float_up(fmin(a->range.rate_hi + room_a, b->range.rate_hi + room_b)),
        .noise = (float) (fmin(from_a->departure, from_b->departure) / 2),
    };
    return lo <= hi && ret->rate_lo <= ret->rate_hi;
}

/* A gap between two bins, and what was learned about the clock before and after the gap. */
typedef struct {
    const mrd_gap_epoch *epoch;
    size_t i; /* the gap begins at bin i and ends at bin i + 1 */
    mrd_rate_box *before, *after;
} gap;

/* Makes the bin at the time t in the gap. Returns false if too little is known, or if the two sides
 * contradict each other. */
static bool
bin_at(const gap *g, int64_t t, mrd_align_bin *ret)
{
    const mrd_smooth_bin *a = &g->epoch->bins[g->i], *b = a + 1;
    const mrd_estimate *est = &g->epoch->est[g->i];
    guess from_a, from_b;

    return continue_from(a, &est[0], g->before, a->t0 - mrd_rate_box_last(g->before), t - a->t0,
                         &from_a) &&
           continue_from(b, &est[1], g->after, -b->t0 - mrd_rate_box_last(g->after), b->t0 - t,
                         &from_b) &&
           make_bin(g->epoch, g->i, t, &from_a, &from_b, ret);
}

/* Returns true if the predictions from both sides agree in the whole gap. If the clock's rate
 * jumped in the gap, they agree only near the jump, and a bin there could exclude the true
 * offset. */
static bool
agrees(const gap *g)
{
    int64_t from = g->epoch->bins[g->i].t0, to = g->epoch->bins[g->i + 1].t0;
    mrd_align_bin bin;

    for (int64_t t = from + 1; t < to - 1; t += MRD_RATE_BOX_EVERY)
        if (!bin_at(g, t, &bin))
            return false;
    return bin_at(g, to - 1, &bin);
}

mrd_err
mrd_gap_fill(const mrd_gap_epoch *epoch, size_t i, mrd_rate_box *before, uint8_t quality,
             uint8_t source, mrd_align *align)
{
    int64_t from = epoch->bins[i].t0, to = epoch->bins[i + 1].t0;
    gap g = { epoch, i, before, NULL };
    mrd_align_bin bin;
    mrd_err err = MRD_OK;

    if (to - from < MRD_GAP_MIN)
        return MRD_OK;
    if ((g.after = calloc(1, sizeof(*g.after))) == NULL)
        return MRD_NOMEM;
    take_after(epoch, i + 1, g.after);
    if (agrees(&g))
        for (int64_t t = from + MRD_RATE_BOX_EVERY; err == MRD_OK && to - t > MRD_ALIGN_FAR;
             t += MRD_RATE_BOX_EVERY) {
            if (!bin_at(&g, t, &bin))
                continue;
            bin.quality = quality < MRD_ALIGN_EXTRAPOLATED ? quality : MRD_ALIGN_EXTRAPOLATED;
            bin.source = source;
            err = mrd_align_bin_add(align, &bin);
        }
    free(g.after);
    return err;
}
