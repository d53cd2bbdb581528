/* Computes the bounds of one segment of a process's clock. Uses the set-membership filter of
 * timesync/bound.h, with collectives in place of packets. */
#include "base/obj.h"
#include "base/vec.h"
#include "timesync/bound.h"
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>

/* maximum number of bins in one segment; the first and the last sample add up to two more */
#define BINS_MAX 512
#define FAR_NS   1e11 /* a bound of at least this width (ns) is treated as no bound */
/* The fitted line follows a step of the clock a little, so that residuals are too small. So
 * find_reach() multiplies residuals by at most 1 + EDGE. */
#define EDGE    6
#define LASTING 3 /* number of consecutive samples that show that a clock has left its line */

static const double models[] = { MRD_BOUND_W, 5 * MRD_BOUND_W, 25 * MRD_BOUND_W };

/* Returns the signed distance of a sample (one collective of the process) from the fitted line, in
 * ns. */
static double
residual(const coll_sample *sample, const coll_line *line)
{
    return sample->at - sample->end - line->a - line->b * sample->end;
}

/* Returns the largest value that all residuals of LASTING consecutive samples exceed in the same
 * direction. A participant that leaves a collective late affects one sample, but a clock that left
 * its line affects all later samples. The result is at least the median residual, because outliers
 * can bend the line by this amount. `scratch` has room for line->n values. */
static double
lasting_residual(const coll_sample *sample, const coll_line *line, double *scratch)
{
    double most;

    for (size_t i = 0; i < line->n; i++)
        scratch[i] = fabs(residual(&sample[i], line));
    most = mrd_coll_median(scratch, line->n);
    for (size_t i = 0; i + LASTING <= line->n; i++) {
        double up = INFINITY, down = INFINITY;

        for (size_t k = i; k < i + LASTING; k++) {
            up = fmin(up, residual(&sample[k], line));
            down = fmin(down, -residual(&sample[k], line));
        }
        most = fmax(most, fmax(up, down));
    }
    return most;
}

/*
 * Stores in ret_reach[i] how far the clock may have been from the line at sample i, in ns.
 *
 *   - The base is the largest lasting residual. If there are fewer than three samples, the line
 *     fits them exactly, so MRD_COLL_RESIDUAL_MAX is assumed.
 *   - The residuals must be scaled up, because a step of the clock also bends the fitted line. A
 *     step by A bends it by at most EDGE / 3 * A over its length. The step leaves a residual of at
 *     least A / 2, which the bend reduces within the next LASTING samples.
 *   - The first and the last LASTING samples are too few to show what lasts, so each of their
 *     residuals counts. They also count for the next sample, because the clock may change at once.
 */
static void
find_reach(const coll_sample *sample, const coll_line *line, double *ret_reach)
{
    size_t count = line->n;
    double gap = 0, span = sample[count - 1].end - sample[0].end, other = sample[0].reach, head = 0,
           tail = 0;
    double lasting = count < 3             ? MRD_COLL_RESIDUAL_MAX
                     : count < 4 * LASTING ? line->residual
                                           : lasting_residual(sample, line, ret_reach);
    double factor;

    for (size_t i = 1; i < count; i++) {
        gap = fmax(gap, sample[i].end - sample[i > LASTING ? i - LASTING : 0].end);
        other = fmax(other, sample[i].reach);
    }
    factor = span > 0 ? 1 + EDGE * fmin(gap / span, 1) : 1 + EDGE;
    for (size_t i = 0; i < LASTING && i < count; i++) {
        head = fmax(head, fabs(residual(&sample[i], line)));
        tail = fmax(tail, fabs(residual(&sample[count - 1 - i], line)));
    }
    for (size_t i = 0; i < count; i++) {
        double here =
            fmax(lasting, fmax(i <= LASTING ? head : 0, count - i <= LASTING + 1 ? tail : 0));

        ret_reach[i] = ceil(fmin(other + here * factor, MRD_COLL_FAR)) + 1;
    }
}

/*
 * Stores the inequalities of one sample in `ret` and returns their number (0 to 2). Each is relaxed
 * by `by` ns. `first` is the first sample of the segment. A sample that began before the end of
 * `first` gives no upper inequality, because a clock may have been stepped in between.
 */
static size_t
ineqs_of(const coll_sample *sample, const coll_sample *first, double by, mrd_ineq ret[2])
{
    size_t n = 0;

    if (sample->begin >= first->end && isfinite(sample->up))
        ret[n++] = (mrd_ineq){ .t = llround(sample->begin),
                               .v = (int64_t) ceil(sample->up - sample->begin + by) };
    if (sample->down >= first->at && isfinite(sample->down))
        ret[n++] = (mrd_ineq){ .t = llround(sample->end),
                               .v = (int64_t) floor(sample->down - sample->end - by),
                               .lower = true };
    return n;
}

typedef struct {
    mrd_ineq *ineqs;
    double *reach; /* possible error in ns: first of each sample, later of each bin */
    mrd_span *spans;
    mrd_poly_range *ranges;
    size_t n_spans;
} work;

static bool
work_alloc(work *w, size_t n)
{
    *w = (work){ .ineqs = malloc((2 * n + 1) * sizeof(*w->ineqs)),
                 .reach = malloc((n + 1) * sizeof(*w->reach)),
                 .spans = malloc((n + 2) * sizeof(*w->spans)),
                 .ranges = malloc((n + 2) * sizeof(*w->ranges)) };
    return w->ineqs != NULL && w->reach != NULL && w->spans != NULL && w->ranges != NULL;
}

static void
work_free(work *w)
{
    free(w->ineqs);
    free(w->reach);
    free(w->spans);
    free(w->ranges);
}

/* Groups the samples of a process into bins of equal length. The time of a bin is the end of its
 * last collective. The first sample is a bin of its own, so the bins reach from the first to the
 * last sample. */
static void
fill_bins(work *w, const coll_sample *sample, const coll_line *line)
{
    size_t n = line->n, k = 0;
    double length = (sample[n - 1].end - sample[0].end) / BINS_MAX, until = sample[0].end;

    length = fmin(fmax(length, 0), (double) MRD_BIN_NS);
    w->n_spans = 0;
    for (size_t i = 0; i < n; i++) {
        double by = w->reach[i];
        /* A participant that left late has a large residual, which relaxes only the inequalities of
         * its own sample. `by` is added, because the line itself may be wrong by `by` ns. */
        size_t more =
            ineqs_of(&sample[i], &sample[0], by + fabs(residual(&sample[i], line)), w->ineqs + k);
        mrd_span *at = w->n_spans == 0 ? NULL : &w->spans[w->n_spans - 1];

        if (at == NULL || sample[i].end > until) {
            w->spans[w->n_spans++] =
                (mrd_span){ .t0 = llround(sample[i].end), .first = k, .n = more };
            until = sample[i].end + (i == 0 ? 0 : length);
            w->reach[w->n_spans - 1] = by;
        } else {
            at->t0 = llround(sample[i].end);
            at->n += more;
            w->reach[w->n_spans - 1] = fmax(w->reach[w->n_spans - 1], by);
        }
        k += more;
    }
}

static mrd_err
room(mrd_coll_process *to, size_t bins)
{
    size_t cap = to->bin_count;

    if (!MRD_VEC_ROOM(to->bins, to->bin_count, cap, bins) ||
        !MRD_VEC_NEXT(to->segments, to->segment_count))
        return MRD_NOMEM;
    return MRD_OK;
}

static void
add_bins(const work *w, const coll_line *line, double base, int64_t origin, mrd_coll_process *to)
{
    for (size_t i = 0; i < w->n_spans; i++) {
        const mrd_poly_range *range = &w->ranges[i];
        double t = (double) w->spans[i].t0, est = line->a + line->b * t - base;
        double rate = line->b * 1e9, by = w->reach[i];
        mrd_align_bin bin = { .at = { origin + w->spans[i].t0 },
                              .est = est,
                              .lo = fmin(range->lo - by, est - by),
                              .hi = fmax(range->hi + by, est + by),
                              .rate = (float) rate,
                              .rate_lo = (float) fmin(range->rate_lo, rate),
                              .rate_hi = (float) fmax(range->rate_hi, rate),
                              .noise = (float) line->residual,
                              .quality = MRD_ALIGN_GOOD };

        if (bin.hi - bin.lo > FAR_NS)
            to->unbounded = true;
        to->bound_ns = llround(fmax(ceil(fmax(bin.hi - est, est - bin.lo)), (double) to->bound_ns));
        if (to->bin_count > 0 && bin.at.ns <= to->bins[to->bin_count - 1].at.ns)
            continue;
        to->bins[to->bin_count++] = bin;
    }
}

/* Adds a segment in which nothing is known about the clock. Times in this segment, and in the gaps
 * next to it, have no bound. */
static void
add_unknown(const coll_sample *sample, const mrd_coll_segment *segment, double base, int64_t origin,
            mrd_coll_process *to)
{
    double est = sample->at - sample->end - base;

    to->bins[to->bin_count++] = (mrd_align_bin){ .at = { origin + llround(sample->end) },
                                                 .est = est,
                                                 .lo = est - 10 * FAR_NS,
                                                 .hi = est + 10 * FAR_NS,
                                                 .rate_lo = (float) -MRD_ALIGN_RATE_MAX,
                                                 .rate_hi = (float) MRD_ALIGN_RATE_MAX,
                                                 .quality = MRD_ALIGN_SUSPECT };
    to->segments[to->segment_count] = *segment;
    to->segments[to->segment_count++].count = 1;
    to->unbounded = true;
}

/* Computes the ranges of all bins with the first value of `models` under which no inequality
 * contradicts another. Returns false if there is no such value, or if the drift is impossible. */
static bool
fit(work *w, const coll_line *line, double base, mrd_coll_segment *segment)
{
    if (fabs(line->b) * 1e9 > MRD_BOUND_RATE_MAX)
        return false;
    for (size_t m = 0; m < MRD_COUNT(models); m++) {
        mrd_bound_options options = { models[m], MRD_BOUND_RATE_MAX };

        segment->w = options.w;
        if (mrd_bound_both(w->spans, w->n_spans, w->ineqs, (int64_t) base, &options, w->ranges))
            return true;
    }
    return false;
}

mrd_err
mrd_coll_bound(const coll_sample *sample, const coll_line *line, int64_t origin, int64_t shift,
               coll_seams seams, mrd_coll_process *to, bool *ret_fits)
{
    const coll_sample *v = &sample[line->first], *last = &v[line->n - 1];
    double base = floor(v->at - v->end), from = v->end, until = last->end;
    mrd_coll_segment segment = { .base = shift + (int64_t) base, .first = to->bin_count };
    work w = { 0 };

    if (!work_alloc(&w, line->n) || room(to, line->n + 2) != MRD_OK) {
        work_free(&w);
        return MRD_NOMEM;
    }
    find_reach(v, line, w.reach);
    from += seams.back_before + (seams.before ? w.reach[0] : 0);
    until -= seams.back_after + (seams.after ? w.reach[line->n - 1] : 0);
    segment.from = origin + llround(from);
    segment.to = origin + llround(until);
    for (size_t i = 0; i < line->n; i++)
        segment.reach = llround(fmax((double) segment.reach, w.reach[i]));
    fill_bins(&w, v, line);
    *ret_fits = fit(&w, line, base, &segment);
    if (*ret_fits && from <= until && from < v->end + MRD_SEC && until > last->end - MRD_SEC) {
        add_bins(&w, line, base, origin, to);
        segment.count = to->bin_count - segment.first;
        to->segments[to->segment_count++] = segment;
    } else if (seams.before || seams.after || *ret_fits) {
        segment.from = segment.to = origin + llround(v->end);
        add_unknown(v, &segment, base, origin, to);
    }
    work_free(&w);
    return MRD_OK;
}
