#include "timesync/follow.h"

#include "timesync/align_impl.h"
#include "timesync/bound_impl.h"
#include "timesync/follow_impl.h"

#include <stdlib.h>
#include <string.h>

#define RECENT_MAX  64  /* bins that are not in the lagged table yet */
#define WINDOW_MAX  160 /* bins of the last minute */
#define PENDING_MAX 64  /* held-out probes that wait for the lagged table */
#define FIRST_BINS  3   /* bins before the first live result */

const mrd_follow_options mrd_follow_defaults = {
    .w_live = MRD_BOUND_W_LIVE,
    .w = MRD_BOUND_W,
    .w_estimate = MRD_SMOOTH_W,
    .w_estimate_live = MRD_SMOOTH_W_LIVE,
    .rate_max = MRD_BOUND_RATE_MAX,
};

typedef struct {
    int64_t t0;
    mrd_poly poly;
    size_t n;
    mrd_ineq ineqs[MRD_BIN_INEQS];
} recent_bin;

struct mrd_follow {
    mrd_follow_options options;
    mrd_follow_report report;
    mrd_bound *bound;
    mrd_smooth smooth;
    mrd_cusum cusum;
    mrd_local_ns suspect_until;
    uint64_t near; /* of the bound's counts, handled up to now */
    mrd_align *live, *lagged;
    double best_width, width;
    double w, bend; /* in use now, ppb/s; largest bend of the estimate in this epoch */

    bool running;
    bool open_unseen; /* the open bin has more than the live result contains */
    uint32_t epoch;
    mrd_epoch_cause cause;
    int64_t base, lag_run;
    mrd_local_ns first, newest;
    mrd_local_ns lagged_from; /* first packet of this epoch in the lagged table */
    bool lagged_open;         /* the lagged table has a segment of this epoch */

    size_t recent_n, window_n;
    recent_bin recent[RECENT_MAX];
    mrd_smooth_bin window[WINDOW_MAX];
    uint8_t source[WINDOW_MAX], quality[WINDOW_MAX];

    size_t pending_n;
    mrd_probe pending[PENDING_MAX];
};

static void follow_emit(void *self, const mrd_bound_bin *bin);
static void adapt_w(mrd_follow *t, const mrd_estimate *est);

mrd_follow *
mrd_follow_new(const char *name, uint64_t clock_id, const mrd_follow_options *options)
{
    mrd_follow *t = calloc(1, sizeof(*t));
    mrd_bound_options o = { options->w_live, options->rate_max };

    if (t == NULL)
        return NULL;
    t->options = *options;
    t->report.w = t->w = options->w_live;
    t->suspect_until = (mrd_local_ns){ INT64_MIN };
    t->bound = mrd_bound_new(&o, follow_emit, t);
    t->live = mrd_align_new(name, clock_id);
    t->lagged = mrd_align_new(name, clock_id);
    if (t->bound != NULL && t->live != NULL && t->lagged != NULL)
        return t;
    mrd_follow_free(t);
    return NULL;
}

void
mrd_follow_free(mrd_follow *follow)
{
    if (follow == NULL)
        return;
    mrd_bound_free(follow->bound);
    mrd_align_free(follow->live);
    mrd_align_free(follow->lagged);
    free(follow);
}

/* ---- The lagged table ---- */

static void
check_pending(mrd_follow *t, int64_t until)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->pending_n; i++) {
        const mrd_probe *p = &t->pending[i];

        if ((p->a4 > p->a1 ? p->a4 : p->a1) <= until)
            mrd_follow_check(t->lagged, p, 1, &t->report);
        else
            t->pending[kept++] = *p;
    }
    t->pending_n = kept;
}

/* Narrows the sets of the recent bins by later packets. */
static void
narrow_recent(mrd_follow *t, int64_t until)
{
    mrd_bound_options o = { t->w, t->options.rate_max };
    size_t shift = t->window_n - t->recent_n;
    mrd_poly back, both;

    mrd_poly_box(&back, -MRD_BOUND_FREE, MRD_BOUND_FREE, -o.rate_max, o.rate_max);
    for (size_t i = t->recent_n; i-- > 0;) {
        const recent_bin *r = &t->recent[i];

        if (i + 1 < t->recent_n)
            mrd_bound_advance(&back, t->recent[i + 1].t0, r->t0, &o);
        if (!mrd_ineqs_cut(&back, r->ineqs, r->n, t->base, r->t0, o.w))
            return; /* the forward sets stand */
        both = r->poly;
        if (r->t0 <= until && mrd_poly_intersect(&both, &back))
            t->window[shift + i].range = mrd_poly_extent(&both);
    }
}

static bool
open_lagged(mrd_follow *t)
{
    if (t->lagged_open)
        return true;
    t->lagged_open =
        mrd_align_segment_add(t->lagged, t->epoch, t->cause, t->base, t->options.w_live) == MRD_OK;
    return t->lagged_open;
}

static void
forget_old(mrd_follow *t)
{
    size_t keep = t->options.lagged_keep;
    int64_t first;

    if (keep == 0 || mrd_align_bin_count(t->lagged) < 2 * keep)
        return;
    first = mrd_align_forget(t->lagged, keep);
    t->lagged_from = (mrd_local_ns){ first > t->lagged_from.ns ? first : t->lagged_from.ns };
}

/* Moves bins up to `until` into the lagged table. */
static void
run_lag(mrd_follow *t, int64_t until)
{
    mrd_estimate est[WINDOW_MAX];
    size_t shift = t->window_n - t->recent_n, done = 0;
    double h;

    if (t->recent_n == 0 || t->recent[0].t0 > until)
        return;
    narrow_recent(t, until);
    h = mrd_smooth_half(t->window, t->window_n);
    if (h < 0 || mrd_smooth_both(t->window, t->window_n, h, t->options.w_estimate, est) != MRD_OK)
        return;
    for (; done < t->recent_n && t->recent[done].t0 <= until; done++) {
        size_t i = shift + done;
        int64_t from, to;

        mrd_ineqs_extent(t->recent[done].ineqs, t->recent[done].n, &from, &to);
        t->lagged_from = (mrd_local_ns){ t->lagged_open ? t->lagged_from.ns : from };
        mrd_align_bin bin =
            mrd_bin_of(t->window[i].t0, &t->window[i].range, &est[i], t->quality[i], t->source[i]);

        /* At its limit the table just ends. */
        if (open_lagged(t) && mrd_align_bin_add(t->lagged, &bin) == MRD_OK)
            (void) mrd_align_segment_extent(t->lagged, t->lagged_from.ns, to);
    }
    forget_old(t);
    memmove(t->recent, t->recent + done, (t->recent_n - done) * sizeof(*t->recent));
    t->recent_n -= done;
    adapt_w(t, est);
    check_pending(t, until);
}

/* ---- live ---- */

static void
use_w(mrd_follow *t, double w)
{
    t->w = w;
    t->report.w = fmax(t->report.w, w);
    mrd_bound_set_w(t->bound, w);
}

/*
 * Applies the rule that chooses w offline to the data up to now: 4 times the largest bend, after
 * enough of the epoch. Before that w_live.
 */
static void
adapt_w(mrd_follow *t, const mrd_estimate *est)
{
    size_t older = t->window_n - t->recent_n;

    t->bend = fmax(t->bend, mrd_smooth_bend(t->window, est, older));
    if (mrd_local_diff(t->newest, t->first) < MRD_FOLLOW_ADAPT)
        return;
    /* A few points a minute do not show how the rate bends in between. */
    if (older < MRD_FOLLOW_DENSE)
        use_w(t, fmax(4 * t->bend, t->options.w_live));
    else
        use_w(t, fmin(fmax(4 * t->bend, t->options.w), MRD_FOLLOW_W_MAX));
}

static void
begin_epoch(mrd_follow *t, const mrd_bound_bin *bin)
{
    /* If a contradiction ended the old epoch, its last bins may lie after the break. They are
     * dropped, and the gap covers them. For other causes mrd_follow_break has removed them. */
    t->recent_n = t->window_n = 0;
    t->lagged_open = false;
    t->running = true;
    t->epoch = bin->epoch;
    t->cause = bin->cause;
    t->base = bin->base;
    t->first = (mrd_local_ns){ t->lag_run = bin->t0 };
    t->cusum = (mrd_cusum){ 0, 0 };
    t->best_width = INFINITY;
    t->bend = 0;
    use_w(t, t->options.w_live);
    mrd_smooth_start(&t->smooth);
}

static uint8_t
quality_now(const mrd_follow *t, int64_t at)
{
    mrd_bound_counts counts = mrd_bound_counters(t->bound);

    if (at < t->suspect_until.ns || mrd_counts_distrusted(&counts))
        return MRD_ALIGN_SUSPECT;
    return at - t->first.ns < MRD_FOLLOW_SETTLING ? MRD_ALIGN_SETTLING : MRD_ALIGN_GOOD;
}

static void
watch_jump(mrd_follow *t, const mrd_smooth_bin *bin)
{
    const mrd_kalman *k = &t->smooth.state;
    double dt = mrd_seconds(t->smooth.t0, bin->t0);
    /* A change within the assumption is not a jump. At a pair per 10 s this is the larger part. */
    double wander = t->options.w * dt * dt / 2;
    double noise = sqrt(k->pxx + 2 * dt * fabs(k->pxv) + dt * dt * k->pvv + wander * wander);

    if (t->smooth.bins < 10)
        return;
    if (mrd_cusum_add(&t->cusum,
                      mrd_bin_surprise(bin->up, bin->down, t->smooth.h, k->x + k->v * dt, noise))) {
        t->report.jumps++;
        t->suspect_until = (mrd_local_ns){ bin->t0 + MRD_FOLLOW_SUSPECT };
        /* Unwritten bins may have been changed by data after the jump. */
        memset(t->quality, MRD_ALIGN_SUSPECT, t->window_n);
    }
}

/* Packets were dropped that a small step would explain, so unwritten bins may be after it. */
static void
watch_dropped(mrd_follow *t, const mrd_bound_bin *bin)
{
    uint64_t near = mrd_bound_counters(t->bound).near;

    if (near == t->near)
        return;
    t->near = near;
    t->suspect_until = (mrd_local_ns){ bin->t0 + MRD_FOLLOW_SUSPECT };
    memset(t->quality, MRD_ALIGN_SUSPECT, t->window_n);
}

static void
keep_recent(mrd_follow *t, const mrd_bound_bin *bin, const mrd_smooth_bin *smooth)
{
    recent_bin *r;

    if (t->recent_n == RECENT_MAX) /* a contradiction lasted long, or the lag is very large */
        run_lag(t, t->recent[RECENT_MAX / 2].t0);
    if (t->recent_n == RECENT_MAX)
        return;
    while (t->window_n == WINDOW_MAX ||
           (t->window_n > t->recent_n && bin->t0 - t->window[0].t0 > MRD_FOLLOW_WINDOW)) {
        t->window_n--;
        memmove(t->window, t->window + 1, t->window_n * sizeof(*t->window));
        memmove(t->source, t->source + 1, t->window_n);
        memmove(t->quality, t->quality + 1, t->window_n);
    }
    r = &t->recent[t->recent_n++];
    r->t0 = bin->t0;
    r->poly = *bin->poly;
    r->n = bin->n;
    memcpy(r->ineqs, bin->ineqs, bin->n * sizeof(*r->ineqs));
    t->source[t->window_n] = mrd_ineqs_source(bin->ineqs, bin->n);
    t->quality[t->window_n] = quality_now(t, bin->t0);
    t->window[t->window_n++] = *smooth;
}

static void
publish_live(mrd_follow *t, const mrd_bound_bin *bin, const mrd_smooth *smooth)
{
    mrd_estimate est = mrd_smooth_last(smooth, &bin->range);
    mrd_align_bin out = mrd_bin_of(bin->t0, &bin->range, &est, quality_now(t, bin->t0),
                                   mrd_ineqs_source(bin->ineqs, bin->n));

    mrd_align_reset(t->live);
    if (mrd_align_segment_add(t->live, t->epoch, t->cause, t->base, t->w) == MRD_OK)
        (void) mrd_align_bin_add(t->live, &out);
}

static mrd_smooth_bin
smooth_bin(const mrd_bound_bin *bin)
{
    mrd_smooth_bin s = { .t0 = bin->t0, .range = bin->range };
    mrd_span span = { bin->t0, 0, bin->n };

    mrd_span_envelope(&span, bin->ineqs, bin->base, (s.range.rate_lo + s.range.rate_hi) / 2, &s.up,
                      &s.down);
    return s;
}

/* Adds the open bin to the live result for a query. It is removed again when the bin closes. */
static void
show_open_bin(mrd_follow *t)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    mrd_bound_bin bin;
    mrd_smooth_bin open;
    mrd_smooth ahead;

    if (!t->open_unseen || !t->running || !mrd_bound_peek(t->bound, ineqs, &bin) ||
        bin.epoch != t->epoch)
        return;
    t->open_unseen = false;
    open = smooth_bin(&bin);
    ahead = t->smooth;
    mrd_smooth_add(&ahead, &open, t->options.w_estimate_live);
    publish_live(t, &bin, &ahead);
}

static void
follow_emit(void *self, const mrd_bound_bin *bin)
{
    mrd_follow *t = self;
    mrd_smooth_bin smooth = smooth_bin(bin);

    if (!t->running || bin->epoch != t->epoch)
        begin_epoch(t, bin);
    watch_jump(t, &smooth);
    watch_dropped(t, bin);
    mrd_smooth_add(&t->smooth, &smooth, t->options.w_estimate_live);
    t->width = bin->range.hi - bin->range.lo;
    t->best_width = fmin(t->best_width, t->width);
    t->newest = (mrd_local_ns){ bin->t0 };
    publish_live(t, bin, &t->smooth);
    keep_recent(t, bin, &smooth);
    if (bin->t0 - t->lag_run >= MRD_FOLLOW_LAG && !mrd_bound_holding(t->bound)) {
        run_lag(t, bin->t0 - MRD_FOLLOW_LAG);
        t->lag_run = bin->t0;
    }
}

void
mrd_follow_probe(mrd_follow *follow, const mrd_probe *probe)
{
    mrd_ineq ineqs[2];
    size_t n;

    follow->report.probes++;
    if (probe->held_out) {
        if (follow->pending_n < PENDING_MAX)
            follow->pending[follow->pending_n++] = *probe;
        return;
    }
    n = mrd_probe_ineqs(probe, ineqs);
    for (size_t i = 0; i < n; i++)
        mrd_bound_add(follow->bound, &ineqs[i]);
    follow->open_unseen = true;
}

void
mrd_follow_flush(mrd_follow *follow)
{
    mrd_bound_flush(follow->bound);
    run_lag(follow, INT64_MAX);
    check_pending(follow, INT64_MAX);
}

void
mrd_follow_break(mrd_follow *follow, const mrd_epoch_break *at)
{
    mrd_bound_break(follow->bound, at->cause, at->keep_rate,
                    at->before.ns - at->after.ns + at->lost);
    run_lag(follow, at->after.ns);
    follow->running = follow->open_unseen = false;
    mrd_align_reset(follow->live);
}

bool
mrd_follow_live(mrd_follow *follow, mrd_local_ns at, mrd_sess_ns *ret_at,
                mrd_align_bound *ret_bound)
{
    mrd_align_cursor cursor = { 0, 0 };

    show_open_bin(follow);
    if (follow->smooth.bins < FIRST_BINS ||
        !mrd_align_map(follow->live, &cursor, at, ret_at, ret_bound))
        return false;
    if (ret_bound != NULL && mrd_bound_holding(follow->bound) &&
        ret_bound->quality > MRD_ALIGN_SUSPECT)
        ret_bound->quality = MRD_ALIGN_SUSPECT;
    return true;
}

const mrd_align *
mrd_follow_borrow_lagged(const mrd_follow *follow)
{
    return follow->lagged;
}

void
mrd_follow_width(const mrd_follow *follow, mrd_dur_ns *ret_now, mrd_dur_ns *ret_best)
{
    bool known = follow->running && follow->smooth.bins > 0;

    *ret_now = known ? llround(follow->width) : -1;
    *ret_best = known ? llround(follow->best_width) : -1;
}

mrd_follow_report
mrd_follow_counters(const mrd_follow *follow)
{
    mrd_follow_report report = follow->report;

    report.bound = mrd_bound_counters(follow->bound);
    return report;
}

/* Checks one packet: by how much it arrived before it was sent, by the estimate and by the bound. */
static void
check_packet(const mrd_align *align, mrd_align_cursor *cursor, int64_t at, int64_t v, bool lower,
             mrd_follow_report *report)
{
    mrd_align_bound bound;
    mrd_sess_ns sess;
    int64_t by;

    if (!mrd_align_map(align, cursor, (mrd_local_ns){ at }, &sess, &bound) ||
        bound.quality <= MRD_ALIGN_GAP)
        return;
    report->checked++;
    by = lower ? v - (sess.ns - at) : sess.ns - at - v;
    report->reversed += by > 0;
    report->reversed_max = by > report->reversed_max ? by : report->reversed_max;
    report->violations += lower ? bound.hi.ns - at < v : bound.lo.ns - at > v;
}

void
mrd_follow_check(const mrd_align *align, const mrd_probe *probes, size_t n,
                 mrd_follow_report *report)
{
    mrd_align_cursor cursor = { 0, 0 };

    for (size_t i = 0; i < n; i++) {
        mrd_ineq q[2];
        size_t k = probes[i].held_out ? mrd_probe_ineqs(&probes[i], q) : 0;

        for (size_t j = 0; j < k; j++)
            check_packet(align, &cursor, q[j].t, q[j].v, q[j].lower, report);
    }
}
