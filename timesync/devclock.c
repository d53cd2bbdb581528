#include "timesync/devclock.h"

#include "timesync/bound_impl.h"
#include "timesync/follow_impl.h"
#include "timesync/smooth_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS     8
#define OUTLIER_NS 5000.0
#define UNBOUNDED  4e15 /* ns: 46 days; what a table says that has no bound */

/* ---- hard brackets ---- */

static size_t
bracket_ineqs(const mrd_dev_bracket *b, size_t n, mrd_ineq *to)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        if (b[i].submit != 0)
            to[k++] = (mrd_ineq){ .t = b[i].start, .v = b[i].submit - b[i].start, .lower = true };
        if (b[i].complete != 0)
            to[k++] = (mrd_ineq){ .t = b[i].end, .v = b[i].complete - b[i].end };
    }
    return k;
}

static mrd_err
solve_hard(const char *name, uint64_t clock_id, const mrd_dev_bracket *brackets, size_t n,
           mrd_align **ret_align, mrd_devclock_report *report, mrd_why *why)
{
    static const mrd_follow_options options = { .w_live = 10 * MRD_DEVCLOCK_W,
                                                .w = MRD_DEVCLOCK_W,
                                                .w_estimate = MRD_DEVCLOCK_W,
                                                .w_estimate_live = MRD_DEVCLOCK_W,
                                                .rate_max = MRD_DEVCLOCK_RATE_MAX };
    mrd_ineq *ineqs = malloc((2 * n + 1) * sizeof(*ineqs));
    mrd_follow_report track;
    mrd_err err;

    if (ineqs == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "device clock %s", name);
    err = mrd_follow_solve(name, clock_id, ineqs, bracket_ineqs(brackets, n, ineqs), NULL, 0,
                           &options, ret_align, &track, why);
    free(ineqs);
    if (err == MRD_OK) {
        report->bound = track.bound;
        report->w = track.w;
        report->bounded = true;
    }
    return err;
}

/* ---- soft sync points: a robust smoother, asked at any time ---- */

/* A point of the smoother: a sync point, or a bin of the table where only the answer is wanted. */
typedef struct {
    int64_t t;
    double z; /* cpu - dev - base; NAN: nothing measured */
    double sigma;
    mrd_kalman predicted, filtered, smoothed;
} point;

static int
order_point(const void *a, const void *b)
{
    const point *x = a, *y = b;

    if (x->t != y->t)
        return x->t < y->t ? -1 : 1;
    return isnan(x->z) - isnan(y->z);
}

static int
order_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

/* Where to begin: the slope between the medians of the first and the last third, so that no single
 * bad point decides. */
static mrd_err
prior(const point *p, size_t n, double *ret_x, double *ret_rate)
{
    double *v = malloc((n + 1) * sizeof(*v));
    size_t k = 0, third;
    double first, last, rate = 0;
    int64_t span = 0;

    if (v == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!isnan(p[i].z))
            v[k++] = p[i].z;
    }
    third = k < 3 ? 1 : k / 3;
    if (k > 1) {
        size_t a = 0, b = 0;
        int64_t ta = 0, tb = 0;

        for (size_t i = 0, j = 0; i < n; i++) { /* times at the middles of both thirds */
            if (isnan(p[i].z))
                continue;
            if (j == third / 2)
                ta = p[i].t, a = 1;
            if (j == k - third + third / 2)
                tb = p[i].t, b = 1;
            j++;
        }
        span = a && b ? tb - ta : 0;
    }
    qsort(v + (k - third), third, sizeof(*v), order_double);
    last = v[k - third + third / 2];
    if (k >= 2 * third || k == 1)
        qsort(v, third, sizeof(*v), order_double);
    first = v[third / 2];
    if (span > 0)
        rate = (last - first) / ((double) span * 1e-9);
    free(v);
    *ret_x = first;
    *ret_rate = fabs(rate) <= MRD_DEVCLOCK_RATE_MAX ? rate : 0;
    return MRD_OK;
}

static void
smooth_round(point *p, size_t n, double x, double rate)
{
    mrd_kalman k = { .x = x, .v = rate, .pxx = 1e12, .pvv = 1e8 };

    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            mrd_kalman_predict(&k, mrd_seconds(p[i - 1].t, p[i].t), MRD_DEVCLOCK_W);
        p[i].predicted = k;
        if (!isnan(p[i].z))
            mrd_kalman_update(&k, p[i].z, p[i].sigma);
        p[i].filtered = k;
    }
    p[n - 1].smoothed = p[n - 1].filtered;
    for (size_t i = n - 1; i-- > 0;)
        p[i].smoothed = mrd_kalman_back(&p[i].filtered, &p[i + 1].predicted, &p[i + 1].smoothed,
                                        mrd_seconds(p[i].t, p[i + 1].t));
}

/* Variance proportional to |residual|: least absolute residuals, not least squares. */
static void
reweigh(point *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double r = fabs(p[i].z - p[i].smoothed.x);

        if (!isnan(p[i].z))
            p[i].sigma = sqrt(MRD_DEVCLOCK_SIGMA * fmax(r, MRD_DEVCLOCK_SIGMA));
    }
}

static mrd_err
smooth_points(point *p, size_t n)
{
    double x, rate;
    mrd_err err = prior(p, n, &x, &rate);

    for (int round = 0; err == MRD_OK && round < ROUNDS; round++) {
        smooth_round(p, n, x, rate);
        reweigh(p, n);
    }
    return err;
}

static mrd_err
judge_points(const point *p, size_t n, mrd_devclock_report *report)
{
    double *r = malloc((n + 1) * sizeof(*r));
    size_t k = 0;

    if (r == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (isnan(p[i].z))
            continue;
        r[k] = fabs(p[i].z - p[i].smoothed.x);
        report->outliers += r[k++] > OUTLIER_NS;
    }
    qsort(r, k, sizeof(*r), order_double);
    report->sync_residual = k == 0 ? 0 : llround(r[k / 2]);
    report->rate = p[n / 2].smoothed.v;
    free(r);
    return MRD_OK;
}

/* ---- the table ---- */

static void
set_estimate(mrd_align_bin *bin, const point *p, double shift)
{
    bin->est = p->smoothed.x + shift;
    bin->rate = (float) p->smoothed.v;
    bin->noise = (float) sqrt(fmax(p->smoothed.pxx, 0));
}

/* The bins of a bounded table with the soft estimate put in; only the estimate changes. */
static mrd_err
merge_soft(const mrd_align *hard, const point *p, size_t n, int64_t base, mrd_align *to)
{
    mrd_err err = MRD_OK;

    for (size_t s = 0; s < mrd_align_segment_count(hard) && err == MRD_OK; s++) {
        const mrd_align_segment *seg = mrd_align_borrow_segment(hard, s);
        size_t j = 0;

        err = mrd_align_segment_add(to, seg->epoch, seg->cause, seg->base, seg->w);
        for (size_t i = 0; i < seg->count && err == MRD_OK; i++) {
            mrd_align_bin bin = mrd_align_borrow_bins(hard)[seg->first + i];

            while (j < n && (p[j].t < bin.at.ns || !isnan(p[j].z)))
                j++;
            if (j < n && p[j].t == bin.at.ns)
                set_estimate(&bin, &p[j], mrd_relative(base, seg->base));
            err = mrd_align_bin_add(to, &bin); /* clips the estimate into the bound */
        }
        if (err == MRD_OK)
            err = mrd_align_segment_extent(to, seg->from, seg->to);
    }
    return err;
}

/* Without brackets: one bin per sync point, and no bound. */
static mrd_err
soft_only(const point *p, size_t n, int64_t base, mrd_align *to)
{
    mrd_err err = mrd_align_segment_add(to, 0, MRD_EPOCH_START, base, MRD_DEVCLOCK_W);

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        mrd_align_bin bin = { .at = { p[i].t },
                              .lo = -UNBOUNDED,
                              .hi = UNBOUNDED,
                              .rate_lo = (float) -MRD_DEVCLOCK_RATE_MAX,
                              .rate_hi = (float) MRD_DEVCLOCK_RATE_MAX,
                              .quality = MRD_ALIGN_SUSPECT };

        if (i > 0 && p[i].t == p[i - 1].t)
            continue;
        set_estimate(&bin, &p[i], 0);
        err = mrd_align_bin_add(to, &bin);
    }
    return err;
}

/* Sync points and, where there is a bounded table, its bins; sorted. NULL without memory. */
static point *
make_points(const mrd_dev_sync *syncs, size_t n, const mrd_align *hard, int64_t base, size_t *ret_n)
{
    size_t bins = hard == NULL ? 0 : mrd_align_bin_count(hard);
    point *p = calloc(n + bins + 1, sizeof(*p));

    if (p == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        p[i] = (point){ .t = syncs[i].dev,
                        .z = mrd_relative(syncs[i].cpu - syncs[i].dev, base),
                        .sigma = MRD_DEVCLOCK_SIGMA };
    for (size_t i = 0; i < bins; i++)
        p[n + i] = (point){ .t = mrd_align_borrow_bins(hard)[i].at.ns, .z = NAN };
    *ret_n = n + bins;
    qsort(p, *ret_n, sizeof(*p), order_point);
    return p;
}

static mrd_err
add_soft(const mrd_align *hard, const mrd_dev_sync *syncs, size_t n, mrd_align *to,
         mrd_devclock_report *report)
{
    int64_t base = syncs[0].cpu - syncs[0].dev;
    size_t points = 0;
    point *p = make_points(syncs, n, hard, base, &points);
    mrd_err err = p == NULL ? MRD_NOMEM : smooth_points(p, points);

    if (err == MRD_OK)
        err = judge_points(p, points, report);
    if (err == MRD_OK && fabs(report->rate) > MRD_DEVCLOCK_RATE_MAX)
        err = MRD_CLOCK;
    if (err == MRD_OK)
        err = hard == NULL ? soft_only(p, points, base, to) : merge_soft(hard, p, points, base, to);
    free(p);
    return err;
}

mrd_err
mrd_devclock_solve(const char *name, uint64_t clock_id, const mrd_dev_bracket *brackets,
                   size_t n_brackets, const mrd_dev_sync *syncs, size_t n_syncs,
                   mrd_align **ret_align, mrd_devclock_report *ret_report, mrd_why *why)
{
    mrd_devclock_report report = { .brackets = n_brackets, .syncs = n_syncs };
    mrd_align *hard = NULL, *soft = NULL;
    mrd_err err = MRD_EMPTY;

    if (n_brackets > 0)
        err = solve_hard(name, clock_id, brackets, n_brackets, &hard, &report, why);
    if (n_syncs >= 2 && (err == MRD_OK || err == MRD_EMPTY)) {
        soft = mrd_align_new(name, clock_id);
        err = soft == NULL ? MRD_NOMEM : add_soft(hard, syncs, n_syncs, soft, &report);
    }
    if (err == MRD_OK) {
        *ret_align = soft == NULL ? hard : soft;
        mrd_align_free(soft == NULL ? NULL : hard);
        if (ret_report != NULL)
            *ret_report = report;
        return MRD_OK;
    }
    mrd_align_free(hard);
    mrd_align_free(soft);
    return mrd_why_set(
        why, err, 0,
        "device clock %s: %zu executions and %zu sync points give no table (rate %.0f "
        "ppb, at most %.0f)",
        name, n_brackets, n_syncs, report.rate, MRD_DEVCLOCK_RATE_MAX);
}

bool
mrd_devclock_map(const mrd_align *device, mrd_align_cursor *device_cursor, const mrd_align *node,
                 mrd_align_cursor *node_cursor, int64_t dev_ns, mrd_sess_ns *ret_at,
                 mrd_align_bound *ret_bound, mrd_align_bound *ret_dev)
{
    mrd_align_bound dev, at, lo, hi;
    mrd_sess_ns raw, sess, edge;
    mrd_align_cursor c;

    if (!mrd_align_map(device, device_cursor, (mrd_local_ns){ dev_ns }, &raw, &dev) ||
        !mrd_align_map(node, node_cursor, (mrd_local_ns){ raw.ns }, &sess, &at))
        return false;
    c = *node_cursor;
    (void) mrd_align_map(node, &c, (mrd_local_ns){ dev.lo.ns }, &edge, &lo);
    (void) mrd_align_map(node, &c, (mrd_local_ns){ dev.hi.ns }, &edge, &hi);
    *ret_at = sess;
    *ret_bound = at;
    ret_bound->lo = dev.lo.ns == INT64_MIN ? dev.lo : lo.lo;
    ret_bound->hi = dev.hi.ns == INT64_MAX ? dev.hi : hi.hi;
    ret_bound->noise = llround(hypot((double) dev.noise, (double) at.noise));
    ret_bound->quality = dev.quality < at.quality ? dev.quality : at.quality;
    *ret_dev = dev;
    return true;
}

/* ---- ticks and clocks ---- */

int64_t
mrd_ticks_ns(mrd_ticks *ticks, mrd_dev_ticks reading)
{
    uint64_t turn = ticks->bits >= 64 ? 0 : 1ULL << ticks->bits, now = reading.ticks, wide;

    if (turn == 0) {
        wide = now;
    } else {
        now &= turn - 1;
        wide = ticks->high + now;
        if (ticks->started) {
            if (now < ticks->last && ticks->last - now > turn / 2)
                wide += turn;
            else if (now > ticks->last && now - ticks->last > turn / 2 && ticks->high >= turn)
                wide -= turn; /* an older reading from before the wrap */
        }
        if (!ticks->started || wide > ticks->high + ticks->last) {
            ticks->high = wide - now;
            ticks->last = now;
        }
    }
    ticks->started = true;
    if (ticks->ns_per_tick == 1)
        return (int64_t) wide;
    return (int64_t) ((long double) wide * (long double) ticks->ns_per_tick + 0.5L);
}

mrd_err
mrd_ticks_length(const mrd_dev_sync *pairs, size_t n, double *ret_ns_per_tick)
{
    size_t a = 0, b = 0;
    double slope;

    for (size_t i = 1; i < n; i++) {
        a = pairs[i].cpu < pairs[a].cpu ? i : a;
        b = pairs[i].cpu > pairs[b].cpu ? i : b;
    }
    if (n < 2 || pairs[b].cpu - pairs[a].cpu < 10 * MRD_MS)
        return MRD_AGAIN;
    if (pairs[b].dev <= pairs[a].dev)
        return MRD_CLOCK;
    slope = (double) (pairs[b].cpu - pairs[a].cpu) / (double) (pairs[b].dev - pairs[a].dev);
    for (size_t i = 0; i < n; i++) {
        double off =
            (double) (pairs[i].cpu - pairs[a].cpu) - slope * (double) (pairs[i].dev - pairs[a].dev);

        if (fabs(off) > 1e6)
            return MRD_CLOCK;
    }
    *ret_ns_per_tick = fabs(slope - 1) < 500e-6 ? 1.0 : slope;
    return MRD_OK;
}

bool
mrd_devclock_reset(const mrd_dev_sync *before, const mrd_dev_sync *after)
{
    int64_t host = after->cpu - before->cpu, dev = after->dev - before->dev, off = dev - host;

    if (dev < 0 && host >= 0)
        return true;
    return llabs(off) > MRD_MS + llabs(host) / 2000;
}

const char *
mrd_host_clock_text(mrd_host_clock clock)
{
    static const char *const names[] = { "CLOCK_MONOTONIC_RAW", "CLOCK_MONOTONIC",
                                         "CLOCK_REALTIME" };

    return (unsigned) clock < MRD_HOST_CLOCKS ? names[clock] : "unknown";
}

/* How far outside [a, b] the stamp lies; 0 inside. */
static uint64_t
outside(int64_t stamp, int64_t a, int64_t b)
{
    if (stamp < a)
        return (uint64_t) a - (uint64_t) stamp;
    return stamp > b ? (uint64_t) stamp - (uint64_t) b : 0;
}

mrd_err
mrd_host_clock_identify(const mrd_host_reading *reading, int64_t stamp, mrd_host_clock *ret_clock,
                        mrd_why *why)
{
    uint64_t best = UINT64_MAX;
    int which = 0;

    for (int c = 0; c < MRD_HOST_CLOCKS; c++) {
        uint64_t by = outside(stamp, reading->before[c], reading->after[c]);

        if (by < best) {
            best = by;
            which = c;
        }
    }
    if (best > (uint64_t) MRD_HOST_CLOCK_SLACK)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "stamp %lld is of no known clock: nearest is %s, %llu ns away",
                           (long long) stamp, mrd_host_clock_text((mrd_host_clock) which),
                           (unsigned long long) best);
    *ret_clock = (mrd_host_clock) which;
    return MRD_OK;
}
