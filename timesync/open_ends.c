/* Extends tables by segments without a bound (mrd_follow_open_ends()). These segments cover the
 * times before or after a break, if there are no packets on that side of the break. */
#include <math.h>
#include <stdlib.h>

#include "base/num.h"
#include "timesync/align_impl.h"
#include "timesync/follow.h"
#include "timesync/follow_impl.h"

typedef struct {
    /* the nearest break that moved the clock by an unknown amount; NULL if there is none */
    const mrd_epoch_break *at;
    /* the existing segment is valid up to this time, which is the nearest break of any kind */
    mrd_local_ns until;
} open_end;

/* Returns true if a break moved the node's own clock. Other breaks concern only the aggregator's
 * clock. */
static bool
moves_clock(const mrd_epoch_break *epoch_break)
{
    return epoch_break->cause == MRD_EPOCH_SUSPEND || epoch_break->cause == MRD_EPOCH_MIGRATION;
}

static open_end
end_before(const mrd_epoch_break *breaks, size_t n, int64_t evidence)
{
    open_end end = { NULL, { INT64_MIN } };

    for (size_t i = 0; i < n; i++) {
        const mrd_epoch_break *epoch_break = &breaks[i];

        if (epoch_break->before.ns > evidence)
            continue;
        end.until =
            mrd_local_after(epoch_break->before, end.until) ? epoch_break->before : end.until;
        if (moves_clock(epoch_break) &&
            (end.at == NULL || epoch_break->before.ns > end.at->before.ns))
            end.at = epoch_break;
    }
    return end;
}

static open_end
end_behind(const mrd_epoch_break *breaks, size_t n, int64_t evidence)
{
    open_end end = { NULL, { INT64_MAX } };

    for (size_t i = 0; i < n; i++) {
        const mrd_epoch_break *epoch_break = &breaks[i];

        if (epoch_break->before.ns <= evidence)
            continue;
        end.until =
            mrd_local_before(epoch_break->after, end.until) ? epoch_break->after : end.until;
        if (moves_clock(epoch_break) &&
            (end.at == NULL || epoch_break->after.ns < end.at->after.ns))
            end.at = epoch_break;
    }
    return end;
}

/* Returns a new bin at the time `at` of segment `seg`, extrapolated from the segment's bin
 * `bin`. */
static mrd_align_bin
carried(const mrd_align_segment *seg, const mrd_align_bin *bin, int64_t at)
{
    int64_t d = at - bin->at.ns, far = d < 0 ? -d : d;
    mrd_align_place place = mrd_align_extrapolate(seg, bin, d);
    double bend = seg->w * (double) far * 1e-9;
    mrd_align_bin align_bin = *bin;

    align_bin.at.ns = at;
    align_bin.lo = place.lo;
    align_bin.hi = place.hi;
    align_bin.est = place.est;
    align_bin.rate_lo = mrd_float_down(fmax((double) bin->rate_lo - bend, -MRD_ALIGN_RATE_MAX));
    align_bin.rate_hi = mrd_float_up(fmin((double) bin->rate_hi + bend, MRD_ALIGN_RATE_MAX));
    if (far > MRD_ALIGN_FAR && align_bin.quality > MRD_ALIGN_EXTRAPOLATED)
        align_bin.quality = MRD_ALIGN_EXTRAPOLATED;
    return align_bin;
}

/* Adds a segment with an unknown bound. Its offset is extrapolated from the neighbouring segment
 * and moved by the lost time. */
static mrd_err
add_unknown(mrd_align *to, const mrd_align_segment *as, const mrd_align_segment *seg,
            const mrd_align_bin *near, int64_t at, mrd_dur_ns moved)
{
    mrd_align_bin bin = { .at = { at }, .quality = MRD_ALIGN_UNALIGNED, .source = MRD_STAMP_NONE };
    int64_t line = seg->base + llround(mrd_align_extrapolate(seg, near, at - near->at.ns).est);
    int64_t base = mrd_sat_add(line, moved);
    mrd_err err;

    /* the lost time that the break states is impossibly long, so it is ignored */
    if (mrd_sat_abs(base) > ALIGN_BASE_MAX)
        base = line;
    err = mrd_align_segment_add(to, as->epoch, as->cause, base, 0);
    return err == MRD_OK ? mrd_align_bin_add(to, &bin) : err;
}

static int64_t
min3(int64_t a, int64_t b, int64_t c)
{
    a = a < b ? a : b;
    return a < c ? a : c;
}

/* Copies segment i of table `of` to `to`. Extends the copy back to the break `before` and up to the
 * break `behind`. If `at` of one of these is NULL, there is no such break. */
static mrd_err
add_segment(mrd_align *to, const mrd_align *of, size_t i, uint32_t epoch, const open_end *before,
            const open_end *behind)
{
    const mrd_align_segment *seg = &of->segments[i];
    const mrd_align_bin *bins = &of->bins[seg->first], *last = &bins[seg->count - 1];
    int64_t from = seg->from.ns, end = seg->to.ns;
    mrd_err err = mrd_align_segment_add(to, epoch, seg->cause, seg->base, seg->w);
    mrd_align_bin edge;

    if (err == MRD_OK && before->at != NULL && before->until.ns < bins->at.ns) {
        edge = carried(seg, bins, from = before->until.ns);
        err = mrd_align_bin_add(to, &edge);
    }
    for (size_t k = 0; err == MRD_OK && k < seg->count; k++)
        err = mrd_align_bin_add(to, &bins[k]);
    if (err == MRD_OK && behind->at != NULL && behind->until.ns > last->at.ns &&
        behind->until.ns > end) {
        edge = carried(seg, last, end = behind->until.ns);
        err = mrd_align_bin_add(to, &edge);
    }
    return err == MRD_OK ? mrd_align_segment_extent(to, from, end) : err;
}

static mrd_err
add_before(mrd_align *to, const mrd_align *of, const open_end *end)
{
    mrd_align_segment as = { .epoch = 0, .cause = MRD_EPOCH_START };
    const mrd_align_bin *near = &of->bins[of->segments[0].first];

    return add_unknown(to, &as, &of->segments[0], near,
                       min3(end->at->after.ns, end->until.ns - 1, near->at.ns - 1), -end->at->lost);
}

static mrd_err
add_behind(mrd_align *to, const mrd_align *of, const open_end *end)
{
    const mrd_align_segment *seg = &of->segments[of->segment_count - 1];
    const mrd_align_bin *near = &of->bins[seg->first + seg->count - 1];
    const mrd_align_segment *last = &to->segments[to->segment_count - 1];
    mrd_align_segment as = { .epoch = last->epoch + 1, .cause = end->at->cause };

    return add_unknown(to, &as, seg, near,
                       -min3(-end->at->before.ns, -last->to.ns - 1, -near->at.ns - 1),
                       end->at->lost);
}

static mrd_err
add_all(mrd_align *to, const mrd_align *of, const open_end *before, const open_end *behind)
{
    static const open_end closed = { NULL, { 0 } };
    uint32_t more = before->at != NULL;
    mrd_err err = more ? add_before(to, of, before) : MRD_OK;

    for (size_t i = 0; err == MRD_OK && i < of->segment_count; i++)
        err = add_segment(to, of, i, of->segments[i].epoch + more, i == 0 ? before : &closed,
                          i + 1 == of->segment_count ? behind : &closed);
    if (err == MRD_OK && behind->at != NULL)
        err = add_behind(to, of, behind);
    return err;
}

mrd_err
mrd_follow_open_ends(mrd_align **align, const mrd_epoch_break *breaks, size_t n)
{
    const mrd_align *of = *align;
    open_end before, behind;
    mrd_align *to;
    mrd_err err;

    if (of->bin_count == 0)
        return MRD_OK;
    before = end_before(breaks, n, of->segments[0].from.ns);
    behind = end_behind(breaks, n, of->segments[of->segment_count - 1].to.ns);
    if (before.at == NULL && behind.at == NULL)
        return MRD_OK;
    if ((to = mrd_align_new(of->name, of->clock_id)) == NULL)
        return MRD_NOMEM;
    if ((err = add_all(to, of, &before, &behind)) != MRD_OK) {
        mrd_align_free(to);
        return err;
    }
    mrd_align_free(*align);
    *align = to;
    return MRD_OK;
}
