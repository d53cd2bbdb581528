#include "timesync/bound.h"

#include "timesync/bound_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one bin ---- */

static int64_t
bin_centre(int64_t t)
{
    int64_t k = t / MRD_BIN_NS - (t % MRD_BIN_NS < 0);

    return k * MRD_BIN_NS + MRD_BIN_NS / 2;
}

/* Returns v of an inequality moved to t0 with `rate`. */
static double
moved(const mrd_ineq *q, int64_t base, int64_t t0, double rate)
{
    return mrd_relative(q->v, base) - rate * mrd_seconds(t0, q->t);
}

void
mrd_span_envelope(const mrd_span *span, const mrd_ineq *ineqs, int64_t base, double rate,
                  double *ret_up, double *ret_down)
{
    double up = INFINITY, down = -INFINITY;

    for (size_t i = 0; i < span->n; i++) {
        const mrd_ineq *q = &ineqs[span->first + i];
        double v = moved(q, base, span->t0, rate);

        if (q->lower)
            down = fmax(down, v);
        else
            up = fmin(up, v);
    }
    *ret_up = isfinite(up) ? up : NAN;
    *ret_down = isfinite(down) ? down : NAN;
}

/*
 * Makes the first set of an epoch: everything between the greatest lower and the least upper
 * inequality, with rates in [rate_lo, rate_hi]. Needs both directions. Starts with a wide box,
 * which is then cut.
 */
static bool
start_poly(mrd_poly *poly, const mrd_span *span, const mrd_ineq *ineqs, int64_t base,
           double rate_lo, double rate_hi)
{
    double up, down, room;

    mrd_span_envelope(span, ineqs, base, (rate_lo + rate_hi) / 2, &up, &down);
    if (isnan(up) && isnan(down))
        return false;
    if (isnan(down)) /* one direction only: as wide as a double resolves well */
        down = up - MRD_BOUND_FREE;
    if (isnan(up))
        up = down + MRD_BOUND_FREE;
    room = (rate_hi - rate_lo) * 0.5 + 1e4; /* bins are 0.5 s long; the following cuts decide */
    if (down - room > up + room)
        return false;
    mrd_poly_box(poly, down - room, up + room, rate_lo, rate_hi);
    return true;
}

/* ---- The live filter ---- */

typedef struct {
    int64_t t0;
    size_t n_up, n_down;
    mrd_ineq ineqs[MRD_BIN_INEQS]; /* upper ones in the first half, lower ones in the second */
} live_bin;

struct mrd_bound {
    mrd_bound_options options;
    void (*emit)(void *self, const mrd_bound_bin *bin);
    void *self;
    mrd_bound_counts counts;

    bool running;          /* poly, t0, base, epoch are valid */
    bool has_up, has_down; /* directions seen in this epoch; nothing is emitted before both */
    mrd_poly poly;
    int64_t t0, base;
    int64_t closed; /* centre of the last closed bin */
    uint32_t epoch;
    mrd_epoch_cause cause, next_cause;
    double start_lo, start_hi; /* rates allowed at the next start */

    bool open;
    live_bin bin;
    /* the set moved to the open bin; the same, cut by the packets of that bin up to now */
    mrd_poly ahead, cut;
    bool alarm; /* packets of the open bin contradict the set */
    live_bin held[MRD_BIN_HELD_MAX];
    int held_n;
};

mrd_bound *
mrd_bound_new(const mrd_bound_options *options, void (*emit)(void *self, const mrd_bound_bin *bin),
              void *self)
{
    mrd_bound *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return NULL;
    b->options = *options;
    b->emit = emit;
    b->self = self;
    b->start_lo = -options->rate_max;
    b->start_hi = options->rate_max;
    b->closed = INT64_MIN;
    return b;
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

/* Upper before lower, loose before tight: an order that does not depend on arrival. */
static bool
ineq_before(const mrd_ineq *a, const mrd_ineq *b)
{
    if (a->lower != b->lower)
        return b->lower;
    if (a->v != b->v)
        return a->lower ? a->v < b->v : a->v > b->v;
    return a->t < b->t;
}

/* Packs both halves of a bin into one sorted list. */
static size_t
pack(const live_bin *bin, mrd_ineq to[MRD_BIN_INEQS])
{
    size_t n = bin->n_up + bin->n_down;

    memcpy(to, bin->ineqs, bin->n_up * sizeof(*to));
    memcpy(to + bin->n_up, bin->ineqs + MRD_BIN_INEQS / 2, bin->n_down * sizeof(*to));
    for (size_t i = 1; i < n; i++) {
        mrd_ineq q = to[i];
        size_t j = i;

        for (; j > 0 && ineq_before(&q, &to[j - 1]); j--)
            to[j] = to[j - 1];
        to[j] = q;
    }
    return n;
}

static void
accept(mrd_bound *b, const mrd_poly *poly, int64_t t0, const mrd_ineq *ineqs, size_t n)
{
    mrd_bound_bin out = { b->epoch, b->cause, t0, b->base, mrd_poly_extent(poly), poly, ineqs, n };

    b->poly = *poly;
    b->t0 = t0;
    for (size_t i = 0; i < n; i++) {
        b->has_up = b->has_up || !ineqs[i].lower;
        b->has_down = b->has_down || ineqs[i].lower;
    }
    b->counts.used += n;
    if (b->has_up && b->has_down)
        b->emit(b->self, &out);
    else
        b->counts.one_sided += n;
}

/* Tries to begin an epoch with this bin. */
static bool
start_with(mrd_bound *b, const live_bin *bin, double rate_lo, double rate_hi, int64_t *ret_base,
           mrd_poly *ret_poly)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs);
    mrd_span span = { bin->t0, 0, n };
    int64_t base = n > 0 ? ineqs[0].v : 0;

    if (!start_poly(ret_poly, &span, ineqs, base, rate_lo, rate_hi))
        return false;
    *ret_base = base;
    return mrd_ineqs_cut(ret_poly, ineqs, n, base, bin->t0, b->options.w);
}

static void
begin_epoch(mrd_bound *b, int64_t base, mrd_epoch_cause cause)
{
    b->base = base;
    b->cause = cause;
    b->epoch = b->counts.epochs++;
    b->counts.contradictions += cause == MRD_EPOCH_CONTRADICTION;
    b->running = true;
    b->has_up = b->has_down = false;
}

static void
start_epoch(mrd_bound *b, const live_bin *bin)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs);
    mrd_poly poly;
    int64_t base;

    if (!start_with(b, bin, b->start_lo, b->start_hi, &base, &poly)) {
        b->counts.bad += n;
        return;
    }
    begin_epoch(b, base, b->next_cause);
    b->next_cause = MRD_EPOCH_CONTRADICTION;
    accept(b, &poly, bin->t0, ineqs, n);
}

/* Returns true if the bin fits the set; *poly is then moved to it and cut. */
static bool
fits(const mrd_bound *b, mrd_poly *poly, int64_t *t0, int64_t base, const live_bin *bin)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs);
    mrd_poly next = *poly;

    mrd_bound_advance(&next, *t0, bin->t0, &b->options);
    if (!mrd_ineqs_cut(&next, ineqs, n, base, bin->t0, b->options.w))
        return false;
    *poly = next;
    *t0 = bin->t0;
    return true;
}

/* Returns true if a step of less than the set's width would have made it fit, so that there may
 * have been one. */
static bool
misses_nearly(const mrd_bound *b, const mrd_poly *poly, const mrd_ineq *q)
{
    mrd_poly_range r = mrd_poly_extent(poly);
    double v = mrd_relative(q->v, b->base), by = q->lower ? v - r.hi : r.lo - v;

    return by < r.hi - r.lo;
}

/* Takes the part of a contradicting bin that the set allows: the loosest inequalities first, so
 * that the result does not depend on their order. */
static void
salvage(mrd_bound *b, const live_bin *bin)
{
    mrd_ineq ineqs[MRD_BIN_INEQS], kept[MRD_BIN_INEQS];
    size_t n = pack(bin, ineqs), k = 0;
    mrd_poly poly = b->poly;

    mrd_bound_advance(&poly, b->t0, bin->t0, &b->options);
    for (size_t i = 0; i < n; i++) {
        mrd_poly next = poly;

        if (mrd_ineq_cut(&next, &ineqs[i], b->base, bin->t0, b->options.w)) {
            poly = next;
            kept[k++] = ineqs[i];
        } else {
            b->counts.near += misses_nearly(b, &poly, &ineqs[i]);
        }
    }
    b->counts.bad += n - k;
    if (k > 0)
        accept(b, &poly, bin->t0, kept, k);
}

static void
keep_epoch(mrd_bound *b)
{
    for (int i = 0; i < b->held_n; i++) {
        mrd_ineq ineqs[MRD_BIN_INEQS];
        mrd_poly poly = b->poly;
        int64_t t0 = b->t0;

        if (fits(b, &poly, &t0, b->base, &b->held[i]))
            accept(b, &poly, t0, ineqs, pack(&b->held[i], ineqs));
        else
            salvage(b, &b->held[i]);
    }
    b->held_n = 0;
}

/* Returns true if an epoch that begins at held bin i explains all later ones. */
static bool
explains(mrd_bound *b, int i, double rate_lo, double rate_hi, int64_t *ret_base,
         mrd_poly *ret_first)
{
    int64_t t0 = b->held[i].t0;
    mrd_poly poly;

    if (b->held[i].n_up == 0 || b->held[i].n_down == 0 ||
        !start_with(b, &b->held[i], rate_lo, rate_hi, ret_base, ret_first))
        return false;
    poly = *ret_first;
    for (int j = i + 1; j < b->held_n; j++) {
        if (!fits(b, &poly, &t0, *ret_base, &b->held[j]))
            return false;
    }
    return true;
}

static bool
try_epoch(mrd_bound *b, int i, double rate_lo, double rate_hi)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];
    mrd_poly first;
    int64_t base;

    if (!explains(b, i, rate_lo, rate_hi, &base, &first))
        return false;
    for (int j = 0; j < i; j++)
        b->counts.bad += b->held[j].n_up + b->held[j].n_down;
    begin_epoch(b, base, MRD_EPOCH_CONTRADICTION);
    accept(b, &first, b->held[i].t0, ineqs, pack(&b->held[i], ineqs));
    memmove(&b->held[0], &b->held[i + 1], (size_t) (b->held_n - i - 1) * sizeof(b->held[0]));
    b->held_n -= i + 1;
    keep_epoch(b);
    return true;
}

/* The cause of the old epoch's end is unknown: a step, a migration, a rate that was set. So its
 * rate is not taken over, and the first seconds of the new epoch are wider. */
static bool
try_epochs(mrd_bound *b, int from, int to)
{
    for (int i = from; i <= to; i++) {
        if (try_epoch(b, i, -b->options.rate_max, b->options.rate_max))
            return true;
    }
    return false;
}

/* Returns true if a step at the first held bin would explain everything as well. Wide packets
 * refute neither explanation. */
static bool
ambiguous(mrd_bound *b)
{
    mrd_poly first;
    int64_t base;

    return explains(b, 0, -b->options.rate_max, b->options.rate_max, &base, &first);
}

/* `more` means that further bins may come. */
static void
decide(mrd_bound *b, bool more)
{
    mrd_poly poly = b->poly;
    int64_t t0 = b->t0;
    int fit = 0, behind = b->held_n - 1;

    for (int i = 1; i < b->held_n; i++)
        fit += fits(b, &poly, &t0, b->base, &b->held[i]);
    if (fit == behind && behind > 0) {
        if (!more || b->held_n == MRD_BIN_HELD_MAX || !ambiguous(b))
            keep_epoch(b);
    } else if (try_epochs(b, 0, 0) || (fit <= 1 && try_epochs(b, 1, b->held_n - 2)))
        return;
    else if (fit > 0)
        keep_epoch(b);
    else { /* no bins agree: begins again with the last bin, at a free rate */
        live_bin last = b->held[b->held_n - 1];

        for (int i = 0; i < behind; i++)
            b->counts.bad += b->held[i].n_up + b->held[i].n_down;
        b->held_n = 0;
        b->running = false;
        b->start_lo = -b->options.rate_max;
        b->start_hi = b->options.rate_max;
        start_epoch(b, &last);
    }
}

static void
close_bin(mrd_bound *b)
{
    mrd_ineq ineqs[MRD_BIN_INEQS];

    if (!b->open)
        return;
    b->open = false;
    b->closed = b->bin.t0;
    if (!b->running) {
        start_epoch(b, &b->bin);
        return;
    }
    if (b->held_n == 0) {
        size_t n = pack(&b->bin, ineqs);

        if (mrd_ineqs_cut(&b->ahead, ineqs, n, b->base, b->bin.t0, b->options.w)) {
            accept(b, &b->ahead, b->bin.t0, ineqs, n);
            return;
        }
    }
    b->held[b->held_n++] = b->bin;
    if (b->held_n >= MRD_BIN_HELD)
        decide(b, true);
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

/* Returns true if `a` implies q at any rate between the two. Usually one packet of a pair per
 * direction is needed. Both are cut with the slack w d^2 / 2 of their distance from the centre, at
 * most half a bin. */
static bool
implied(const mrd_ineq *q, const mrd_ineq *a, const mrd_bound_options *o)
{
    double looser = q->lower ? mrd_relative(a->v, q->v) : mrd_relative(q->v, a->v);
    double rate = o->rate_max + o->w * (MRD_BIN_NS * 0.5e-9);

    return looser >= rate * fabs(mrd_seconds(a->t, q->t)) + 1;
}

/* Keeps the tightest MRD_BIN_INEQS / 2 of each direction, and none that another one implies.
 * Returns false if q is not kept because it is implied. */
static bool
keep_tight(mrd_bound *b, const mrd_ineq *q)
{
    live_bin *bin = &b->bin;
    mrd_ineq *half = q->lower ? bin->ineqs + MRD_BIN_INEQS / 2 : bin->ineqs;
    size_t *n = q->lower ? &bin->n_down : &bin->n_up, loosest = 0, kept = 0;

    for (size_t i = 0; i < *n; i++) {
        if (implied(q, &half[i], &b->options)) {
            b->counts.implied++;
            return false;
        }
    }
    for (size_t i = 0; i < *n; i++) {
        if (!implied(&half[i], q, &b->options))
            half[kept++] = half[i];
    }
    b->counts.implied += *n - kept;
    *n = kept;
    if (*n < MRD_BIN_INEQS / 2) {
        half[(*n)++] = *q;
        return true;
    }
    b->counts.over_capacity++;
    for (size_t i = 1; i < *n; i++) {
        if (q->lower ? half[i].v < half[loosest].v : half[i].v > half[loosest].v)
            loosest = i;
    }
    if (q->lower ? q->v > half[loosest].v : q->v < half[loosest].v)
        half[loosest] = *q;
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
