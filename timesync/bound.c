#include "timesync/bound.h"

#include "timesync/bound_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The inequalities of one bin ---- */

static int64_t
bin_centre(int64_t t)
{
    int64_t k = t / MRD_BIN_NS - (t % MRD_BIN_NS < 0);

    return k * MRD_BIN_NS + MRD_BIN_NS / 2;
}

/* Returns the limit v of an inequality in ns relative to `base`, moved from its time to t0 at the
 * given rate. */
static double
moved(const mrd_ineq *ineq, int64_t base, int64_t t0, double rate)
{
    return mrd_relative(ineq->v, base) - rate * mrd_seconds(t0, ineq->t);
}

void
mrd_span_envelope(const mrd_span *span, const mrd_ineq *ineqs, int64_t base, double rate,
                  double *ret_up, double *ret_down)
{
    double up = INFINITY, down = -INFINITY;

    for (size_t i = 0; i < span->n; i++) {
        const mrd_ineq *ineq = &ineqs[span->first + i];
        double v = moved(ineq, base, span->t0, rate);

        if (ineq->lower)
            down = fmax(down, v);
        else
            up = fmin(up, v);
    }
    *ret_up = isfinite(up) ? up : NAN;
    *ret_down = isfinite(down) ? down : NAN;
}

/*
 * Makes the first set of an epoch: a box with all rates in [rate_lo, rate_hi], and all offsets
 * between the greatest lower and the least upper inequality of the bin. The caller then cuts the
 * box with the inequalities. Returns false if there are no inequalities, or if they contradict each
 * other.
 */
static bool
start_poly(mrd_poly *poly, const mrd_span *span, const mrd_ineq *ineqs, int64_t base,
           double rate_lo, double rate_hi)
{
    double up, down, room;

    mrd_span_envelope(span, ineqs, base, (rate_lo + rate_hi) / 2, &up, &down);
    if (isnan(up) && isnan(down))
        return false;
    /* If there are inequalities of only one direction, use the widest range that doubles resolve
     * well. */
    if (isnan(down))
        down = up - MRD_BOUND_FREE;
    if (isnan(up))
        up = down + MRD_BOUND_FREE;
    /* Enlarge the box by the largest change of the offset within a bin of 0.5 s. A box that is too
     * large does no harm, because the caller cuts it. */
    room = (rate_hi - rate_lo) * 0.5 + 1e4;
    if (down - room > up + room)
        return false;
    mrd_poly_box(poly, down - room, up + room, rate_lo, rate_hi);
    return true;
}

/* ---- The filter for live operation ---- */

typedef struct {
    int64_t t0;
    size_t n_up, n_down;
    /* upper inequalities in the first half, lower ones in the second */
    mrd_ineq ineqs[MRD_BIN_INEQS];
} live_bin;

struct mrd_bound {
    mrd_bound_options options;
    void (*emit)(void *self, const mrd_bound_bin *bin);
    void *self;
    mrd_bound_counts counts;

    bool running; /* true if an epoch has begun, so that poly, t0, base and epoch are valid */
    /* whether upper and lower inequalities occurred in this epoch; no bin is emitted before both
     * occurred */
    bool has_up, has_down;
    mrd_poly poly;
    int64_t t0, base;
    int64_t closed; /* middle of the bin that was closed last, in local ns */
    uint32_t epoch;
    mrd_epoch_cause cause, next_cause;
    double start_lo, start_hi; /* range of rates allowed at the start of the next epoch */

    bool open;
    live_bin bin;
    /* `ahead` is the set moved to the time of the open bin. `cut` is `ahead` after it was cut with
     * the packets of the open bin. */
    mrd_poly ahead, cut;
    bool alarm; /* true if packets of the open bin contradict the set */
    live_bin held[MRD_BIN_HELD_MAX];
    int held_n;
};

mrd_bound *
mrd_bound_new(const mrd_bound_options *options, void (*emit)(void *self, const mrd_bound_bin *bin),
              void *self)
{
    mrd_bound *bound = calloc(1, sizeof(*bound));

    if (bound == NULL)
        return NULL;
    bound->options = *options;
    bound->emit = emit;
    bound->self = self;
    bound->start_lo = -options->rate_max;
    bound->start_hi = options->rate_max;
    bound->closed = INT64_MIN;
    return bound;
}

void
mrd_bound_free(mrd_bound *bound)
{
    free(bound);
}

bool
mrd_bound_holding(const mrd_bound *bound)
{
    return bound->held_n > 0 || (bound->open && bound->alarm);
}

mrd_bound_counts
mrd_bound_counters(const mrd_bound *bound)
{
    return bound->counts;
}

/* Orders inequalities in a way that does not depend on their arrival: upper before lower
 * inequalities, and loose before tight inequalities. */
static bool
ineq_before(const mrd_ineq *a, const mrd_ineq *b)
{
    if (a->lower != b->lower)
        return b->lower;
    if (a->v != b->v)
        return a->lower ? a->v < b->v : a->v > b->v;
    return a->t < b->t;
}

/* Copies the upper and the lower inequalities of a bin into one sorted list, and returns its
 * length. */
static size_t
pack(const live_bin *bin, mrd_ineq to[MRD_BIN_INEQS])
{
    size_t n = bin->n_up + bin->n_down;

    memcpy(to, bin->ineqs, bin->n_up * sizeof(*to));
    memcpy(to + bin->n_up, bin->ineqs + MRD_BIN_INEQS / 2, bin->n_down * sizeof(*to));
    for (size_t i = 1; i < n; i++) {
        mrd_ineq ineq = to[i];
        size_t j = i;

        for (; j > 0 && ineq_before(&ineq, &to[j - 1]); j--)
            to[j] = to[j - 1];
        to[j] = ineq;
    }
    return n;
}

static void
accept(mrd_bound *bound, const mrd_poly *poly, int64_t t0, const mrd_ineq *ineqs, size_t n)
{
    mrd_bound_bin out = { bound->epoch,          bound->cause, t0,    bound->base,
                          mrd_poly_extent(poly), poly,         ineqs, n };

    bound->poly = *poly;
    bound->t0 = t0;
    for (size_t i = 0; i < n; i++) {
        bound->has_up = bound->has_up || !ineqs[i].lower;
        bound->has_down = bound->has_down || ineqs[i].lower;
    }
    bound->counts.used += n;
    if (bound->has_up && bound->has_down)
        bound->emit(bound->self, &out);
    else
        bound->counts.one_sided += n;
}

/* Makes the first set of an epoch that begins with this bin, with rates in [rate_lo, rate_hi].
 * Returns false if the bin's inequalities contradict each other. */
static bool
start_with(mrd_bound *bound, const live_bin *bin, double rate_lo, double rate_hi, int64_t *ret_base,
           mrd_poly *ret_poly)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs);
    mrd_span span = { bin->t0, 0, n };
    int64_t base = n > 0 ? ineqs[0].v : 0;

    if (!start_poly(ret_poly, &span, ineqs, base, rate_lo, rate_hi))
        return false;
    *ret_base = base;
    return mrd_ineqs_cut(ret_poly, ineqs, n, base, bin->t0, bound->options.w);
}

static void
begin_epoch(mrd_bound *bound, int64_t base, mrd_epoch_cause cause)
{
    bound->base = base;
    bound->cause = cause;
    bound->epoch = bound->counts.epochs++;
    bound->counts.contradictions += cause == MRD_EPOCH_CONTRADICTION;
    bound->running = true;
    bound->has_up = bound->has_down = false;
}

static void
start_epoch(mrd_bound *bound, const live_bin *bin)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs);
    mrd_poly poly;
    int64_t base;

    if (!start_with(bound, bin, bound->start_lo, bound->start_hi, &base, &poly)) {
        bound->counts.bad += n;
        return;
    }
    begin_epoch(bound, base, bound->next_cause);
    bound->next_cause = MRD_EPOCH_CONTRADICTION;
    accept(bound, &poly, bin->t0, ineqs, n);
}

/* Returns true if the bin's inequalities do not contradict *poly, the set at time *t0. *poly is
 * then moved to the time of the bin and cut with these inequalities, and *t0 is the bin's time. */
static bool
fits(const mrd_bound *bound, mrd_poly *poly, int64_t *t0, int64_t base, const live_bin *bin)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs);
    mrd_poly next = *poly;

    mrd_bound_advance(&next, *t0, bin->t0, &bound->options);
    if (!mrd_ineqs_cut(&next, ineqs, n, base, bin->t0, bound->options.w))
        return false;
    *poly = next;
    *t0 = bin->t0;
    return true;
}

/* Returns true if an inequality contradicts the set by less than the set's width, so that a small
 * step of the clock could explain it. */
static bool
misses_nearly(const mrd_bound *bound, const mrd_poly *poly, const mrd_ineq *ineq)
{
    mrd_poly_range range = mrd_poly_extent(poly);
    double v = mrd_relative(ineq->v, bound->base), by = ineq->lower ? v - range.hi : range.lo - v;

    return by < range.hi - range.lo;
}

/* Accepts the inequalities of a contradicting bin that fit the set, and counts the others as bad.
 * Tries the loosest inequalities first, so that the result does not depend on their order of
 * arrival. */
static void
salvage(mrd_bound *bound, const live_bin *bin)
{
    mrd_ineq ineqs[MRD_BIN_INEQS], kept[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs), k = 0;
    mrd_poly poly = bound->poly;

    mrd_bound_advance(&poly, bound->t0, bin->t0, &bound->options);
    for (size_t i = 0; i < n; i++) {
        mrd_poly next = poly;

        if (mrd_ineq_cut(&next, &ineqs[i], bound->base, bin->t0, bound->options.w)) {
            poly = next;
            kept[k++] = ineqs[i];
        } else {
            bound->counts.near += misses_nearly(bound, &poly, &ineqs[i]);
        }
    }
    bound->counts.bad += n - k;
    if (k > 0)
        accept(bound, &poly, bin->t0, kept, k);
}

static void
keep_epoch(mrd_bound *bound)
{
    for (int i = 0; i < bound->held_n; i++) {
        mrd_ineq ineqs[MRD_BIN_INEQS];
        mrd_poly poly = bound->poly;
        int64_t t0 = bound->t0;

        if (fits(bound, &poly, &t0, bound->base, &bound->held[i]))
            accept(bound, &poly, t0, ineqs, pack(&bound->held[i], ineqs));
        else
            salvage(bound, &bound->held[i]);
    }
    bound->held_n = 0;
}

/* Held bins are the bins that wait for a decision after a contradiction. Returns true if an epoch
 * that begins at held bin i, with rates in [rate_lo, rate_hi], fits all later held bins. *ret_first
 * is then the set of bin i. */
static bool
explains(mrd_bound *bound, int i, double rate_lo, double rate_hi, int64_t *ret_base,
         mrd_poly *ret_first)
{
    int64_t t0 = bound->held[i].t0;
    mrd_poly poly;

    if (bound->held[i].n_up == 0 || bound->held[i].n_down == 0 ||
        !start_with(bound, &bound->held[i], rate_lo, rate_hi, ret_base, ret_first))
        return false;
    poly = *ret_first;
    for (int j = i + 1; j < bound->held_n; j++) {
        if (!fits(bound, &poly, &t0, *ret_base, &bound->held[j]))
            return false;
    }
    return true;
}

static bool
try_epoch(mrd_bound *bound, int i, double rate_lo, double rate_hi)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    mrd_poly first;
    int64_t base;

    if (!explains(bound, i, rate_lo, rate_hi, &base, &first))
        return false;
    for (int j = 0; j < i; j++)
        bound->counts.bad += bound->held[j].n_up + bound->held[j].n_down;
    begin_epoch(bound, base, MRD_EPOCH_CONTRADICTION);
    accept(bound, &first, bound->held[i].t0, ineqs, pack(&bound->held[i], ineqs));
    memmove(&bound->held[0], &bound->held[i + 1],
            (size_t) (bound->held_n - i - 1) * sizeof(bound->held[0]));
    bound->held_n -= i + 1;
    keep_epoch(bound);
    return true;
}

/* Tries to begin a new epoch at one of the held bins `from` to `to`. The old epoch may have ended
 * because of a step, a migration or a changed rate. So its rate is not used, and the first seconds
 * of the new epoch have wider bounds. */
static bool
try_epochs(mrd_bound *bound, int from, int to)
{
    for (int i = from; i <= to; i++) {
        if (try_epoch(bound, i, -bound->options.rate_max, bound->options.rate_max))
            return true;
    }
    return false;
}

/* Returns true if a new epoch could also begin at the first held bin. The packets are then too
 * imprecise to show whether the clock was stepped or packets are wrong. */
static bool
ambiguous(mrd_bound *bound)
{
    mrd_poly first;
    int64_t base;

    return explains(bound, 0, -bound->options.rate_max, bound->options.rate_max, &base, &first);
}

/* Decides about the held bins: keeps the old epoch or begins a new one. If `more` is true, further
 * bins may come, and the decision may be postponed until then. */
static void
decide(mrd_bound *bound, bool more)
{
    mrd_poly poly = bound->poly;
    int64_t t0 = bound->t0;
    int fit = 0, behind = bound->held_n - 1;

    for (int i = 1; i < bound->held_n; i++)
        fit += fits(bound, &poly, &t0, bound->base, &bound->held[i]);
    if (fit == behind && behind > 0) {
        if (!more || bound->held_n == MRD_BIN_HELD_MAX || !ambiguous(bound))
            keep_epoch(bound);
    } else if (try_epochs(bound, 0, 0) || (fit <= 1 && try_epochs(bound, 1, bound->held_n - 2)))
        return;
    else if (fit > 0)
        keep_epoch(bound);
    else {
        /* The held bins contradict each other. Drop all but the last one, and begin an epoch with
         * any rate there. */
        live_bin last = bound->held[bound->held_n - 1];

        for (int i = 0; i < behind; i++)
            bound->counts.bad += bound->held[i].n_up + bound->held[i].n_down;
        bound->held_n = 0;
        bound->running = false;
        bound->start_lo = -bound->options.rate_max;
        bound->start_hi = bound->options.rate_max;
        start_epoch(bound, &last);
    }
}

static void
close_bin(mrd_bound *bound)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];

    if (!bound->open)
        return;
    bound->open = false;
    bound->closed = bound->bin.t0;
    if (!bound->running) {
        start_epoch(bound, &bound->bin);
        return;
    }
    if (bound->held_n == 0) {
        size_t n = pack(&bound->bin, ineqs);

        if (mrd_ineqs_cut(&bound->ahead, ineqs, n, bound->base, bound->bin.t0, bound->options.w)) {
            accept(bound, &bound->ahead, bound->bin.t0, ineqs, n);
            return;
        }
    }
    bound->held[bound->held_n++] = bound->bin;
    if (bound->held_n >= MRD_BIN_HELD)
        decide(bound, true);
}

void
mrd_bound_flush(mrd_bound *bound)
{
    close_bin(bound);
    if (bound->held_n > 0)
        decide(bound, false);
}

void
mrd_bound_break(mrd_bound *bound, mrd_epoch_cause cause, bool keep_rate, mrd_dur_ns gap_ns)
{
    double max = bound->options.rate_max, room = bound->options.w * (double) gap_ns * 1e-9;

    mrd_bound_flush(bound);
    bound->next_cause = cause;
    if (!bound->running)
        return;
    bound->start_lo = -max;
    bound->start_hi = max;
    if (keep_rate) {
        mrd_poly_range old = mrd_poly_extent(&bound->poly);

        bound->start_lo = fmax(old.rate_lo - room, -max);
        bound->start_hi = fmin(old.rate_hi + room, max);
    }
    bound->running = false;
}

/* Returns true if inequality `a` is tighter than `ineq` at every possible rate of the clock, so
 * that `ineq` is not needed. In most cases one of the two probes of a pair makes the other one
 * unnecessary. The limit on the rate includes its change within half a bin. */
static bool
implied(const mrd_ineq *ineq, const mrd_ineq *a, const mrd_bound_options *options)
{
    double looser = ineq->lower ? mrd_relative(a->v, ineq->v) : mrd_relative(ineq->v, a->v);
    double rate = options->rate_max + options->w * (MRD_BIN_NS * 0.5e-9);

    return looser >= rate * fabs(mrd_seconds(a->t, ineq->t)) + 1;
}

/* Adds `ineq` to the open bin. Returns false and does not add it if another inequality of the bin
 * implies it. Drops inequalities of the bin that `ineq` implies. If the bin is full, `ineq`
 * replaces the loosest inequality of its direction, but only if it is tighter. */
static bool
keep_tight(mrd_bound *bound, const mrd_ineq *ineq)
{
    live_bin *bin = &bound->bin;
    mrd_ineq *half = ineq->lower ? bin->ineqs + MRD_BIN_INEQS / 2 : bin->ineqs;
    size_t *n = ineq->lower ? &bin->n_down : &bin->n_up, loosest = 0, kept = 0;

    for (size_t i = 0; i < *n; i++) {
        if (implied(ineq, &half[i], &bound->options)) {
            bound->counts.implied++;
            return false;
        }
    }
    for (size_t i = 0; i < *n; i++) {
        if (!implied(&half[i], ineq, &bound->options))
            half[kept++] = half[i];
    }
    bound->counts.implied += *n - kept;
    *n = kept;
    if (*n < MRD_BIN_INEQS / 2) {
        half[(*n)++] = *ineq;
        return true;
    }
    bound->counts.over_capacity++;
    for (size_t i = 1; i < *n; i++) {
        if (ineq->lower ? half[i].v < half[loosest].v : half[i].v > half[loosest].v)
            loosest = i;
    }
    if (ineq->lower ? ineq->v > half[loosest].v : ineq->v < half[loosest].v)
        half[loosest] = *ineq;
    return true;
}

void
mrd_bound_add(mrd_bound *bound, const mrd_ineq *ineq)
{
    int64_t t0 = bin_centre(ineq->t);

    if (bound->open && bound->bin.t0 < t0)
        close_bin(bound);
    if (t0 <= bound->closed || (bound->open && t0 < bound->bin.t0)) {
        bound->counts.late++;
        return;
    }
    if (!bound->open) {
        bound->open = true;
        bound->bin.t0 = t0;
        bound->bin.n_up = bound->bin.n_down = 0;
        bound->alarm = false;
        bound->ahead = bound->poly;
        if (bound->running)
            mrd_bound_advance(&bound->ahead, bound->t0, t0, &bound->options);
        bound->cut = bound->ahead;
    }
    if (keep_tight(bound, ineq) && bound->running && !bound->alarm)
        bound->alarm = !mrd_ineq_cut(&bound->cut, ineq, bound->base, t0, bound->options.w);
}

bool
mrd_bound_peek(const mrd_bound *bound, mrd_ineq ineqs[MRD_BIN_INEQS], mrd_bound_bin *ret_bin)
{
    if (!bound->open || !bound->running || mrd_bound_holding(bound) || !bound->has_up ||
        !bound->has_down)
        return false;
    *ret_bin = (mrd_bound_bin){ bound->epoch,
                                bound->cause,
                                bound->bin.t0,
                                bound->base,
                                mrd_poly_extent(&bound->cut),
                                &bound->cut,
                                ineqs,
                                pack(&bound->bin, ineqs) };
    return true;
}

void
mrd_bound_set_w(mrd_bound *bound, double w)
{
    bound->options.w = w;
}
