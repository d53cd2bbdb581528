/* Bounds of one segment from its inequalities: the set-membership bound of bound.h, with
 * collectives instead of packets. */
#include "base/obj.h"
#include "base/vec.h"
#include "timesync/bound.h"
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>

#define BINS_MAX 512  /* of one segment, plus at most two */
#define FAR_NS   1e11 /* a bound of this width is as good as none */
#define EDGE     6    /* see reach() */

static const double models[] = { MRD_BOUND_W, 5 * MRD_BOUND_W, 25 * MRD_BOUND_W };

/*
 * Returns how far the clock may have been from the line: its largest residual, or more where
 * samples are far apart. A step by A somewhere bends a line of least residuals by at most EDGE / 3
 * * A over its length. It leaves a residual of A / 2 or more. Immediately after a sample the clock
 * may already be as at the next one.
 */
static double
reach(const coll_sample *s, size_t n, double residual)
{
    double gap = 0, span = s[n - 1].end - s[0].end, other = s[0].reach;

    for (size_t i = 1; i < n; i++) {
        gap = fmax(gap, s[i].end - s[i - 1].end);
        other = fmax(other, s[i].reach);
    }
    other += residual * (1 + (span > 0 ? EDGE * gap / span : EDGE));
    return ceil(fmin(other, MRD_COLL_FAR)) + 1;
}

/*
 * Makes the inequalities of one sample. A begin before the first end of the segment is not used,
 * because the clock, or the reference's, may have been stepped in between.
 */
static size_t
ineqs_of(const coll_sample *s, const coll_sample *first, double by, mrd_ineq ret[2])
{
    size_t n = 0;

    if (s->begin >= first->end && isfinite(s->up))
        ret[n++] = (mrd_ineq){ .t = llround(s->begin), .v = (int64_t) ceil(s->up - s->begin + by) };
    if (s->down >= first->at && isfinite(s->down))
        ret[n++] = (mrd_ineq){ .t = llround(s->end),
                               .v = (int64_t) floor(s->down - s->end - by),
                               .lower = true };
    return n;
}

typedef struct {
    mrd_ineq *ineqs;
    mrd_span *spans;
    mrd_poly_range *ranges;
    size_t n_spans;
} work;

static bool
work_alloc(work *w, size_t n)
{
    *w = (work){ .ineqs = malloc((2 * n + 1) * sizeof(*w->ineqs)),
                 .spans = malloc((n + 2) * sizeof(*w->spans)),
                 .ranges = malloc((n + 2) * sizeof(*w->ranges)) };
    return w->ineqs != NULL && w->spans != NULL && w->ranges != NULL;
}

static void
work_free(work *w)
{
    free(w->ineqs);
    free(w->spans);
    free(w->ranges);
}

/* Bins end at an end of a collective. The first and the last sample have bins at their ends. */
static void
fill_bins(work *w, const coll_sample *s, size_t n, double by)
{
    double length = (s[n - 1].end - s[0].end) / BINS_MAX, until = s[0].end;
    size_t k = 0;

    length = fmin(fmax(length, 0), (double) MRD_BIN_NS);
    w->n_spans = 0;
    for (size_t i = 0; i < n; i++) {
        size_t more = ineqs_of(&s[i], &s[0], by, w->ineqs + k);
        mrd_span *at = w->n_spans == 0 ? NULL : &w->spans[w->n_spans - 1];

        if (at == NULL || s[i].end > until) {
            w->spans[w->n_spans++] = (mrd_span){ .t0 = llround(s[i].end), .first = k, .n = more };
            until = s[i].end + (i == 0 ? 0 : length);
        } else {
            at->t0 = llround(s[i].end);
            at->n += more;
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
add_bins(const work *w, const coll_line *line, double by, double base, int64_t origin,
         mrd_coll_process *to)
{
    for (size_t i = 0; i < w->n_spans; i++) {
        const mrd_poly_range *r = &w->ranges[i];
        double t = (double) w->spans[i].t0, est = line->a + line->b * t - base;
        double rate = line->b * 1e9;
        mrd_align_bin bin = { .at = { origin + w->spans[i].t0 },
                              .est = est,
                              .lo = fmin(r->lo - by, est - by),
                              .hi = fmax(r->hi + by, est + by),
                              .rate = (float) rate,
                              .rate_lo = (float) fmin(r->rate_lo, rate),
                              .rate_hi = (float) fmax(r->rate_hi, rate),
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

/* Adds a segment without knowledge of its clock: times in it, and in the gaps next to it, have no
 * bound. */
static void
add_unknown(const coll_sample *s, const mrd_coll_segment *segment, double base, int64_t origin,
            mrd_coll_process *to)
{
    double est = s->at - s->end - base;

    to->bins[to->bin_count++] = (mrd_align_bin){ .at = { origin + llround(s->end) },
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

/* Fits a model. Returns false if none fits, or for an impossible drift. */
static bool
fit(work *w, const coll_line *line, double base, mrd_coll_segment *segment)
{
    if (fabs(line->b) * 1e9 > MRD_BOUND_RATE_MAX)
        return false;
    for (size_t m = 0; m < MRD_COUNT(models); m++) {
        mrd_bound_options o = { models[m], MRD_BOUND_RATE_MAX };

        segment->w = o.w;
        if (mrd_bound_both(w->spans, w->n_spans, w->ineqs, (int64_t) base, &o, w->ranges))
            return true;
    }
    return false;
}

mrd_err
mrd_coll_bound(const coll_sample *s, const coll_line *line, int64_t origin, int64_t shift,
               coll_seams seams, mrd_coll_process *to, bool *ret_fits)
{
    const coll_sample *v = &s[line->first], *last = &v[line->n - 1];
    double by = reach(v, line->n, line->residual), base = floor(v->at - v->end);
    double from = v->end + (seams.before ? by + seams.back_before : 0);
    double until = last->end - (seams.after ? by + seams.back_after : 0);
    mrd_coll_segment segment = { .base = shift + (int64_t) base,
                                 .first = to->bin_count,
                                 .reach = llround(by),
                                 .from = origin + llround(from),
                                 .to = origin + llround(until) };
    work w = { 0 };

    if (!work_alloc(&w, line->n) || room(to, line->n + 2) != MRD_OK) {
        work_free(&w);
        return MRD_NOMEM;
    }
    fill_bins(&w, v, line->n, by);
    *ret_fits = fit(&w, line, base, &segment);
    if (*ret_fits && from <= until && from < v->end + MRD_SEC && until > last->end - MRD_SEC) {
        add_bins(&w, line, by, base, origin, to);
        segment.count = to->bin_count - segment.first;
        to->segments[to->segment_count++] = segment;
    } else if (seams.before || seams.after) {
        segment.from = segment.to = origin + llround(v->end);
        add_unknown(v, &segment, base, origin, to);
    }
    work_free(&w);
    return MRD_OK;
}
