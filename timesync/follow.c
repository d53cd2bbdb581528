#include "timesync/follow.h"

#include "base/num.h"
#include "timesync/align_impl.h"
#include "timesync/bound_impl.h"
#include "timesync/follow_impl.h"
#include "timesync/rate_box.h"

#include <stdlib.h>
#include <string.h>

#define RECENT_MAX 64  /* maximum number of bins that are younger than MRD_FOLLOW_LAG */
#define WINDOW_MAX 160 /* maximum number of bins in the last minute */
#define FIRST_BINS 3   /* minimum number of bins before the first live result */

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
    uint64_t probes; /* number of probes that were added */
    mrd_bound *bound;
    mrd_smooth smooth;
    mrd_cusum cusum;
    mrd_local_ns suspect_until;
    /* how many of the packets that mrd_bound_counts.near counts were handled already */
    uint64_t near;
    mrd_align *live;
    /* how far the clock departed from its rate in the last hour of this epoch (rate_box.h) */
    mrd_rate_box box;
    double best_width, width;
    /* `w` is the assumed largest change of the rate now, `bend` the largest change that the
     * estimate had in this epoch, in ppb/s */
    double w, bend;

    bool running;
    /* true if the open bin has packets that the live result does not contain yet */
    bool open_unseen;
    uint32_t epoch;
    mrd_epoch_cause cause;
    int64_t base;
    mrd_local_ns first, newest;
    int64_t adapted; /* time of the bin at which w was last computed */

    size_t recent_n, window_n;
    /* the last bins of `window`; later packets can still narrow their bounds */
    recent_bin recent[RECENT_MAX];
    mrd_smooth_bin window[WINDOW_MAX]; /* the bins of the last minute of this epoch */
};

static void follow_emit(void *self, const mrd_bound_bin *bin);

mrd_follow *
mrd_follow_new(const char *name, uint64_t clock_id, const mrd_follow_options *options)
{
    mrd_follow *follow = calloc(1, sizeof(*follow));
    mrd_bound_options bound_options = { options->w_live, options->rate_max };

    if (follow == NULL)
        return NULL;
    follow->options = *options;
    follow->w = options->w_live;
    follow->suspect_until = (mrd_local_ns){ INT64_MIN };
    follow->bound = mrd_bound_new(&bound_options, follow_emit, follow);
    follow->live = mrd_align_new(name, clock_id);
    if (follow->bound != NULL && follow->live != NULL)
        return follow;
    mrd_follow_free(follow);
    return NULL;
}

void
mrd_follow_free(mrd_follow *follow)
{
    if (follow == NULL)
        return;
    mrd_bound_free(follow->bound);
    mrd_align_free(follow->live);
    free(follow);
}

static void
use_w(mrd_follow *follow, double w)
{
    follow->w = w;
    mrd_bound_set_w(follow->bound, w);
}

/* Narrows the bounds of the recent bins up to time `until` by later packets. Moves the set of the
 * newest bin backward in time. */
static void
narrow_recent(mrd_follow *follow, int64_t until)
{
    mrd_bound_options options = { follow->w, follow->options.rate_max };
    size_t shift = follow->window_n - follow->recent_n;
    mrd_poly back, both;

    mrd_poly_box(&back, -MRD_BOUND_FREE, MRD_BOUND_FREE, -options.rate_max, options.rate_max);
    for (size_t i = follow->recent_n; i-- > 0;) {
        const recent_bin *bin = &follow->recent[i];

        if (i + 1 < follow->recent_n)
            mrd_bound_advance(&back, follow->recent[i + 1].t0, bin->t0, &options);
        /* Later packets contradict this bin, so keep the bounds of this bin and of earlier ones. */
        if (!mrd_ineqs_cut(&back, bin->ineqs, bin->n, follow->base, bin->t0, options.w))
            return;
        both = bin->poly;
        if (bin->t0 <= until && mrd_poly_intersect(&both, &back))
            follow->window[shift + i].range = mrd_poly_extent(&both);
    }
}

/*
 * Computes w from the bins up to time `until` by the same rule as for finished sessions: 4 times
 * the largest bend of the estimate. Keeps w_live until the epoch is MRD_FOLLOW_ADAPT long.
 */
static void
adapt_w(mrd_follow *follow, int64_t until)
{
    mrd_estimate est[WINDOW_MAX];
    size_t done = 0, older;
    double h;

    while (done < follow->recent_n && follow->recent[done].t0 <= until)
        done++;
    if (done == 0)
        return;
    narrow_recent(follow, until);
    h = mrd_smooth_half(follow->window, follow->window_n);
    if (h < 0 || mrd_smooth_both(follow->window, follow->window_n, h, follow->options.w_estimate,
                                 est) != MRD_OK)
        return;
    memmove(follow->recent, follow->recent + done,
            (follow->recent_n - done) * sizeof(*follow->recent));
    follow->recent_n -= done;
    older = follow->window_n - follow->recent_n;
    follow->bend = fmax(follow->bend, mrd_smooth_bend(follow->window, est, older));
    if (mrd_local_diff(follow->newest, follow->first) < MRD_FOLLOW_ADAPT)
        return;
    /* A few bins a minute do not show how the rate changes in between, so w stays at least
     * w_live. */
    if ((double) older < mrd_follow_dense(follow->window[0].t0, until))
        use_w(follow, fmax(4 * follow->bend, follow->options.w_live));
    else
        use_w(follow, fmin(fmax(4 * follow->bend, follow->options.w), MRD_FOLLOW_W_MAX));
}

static void
begin_epoch(mrd_follow *follow, const mrd_bound_bin *bin)
{
    /* Drops the old epoch's last bins. If a contradiction ended that epoch, they may lie after the
     * break, where the table has a gap. If another cause ended it, mrd_follow_break() has handled
     * them already. */
    follow->recent_n = follow->window_n = 0;
    follow->running = true;
    follow->epoch = bin->epoch;
    follow->cause = bin->cause;
    follow->base = bin->base;
    follow->first = (mrd_local_ns){ follow->adapted = bin->t0 };
    follow->cusum = (mrd_cusum){ 0, 0 };
    follow->best_width = INFINITY;
    follow->bend = 0;
    use_w(follow, follow->options.w_live);
    mrd_smooth_start(&follow->smooth);
    mrd_rate_box_start(&follow->box);
}

/* Stores the range of the offset at the time `at`, which is after the last bin. Assumes that the
 * clock behaves as it did in the last hour. Returns false if `at` is at most MRD_ALIGN_FAR after
 * the last bin, or if too little is known about the clock. */
static bool
learned_range(mrd_follow *follow, int64_t at, double *ret_lo, double *ret_hi)
{
    const mrd_align *live = follow->live;
    const mrd_align_bin *bin = &live->bins[live->bin_count - 1];
    mrd_rate_ahead ahead, since = { 0, 0 };
    double line;

    if (!follow->running || live->bin_count == 0 || at - bin->at.ns <= MRD_ALIGN_FAR ||
        !mrd_rate_box_ahead(&follow->box, at - mrd_rate_box_last(&follow->box), &ahead))
        return false;
    /* The rate is measured at the last point of the box. Between this point and the bin, the clock
     * may already have departed from it. */
    (void) mrd_rate_box_ahead(&follow->box, bin->at.ns - mrd_rate_box_last(&follow->box), &since);
    line = ahead.rate * mrd_seconds(bin->at.ns, at);
    *ret_lo = bin->lo + line - ahead.departure - since.departure;
    *ret_hi = bin->hi + line + ahead.departure + since.departure;
    return true;
}

/* Marks the result as suspect if the clock moved more during a gap than learned_range() allows. */
static void
watch_box(mrd_follow *follow, const mrd_bound_bin *bin)
{
    double lo, hi;

    if (learned_range(follow, bin->t0, &lo, &hi) && (bin->range.lo > hi || bin->range.hi < lo))
        follow->suspect_until = (mrd_local_ns){ bin->t0 + MRD_FOLLOW_SUSPECT };
}

static uint8_t
quality_now(const mrd_follow *follow, int64_t at)
{
    mrd_bound_counts counts = mrd_bound_counters(follow->bound);

    if (at < follow->suspect_until.ns || mrd_counts_distrusted(&counts))
        return MRD_ALIGN_SUSPECT;
    return at - follow->first.ns < MRD_FOLLOW_SETTLING ? MRD_ALIGN_SETTLING : MRD_ALIGN_GOOD;
}

static void
watch_jump(mrd_follow *follow, const mrd_smooth_bin *bin)
{
    const mrd_kalman *kalman = &follow->smooth.state;
    double dt = mrd_seconds(follow->smooth.t0, bin->t0);
    /* `wander` is how far the assumed change of the rate may move the offset. The jump test must
     * not report this as a jump. With only one pair of probes per 10 s, it is larger than the other
     * noise. */
    double wander = follow->options.w * dt * dt / 2;
    double noise =
        sqrt(kalman->pxx + 2 * dt * fabs(kalman->pxv) + dt * dt * kalman->pvv + wander * wander);

    if (follow->smooth.bins < 10)
        return;
    if (mrd_cusum_add(&follow->cusum, mrd_bin_surprise(bin->up, bin->down, follow->smooth.h,
                                                       kalman->x + kalman->v * dt, noise)))
        follow->suspect_until = (mrd_local_ns){ bin->t0 + MRD_FOLLOW_SUSPECT };
}

/* Marks the result as suspect if packets were dropped that a small step of the clock would
 * explain. */
static void
watch_dropped(mrd_follow *follow, const mrd_bound_bin *bin)
{
    uint64_t near = mrd_bound_counters(follow->bound).near;

    if (near == follow->near)
        return;
    follow->near = near;
    follow->suspect_until = (mrd_local_ns){ bin->t0 + MRD_FOLLOW_SUSPECT };
}

static void
keep_recent(mrd_follow *follow, const mrd_bound_bin *bin, const mrd_smooth_bin *smooth)
{
    recent_bin *r;

    /* The array is full, because the decision about a contradiction took long. */
    if (follow->recent_n == RECENT_MAX)
        adapt_w(follow, follow->recent[RECENT_MAX / 2].t0);
    if (follow->recent_n == RECENT_MAX)
        return;
    while (follow->window_n == WINDOW_MAX || (follow->window_n > follow->recent_n &&
                                              bin->t0 - follow->window[0].t0 > MRD_FOLLOW_WINDOW)) {
        follow->window_n--;
        memmove(follow->window, follow->window + 1, follow->window_n * sizeof(*follow->window));
    }
    r = &follow->recent[follow->recent_n++];
    r->t0 = bin->t0;
    r->poly = *bin->poly;
    r->n = bin->n;
    memcpy(r->ineqs, bin->ineqs, bin->n * sizeof(*r->ineqs));
    follow->window[follow->window_n++] = *smooth;
}

static void
publish_live(mrd_follow *follow, const mrd_bound_bin *bin, const mrd_smooth *smooth)
{
    mrd_estimate est = mrd_smooth_last(smooth, &bin->range);
    mrd_align_bin out = mrd_bin_of(bin->t0, &bin->range, &est, quality_now(follow, bin->t0),
                                   mrd_ineqs_source(bin->ineqs, bin->n));

    mrd_align_reset(follow->live);
    if (mrd_align_segment_add(follow->live, follow->epoch, follow->cause, follow->base,
                              follow->w) == MRD_OK)
        (void) mrd_align_bin_add(follow->live, &out);
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

/* Includes the open bin in the live result. The smoother does not store the open bin, because the
 * bin can still change until it closes. */
static void
show_open_bin(mrd_follow *follow)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    mrd_bound_bin bin;
    mrd_smooth_bin open;
    mrd_smooth ahead;

    if (!follow->open_unseen || !follow->running || !mrd_bound_peek(follow->bound, ineqs, &bin) ||
        bin.epoch != follow->epoch)
        return;
    follow->open_unseen = false;
    open = smooth_bin(&bin);
    ahead = follow->smooth;
    mrd_smooth_add(&ahead, &open, follow->options.w_estimate_live);
    publish_live(follow, &bin, &ahead);
}

static void
follow_emit(void *self, const mrd_bound_bin *bin)
{
    mrd_follow *follow = self;
    mrd_smooth_bin smooth = smooth_bin(bin);

    if (!follow->running || bin->epoch != follow->epoch)
        begin_epoch(follow, bin);
    watch_jump(follow, &smooth);
    watch_dropped(follow, bin);
    watch_box(follow, bin);
    mrd_smooth_add(&follow->smooth, &smooth, follow->options.w_estimate_live);
    mrd_rate_box_add(&follow->box, bin->t0, mrd_smooth_last(&follow->smooth, &bin->range).est);
    follow->width = bin->range.hi - bin->range.lo;
    follow->best_width = fmin(follow->best_width, follow->width);
    follow->newest = (mrd_local_ns){ bin->t0 };
    publish_live(follow, bin, &follow->smooth);
    keep_recent(follow, bin, &smooth);
    if (bin->t0 - follow->adapted >= MRD_FOLLOW_LAG && !mrd_bound_holding(follow->bound)) {
        adapt_w(follow, bin->t0 - MRD_FOLLOW_LAG);
        follow->adapted = bin->t0;
    }
}

void
mrd_follow_probe(mrd_follow *follow, const mrd_probe *probe)
{
    mrd_ineq ineqs[2];
    size_t n;

    follow->probes++;
    if (probe->held_out)
        return;
    n = mrd_probe_ineqs(probe, ineqs);
    for (size_t i = 0; i < n; i++)
        mrd_bound_add(follow->bound, &ineqs[i]);
    follow->open_unseen = true;
}

uint64_t
mrd_follow_probes(const mrd_follow *follow)
{
    return follow->probes;
}

void
mrd_follow_break(mrd_follow *follow, const mrd_epoch_break *at)
{
    mrd_bound_break(follow->bound, at->cause, at->keep_rate,
                    at->before.ns - at->after.ns + at->lost);
    adapt_w(follow, at->after.ns);
    follow->running = follow->open_unseen = false;
    mrd_align_reset(follow->live);
}

/* Narrows the bound of a time after the last packet to the range that the clock's behaviour in the
 * last hour allows (learned_range). Limits the estimate to this range. */
static void
narrow_ahead(mrd_follow *follow, int64_t at, mrd_sess_ns *to, mrd_align_bound *bound)
{
    double lo, hi;
    int64_t session = mrd_sat_add(at, follow->base);
    mrd_sess_ns first, last;

    if (!learned_range(follow, at, &lo, &hi))
        return;
    first.ns = mrd_sat_add(session, llround(floor(lo)));
    last.ns = mrd_sat_add(session, llround(ceil(hi)));
    if (first.ns > bound->hi.ns || last.ns < bound->lo.ns) {
        /* the learned range and the bound by w do not overlap, so one of the two assumptions is
         * false */
        bound->quality = bound->quality < MRD_ALIGN_SUSPECT ? bound->quality : MRD_ALIGN_SUSPECT;
        return;
    }
    bound->lo.ns = first.ns > bound->lo.ns ? first.ns : bound->lo.ns;
    bound->hi.ns = last.ns < bound->hi.ns ? last.ns : bound->hi.ns;
    to->ns = to->ns < bound->lo.ns ? bound->lo.ns : to->ns > bound->hi.ns ? bound->hi.ns : to->ns;
}

bool
mrd_follow_live(mrd_follow *follow, mrd_local_ns at, mrd_sess_ns *ret_at,
                mrd_align_bound *ret_bound)
{
    mrd_align_cursor cursor = { 0, 0 };
    mrd_align_bound own = { .quality = 0 }, *bound = ret_bound != NULL ? ret_bound : &own;

    show_open_bin(follow);
    if (follow->smooth.bins < FIRST_BINS ||
        !mrd_align_map(follow->live, &cursor, at, ret_at, bound))
        return false;
    narrow_ahead(follow, at.ns, ret_at, bound);
    if (mrd_bound_holding(follow->bound) && bound->quality > MRD_ALIGN_SUSPECT)
        bound->quality = MRD_ALIGN_SUSPECT;
    return true;
}

void
mrd_follow_width(const mrd_follow *follow, mrd_dur_ns *ret_now, mrd_dur_ns *ret_best)
{
    bool known = follow->running && follow->smooth.bins > 0;

    *ret_now = known ? llround(follow->width) : -1;
    *ret_best = known ? llround(follow->best_width) : -1;
}

/* Checks one held-out packet against a table. Counts the packet as reversed if it was received
 * before it was sent according to the estimate, and as a violation if this is so even according to
 * the bound. */
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
        mrd_ineq ineqs[2];
        size_t k = probes[i].held_out ? mrd_probe_ineqs(&probes[i], ineqs) : 0;

        for (size_t j = 0; j < k; j++)
            check_packet(align, &cursor, ineqs[j].t, ineqs[j].v, ineqs[j].lower, report);
    }
}
