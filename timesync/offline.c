/* Computes the table of a finished session. The live filter (bound.h) first finds the epochs and
 * drops wrong packets. Then the bounds of each epoch are computed in both directions of time. */
#include "timesync/follow.h"

#include "base/vec.h"
#include "timesync/bound_impl.h"
#include "timesync/follow_impl.h"
#include "timesync/gap_bins.h"

#include <stdlib.h>
#include <string.h>

/* ---- Collecting the packets that the live filter accepts ---- */

typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause;
    int64_t base;
    size_t first, n; /* the bins of the epoch are spans[first] to spans[first + n - 1] */
    /* true if the epoch's packets agree only with a large w, the assumed change of the rate; see
     * solve_epoch() */
    bool forced;
} off_epoch;

typedef struct {
    mrd_span *spans;
    mrd_ineq *ineqs;
    off_epoch *epochs;
    size_t span_n, ineq_n, epoch_n, epoch_cap;
    mrd_err err;
} collect;

static void
collect_emit(void *self, const mrd_bound_bin *bin)
{
    collect *c = self;

    if (c->epoch_n == 0 || c->epochs[c->epoch_n - 1].epoch != bin->epoch) {
        if (!MRD_VEC_ROOM(c->epochs, c->epoch_n, c->epoch_cap, 1)) {
            c->err = MRD_NOMEM;
            return;
        }
        c->epochs[c->epoch_n++] =
            (off_epoch){ bin->epoch, bin->cause, bin->base, c->span_n, 0, false };
    }
    c->epochs[c->epoch_n - 1].n++;
    c->spans[c->span_n++] = (mrd_span){ bin->t0, c->ineq_n, bin->n };
    memcpy(c->ineqs + c->ineq_n, bin->ineqs, bin->n * sizeof(*c->ineqs));
    c->ineq_n += bin->n;
}

/* Runs the live filter over all inequalities with the same w. Stores the epochs that the filter
 * finds and the packets that it accepts in *c. */
static mrd_err
collect_run(collect *c, const mrd_follow_input *in, double w, mrd_bound_counts *ret_counts)
{
    mrd_bound_options options = { w, in->options->rate_max };
    mrd_bound *bound = mrd_bound_new(&options, collect_emit, c);
    const mrd_ineq *ineqs = in->ineqs;
    const mrd_epoch_break *breaks = in->breaks;
    size_t n = in->n_ineqs, next = 0;

    /* n inequalities give at most n bins, so n + 1 entries are enough. */
    c->spans = malloc((n + 1) * sizeof(*c->spans));
    c->ineqs = malloc((n + 1) * sizeof(*c->ineqs));
    if (bound == NULL || c->spans == NULL || c->ineqs == NULL) {
        mrd_bound_free(bound);
        return MRD_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        for (; next < in->n_breaks && ineqs[i].t >= breaks[next].before.ns; next++)
            mrd_bound_break(bound, breaks[next].cause, breaks[next].keep_rate,
                            breaks[next].before.ns - breaks[next].after.ns + breaks[next].lost);
        /* The break is between its times `after` and `before`. A packet in that range belongs to no
         * epoch. */
        if (next < in->n_breaks && ineqs[i].t > breaks[next].after.ns)
            continue;
        mrd_bound_add(bound, &ineqs[i]);
    }
    mrd_bound_flush(bound);
    *ret_counts = mrd_bound_counters(bound);
    mrd_bound_free(bound);
    return c->err;
}

static void
collect_fini(collect *c)
{
    free(c->spans);
    free(c->ineqs);
    free(c->epochs);
}

/* ---- Solving one epoch ---- */

#define RETREAT_BINS 120 /* number of bins that are checked on each side of a break */

/* Drops the last bins of an epoch if they may be after the break that ended it. The filter
 * sometimes detects a contradiction only some bins after the break. */
static void
retreat(const collect *c, off_epoch *earlier, const off_epoch *later, double w,
        const mrd_follow_options *options)
{
    mrd_bound_options bound_options = { w, options->rate_max };
    size_t back = earlier->n < RETREAT_BINS ? earlier->n : RETREAT_BINS;
    size_t ahead = later->n < RETREAT_BINS ? later->n : RETREAT_BINS, give;

    if (later->cause != MRD_EPOCH_CONTRADICTION)
        return;
    give = mrd_bound_retreat(c->spans + earlier->first + earlier->n - back, back,
                             c->spans + later->first, ahead, c->ineqs, later->base, &bound_options);
    earlier->n -= give < earlier->n ? give : earlier->n - 1;
}

typedef struct {
    mrd_smooth_bin *bins;
    mrd_poly_range *ranges;
    /* like `ranges`, but computed with the smallest w for which no packets contradict each other */
    mrd_poly_range *calm;
    mrd_estimate *est;
} work;

static mrd_err
estimate(const collect *c, const off_epoch *epoch, const mrd_follow_options *options, work *k)
{
    double h;

    for (size_t i = 0; i < epoch->n; i++) {
        const mrd_span *span = &c->spans[epoch->first + i];
        mrd_smooth_bin *bin = &k->bins[i];

        bin->t0 = span->t0;
        bin->range = k->ranges[i];
        mrd_span_envelope(span, c->ineqs, epoch->base,
                          (bin->range.rate_lo + bin->range.rate_hi) / 2, &bin->up, &bin->down);
    }
    if ((h = mrd_smooth_half(k->bins, epoch->n)) < 0)
        return MRD_NOMEM;
    return mrd_smooth_both(k->bins, epoch->n, h, options->w_estimate, k->est);
}

#define W_ROUNDS 6
/* with this w (ppb/s), the packets of a healthy oscillator do not contradict each other */
#define W_STEADY 1000.0

/* Returns the smallest w to try for an epoch. A few bins a minute do not show how the rate changes
 * in between, so the result is then at least w_live, as in adapt_w(). */
static double
least_w(const mrd_span *spans, size_t n, const mrd_follow_options *options)
{
    int64_t from = n == 0 ? 0 : spans[0].t0, to = n == 0 ? 0 : spans[n - 1].t0;

    return to - from > MRD_FOLLOW_WINDOW && (double) n < mrd_follow_dense(from, to)
               ? fmax(options->w, options->w_live)
               : options->w;
}

/*
 * Computes the bound and the estimate of an epoch with the smallest w for which
 *
 *   - w is at least least_w(),
 *   - w is at least 4 times the bend of the estimate, up to MRD_FOLLOW_W_MAX (noise alone bends
 *     the estimate of a congested path, so the bend cannot raise w further), and
 *   - no packets contradict each other.
 *
 * Sets epoch->forced if packets agree only with a w above W_STEADY. Such packets may be from both
 * sides of a step of the clock, and the large w only hides the step.
 */
static mrd_err
solve_epoch(const collect *c, off_epoch *epoch, const mrd_follow_options *options, work *k,
            double *ret_w)
{
    const mrd_span *spans = c->spans + epoch->first;
    mrd_bound_options bound_options = { least_w(spans, epoch->n, options), options->rate_max };
    mrd_err err;

    for (int round = 0; round < W_ROUNDS; round++) {
        double need;

        if (!mrd_bound_both(spans, epoch->n, c->ineqs, epoch->base, &bound_options, k->ranges)) {
            bound_options.w *= 2;
            epoch->forced = bound_options.w > W_STEADY;
            continue;
        }
        if ((err = estimate(c, epoch, options, k)) != MRD_OK)
            return err;
        need = fmin(4 * mrd_smooth_bend(k->bins, k->est, epoch->n), MRD_FOLLOW_W_MAX);
        *ret_w = bound_options.w;
        if (need <= bound_options.w)
            return MRD_OK;
        bound_options.w = need;
    }
    /* No round found a sufficient w, so use the last w, but at least w_live. If the run in both
     * directions fails with it, use the result of the forward run. The sets of that run are not
     * empty, because the filter collected the packets in the same way. */
    bound_options.w = fmax(options->w_live, *ret_w);
    *ret_w = bound_options.w;
    if (!mrd_bound_both(spans, epoch->n, c->ineqs, epoch->base, &bound_options, k->ranges) &&
        !mrd_bound_forward(spans, epoch->n, c->ineqs, epoch->base, &bound_options, k->ranges))
        return MRD_CLOCK;
    return estimate(c, epoch, options, k);
}

/* Runs the jump test over a finished epoch. Marks bins within MRD_FOLLOW_SUSPECT before and after
 * an alarm as suspect. */
static void
mark_jumps(const work *k, size_t n, double h, uint8_t *quality, mrd_follow_report *report)
{
    mrd_cusum cusum = { 0, 0 };

    for (size_t i = 1; i < n; i++) {
        const mrd_smooth_bin *bin = &k->bins[i];

        if (!mrd_cusum_add(&cusum,
                           mrd_bin_surprise(bin->up, bin->down, h, k->est[i].est, k->est[i].noise)))
            continue;
        report->jumps++;
        for (size_t j = i; j-- > 0 && bin->t0 - k->bins[j].t0 < MRD_FOLLOW_SUSPECT;)
            quality[j] = MRD_ALIGN_SUSPECT;
        for (size_t j = i; j < n && k->bins[j].t0 - bin->t0 < MRD_FOLLOW_SUSPECT; j++)
            quality[j] = MRD_ALIGN_SUSPECT;
    }
}

/* a bound is suspect if its width is below this share of narrowest(), minus SQUEEZED_LESS */
#define SQUEEZED      0.97
#define SQUEEZED_LESS 100.0 /* ns; allows for the uncertainty of stamps */

/*
 * Returns the smallest distance in ns between the upper and the lower inequality of any bin.
 * Returns 0 if no bin has both. Also returns 0 if there are inequalities from absolute time,
 * because they may contain no delay.
 */
static double
narrowest(const collect *c, const off_epoch *epoch, const work *k)
{
    double least = INFINITY;

    for (size_t i = 0; i < epoch->n; i++) {
        const mrd_span *span = &c->spans[epoch->first + i];

        if (mrd_ineqs_source(c->ineqs + span->first, span->n) > MRD_STAMP_UDP_KERNEL)
            return 0;
        if (!isnan(k->bins[i].up) && !isnan(k->bins[i].down))
            least = fmin(least, k->bins[i].up - k->bins[i].down);
    }
    return isfinite(least) ? fmax(least, 0) : 0;
}

/* Computes the ranges (work.calm) with the smallest w at which the packets agree. Begins with
 * w_estimate, and doubles w up to the epoch's w. */
static void
calm_ranges(const collect *c, const off_epoch *epoch, const mrd_follow_options *options, double w,
            work *k)
{
    mrd_bound_options bound_options = { options->w_estimate, options->rate_max };

    while (bound_options.w < w && !mrd_bound_both(c->spans + epoch->first, epoch->n, c->ineqs,
                                                  epoch->base, &bound_options, k->calm))
        bound_options.w *= 2;
    if (bound_options.w >= w)
        memcpy(k->calm, k->ranges, epoch->n * sizeof(*k->calm));
}

/*
 * Marks bins as suspect if their bound is too narrow for a steady clock. Every packet takes at
 * least the smallest delay of its direction. So the offset of a steady clock can be moved by that
 * delay, up or down, and still fits all packets. Its bound is then at least as wide as both
 * smallest delays together. A narrower bound means that the bin has packets from before and after a
 * step, and the clock can be outside of this bound. A large w would widen the bound there and hide
 * the step, so the ranges with the smallest w (`calm`) are tested.
 */
static void
mark_squeezed(const collect *c, const off_epoch *epoch, const work *k, uint8_t *quality)
{
    double enough = SQUEEZED * narrowest(c, epoch, k) - SQUEEZED_LESS;

    for (size_t i = 0; i < epoch->n; i++) {
        if (k->calm[i].hi - k->calm[i].lo >= enough)
            continue;
        for (size_t j = i > 0 ? i - 1 : 0; j <= i + 1 && j < epoch->n; j++)
            quality[j] = MRD_ALIGN_SUSPECT;
    }
}

/* Returns true if an epoch is unreliable. Its packets contradict each other often or agree only
 * with a large w, or the epoch is short and a contradiction began or ended it. */
static bool
unsteady(const collect *c, const off_epoch *epoch, const mrd_bound_counts *counts)
{
    const off_epoch *all = c->epochs;
    size_t i = (size_t) (epoch - all);
    bool ended = i + 1 < c->epoch_n && all[i + 1].cause == MRD_EPOCH_CONTRADICTION;
    int64_t length = c->spans[epoch->first + epoch->n - 1].t0 - c->spans[epoch->first].t0;

    return mrd_counts_distrusted(counts) || epoch->forced ||
           (length < MRD_FOLLOW_SUSPECT && (ended || epoch->cause == MRD_EPOCH_CONTRADICTION));
}

/* Stores the local times of the first and the last packet of an epoch. */
static void
extent(const collect *c, const off_epoch *epoch, int64_t *ret_from, int64_t *ret_to)
{
    const mrd_span *a = &c->spans[epoch->first], *b = &c->spans[epoch->first + epoch->n - 1];

    mrd_ineqs_extent(c->ineqs + a->first, a->n, ret_from, &(int64_t){ 0 });
    mrd_ineqs_extent(c->ineqs + b->first, b->n, &(int64_t){ 0 }, ret_to);
}

/* Adds the bins of an epoch to the table, and bins in its gaps. */
static mrd_err
write_bins(const collect *c, const off_epoch *epoch, const work *k, double w,
           const uint8_t *quality, mrd_align *align)
{
    mrd_gap_epoch gaps = { k->bins, k->est, epoch->n, w };
    mrd_rate_box *box = calloc(1, sizeof(*box));
    mrd_err err = box == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t i = 0; err == MRD_OK && i < epoch->n; i++) {
        const mrd_span *span = &c->spans[epoch->first + i];
        mrd_align_bin bin = mrd_bin_of(span->t0, &k->ranges[i], &k->est[i], quality[i],
                                       mrd_ineqs_source(c->ineqs + span->first, span->n));

        err = mrd_align_bin_add(align, &bin);
        mrd_rate_box_add(box, span->t0, k->est[i].est);
        if (err == MRD_OK && i + 1 < epoch->n)
            err = mrd_gap_fill(&gaps, i, box,
                               quality[i] < quality[i + 1] ? quality[i] : quality[i + 1],
                               bin.source, align);
    }
    free(box);
    return err;
}

static mrd_err
write_epoch(const collect *c, const off_epoch *epoch, const work *k, double w, mrd_align *align,
            mrd_follow_report *report)
{
    uint8_t *quality = malloc(epoch->n + 1);
    mrd_err err = quality == NULL ? MRD_NOMEM : MRD_OK;

    if (err == MRD_OK) {
        memset(quality, unsteady(c, epoch, &report->bound) ? MRD_ALIGN_SUSPECT : MRD_ALIGN_GOOD,
               epoch->n);
        mark_jumps(k, epoch->n, mrd_smooth_half(k->bins, epoch->n), quality, report);
        mark_squeezed(c, epoch, k, quality);
        err = mrd_align_segment_add(align, epoch->epoch, epoch->cause, epoch->base, w);
    }
    if (err == MRD_OK)
        err = write_bins(c, epoch, k, w, quality, align);
    if (err == MRD_OK) {
        int64_t from, to;

        extent(c, epoch, &from, &to);
        err = mrd_align_segment_extent(align, from, to);
    }
    free(quality);
    return err;
}

static mrd_err
solve_epochs(collect *c, double collect_w, const mrd_follow_options *options, mrd_align *align,
             mrd_follow_report *report)
{
    work k = { malloc((c->span_n + 1) * sizeof(*k.bins)),
               malloc((c->span_n + 1) * sizeof(*k.ranges)),
               malloc((c->span_n + 1) * sizeof(*k.calm)),
               malloc((c->span_n + 1) * sizeof(*k.est)) };
    mrd_err err =
        k.bins == NULL || k.ranges == NULL || k.calm == NULL || k.est == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t i = 0; err == MRD_OK && i < c->epoch_n; i++) {
        double w = options->w;

        if (i + 1 < c->epoch_n)
            retreat(c, &c->epochs[i], &c->epochs[i + 1], collect_w, options);
        err = solve_epoch(c, &c->epochs[i], options, &k, &w);
        report->w = fmax(report->w, w);
        if (err != MRD_OK)
            break;
        calm_ranges(c, &c->epochs[i], options, w, &k);
        err = write_epoch(c, &c->epochs[i], &k, w, align, report);
    }
    free(k.bins);
    free(k.ranges);
    free(k.calm);
    free(k.est);
    return err;
}

/* ---- The functions of follow.h for finished sessions ---- */

static int
order_ineq(const void *a, const void *b)
{
    const mrd_ineq *x = a, *y = b;

    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    if (x->lower != y->lower)
        return x->lower ? 1 : -1;
    return x->v < y->v ? -1 : x->v > y->v;
}

typedef struct {
    mrd_align *align;
    mrd_follow_report report;
} attempt;

/* Finds the epochs of the clock with the assumed change of rate w, and solves each of them. The
 * caller frees ret->align. */
static mrd_err
try_w(const mrd_follow_input *in, double w, attempt *ret)
{
    attempt t = { .align = mrd_align_new(in->name, in->clock_id) };
    collect c = { .err = MRD_OK };
    mrd_err err = MRD_NOMEM;

    if (t.align != NULL)
        err = collect_run(&c, in, w, &t.report.bound);
    if (err == MRD_OK && c.span_n == 0)
        err = MRD_EMPTY;
    if (err == MRD_OK)
        err = solve_epochs(&c, w, in->options, t.align, &t.report);
    collect_fini(&c);
    if (err != MRD_OK) {
        mrd_align_free(t.align);
        t.align = NULL;
    }
    *ret = t;
    return err;
}

/*
 * Minimum number of contradictions for a second attempt with a larger w. A few contradictions are
 * explained by steps of an otherwise steady clock. If there are more, w may be too small.
 * try_both() keeps the attempt with fewer contradictions.
 */
#define FEW_BREAKS 3

static mrd_err
try_both(const mrd_follow_input *in, attempt *ret)
{
    const mrd_follow_options *options = in->options;
    mrd_err err = try_w(in, options->w, ret);
    uint32_t broke = ret->report.bound.contradictions;
    attempt other;

    if (err != MRD_OK || broke == 0 || (broke < FEW_BREAKS && ret->report.w <= options->w))
        return err;
    if (try_w(in, fmax(options->w_live, fmin(ret->report.w, MRD_FOLLOW_W_MAX)), &other) != MRD_OK)
        return MRD_OK; /* the second attempt failed, so the first one is used */
    if (other.report.bound.contradictions < broke) {
        mrd_align_free(ret->align);
        *ret = other;
    } else {
        mrd_align_free(other.align);
    }
    return MRD_OK;
}

mrd_err
mrd_follow_solve(const mrd_follow_input *in, mrd_align **ret_align, mrd_follow_report *ret_report,
                 mrd_why *why)
{
    mrd_follow_input use = *in;
    size_t count = in->n_ineqs;
    mrd_ineq *sorted = malloc((count + 1) * sizeof(*sorted));
    attempt t = { .align = NULL };
    mrd_err err = MRD_NOMEM;

    if (sorted != NULL) {
        if (count > 0)
            memcpy(sorted, in->ineqs, count * sizeof(*sorted));
        qsort(sorted, count, sizeof(*sorted), order_ineq);
        use.ineqs = sorted;
        use.options = in->options == NULL ? &mrd_follow_defaults : in->options;
        err = try_both(&use, &t);
        if (err == MRD_OK &&
            (err = mrd_follow_open_ends(&t.align, in->breaks, in->n_breaks)) != MRD_OK)
            mrd_align_free(t.align);
        free(sorted);
    }
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0,
                           "clock of %s: %zu inequalities, of which %llu contradict and %llu have "
                           "no partner in the other "
                           "direction, give no bound",
                           in->name, count, (unsigned long long) t.report.bound.bad,
                           (unsigned long long) t.report.bound.one_sided);
    *ret_align = t.align;
    if (ret_report != NULL)
        *ret_report = t.report;
    return MRD_OK;
}

mrd_err
mrd_follow_offline(const mrd_follow_input *in, mrd_align **ret_align, mrd_follow_report *ret_report,
                   mrd_why *why)
{
    mrd_follow_input all = *in;
    const mrd_probe *probes = in->probes;
    size_t count = in->n_probes;
    mrd_ineq *ineqs = malloc((2 * count + in->n_ineqs + 1) * sizeof(*ineqs));
    mrd_follow_report report;
    size_t k = 0;
    mrd_err err;

    if (ineqs == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "clock of %s: %zu probes", in->name, count);
    for (size_t i = 0; i < count; i++) {
        if (!probes[i].held_out)
            k += mrd_probe_ineqs(&probes[i], &ineqs[k]);
    }
    if (in->n_ineqs > 0)
        memcpy(ineqs + k, in->ineqs, in->n_ineqs * sizeof(*ineqs));
    all.ineqs = ineqs;
    all.n_ineqs = k + in->n_ineqs;
    err = mrd_follow_solve(&all, ret_align, &report, why);
    free(ineqs);
    if (err == MRD_OK && ret_report != NULL) {
        report.probes = count;
        mrd_follow_check(*ret_align, probes, count, &report);
        *ret_report = report;
    }
    return err;
}
