#include "tests/sim/judge.h"

#include "tests/timesync/rng.h"

#include "timesync/bound_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void
verdict_add(verdict *v, mrd_sess_ns got, const mrd_align_bound *bound, int64_t truth)
{
    if (v->n == v->cap) {
        v->cap = v->cap == 0 ? 1024 : v->cap * 2;
        v->error = realloc(v->error, v->cap * sizeof(double));
        v->width = realloc(v->width, v->cap * sizeof(double));
        if (v->error == NULL || v->width == NULL)
            abort();
    }
    if (bound != NULL && (truth < bound->lo.ns || truth > bound->hi.ns)) {
        double by = truth < bound->lo.ns ? (double) (bound->lo.ns - truth)
                                         : (double) (truth - bound->hi.ns);

        v->missed++;
        v->missed_good += bound->quality > MRD_ALIGN_SUSPECT;
        v->worst_miss = fmax(v->worst_miss, by);
    }
    if (bound != NULL && bound->quality == MRD_ALIGN_GAP) {
        /* in a gap only the interval counts, which was checked above; the estimate there is a mere
         * connecting line */
        v->gap++;
        return;
    }
    v->error[v->n] = fabs((double) (got.ns - truth));
    /* subtract integers, because session times in ns are too large for a double */
    v->width[v->n++] = bound == NULL ? 0 : (double) (bound->hi.ns - bound->lo.ns);
}

void
verdict_fini(verdict *v)
{
    free(v->error);
    free(v->width);
    memset(v, 0, sizeof(*v));
}

static int
order_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double
quantile_us(double *v, size_t n, double q)
{
    if (n == 0)
        return NAN;
    qsort(v, n, sizeof(*v), order_double);
    return v[(size_t) (q * (double) (n - 1))] * 1e-3;
}

double
verdict_error(verdict *v, double q)
{
    return quantile_us(v->error, v->n, q);
}

double
verdict_width(verdict *v, double q)
{
    return quantile_us(v->width, v->n, q);
}

void
verdict_print(const char *name, verdict *v)
{
    size_t all = v->n + v->gap;

    printf("  %-22s error %8.3f /%9.3f us  width %8.2f /%9.2f us  coverage %.4f of %zu"
           "  gap %zu  none %zu\n",
           name, verdict_error(v, 0.5), verdict_error(v, 0.99), verdict_width(v, 0.5),
           verdict_width(v, 0.99), all == 0 ? 0 : (double) (all - v->missed) / (double) all, all,
           v->gap, v->none);
}

/* ---- the three answers ---- */

static mrd_align_cursor
fresh(void)
{
    return (mrd_align_cursor){ 0, 0 };
}

static int64_t
event_at(const judge_input *in, rng *r, size_t i)
{
    double step = (double) (in->to - in->from) / (double) in->events;

    return in->from + (int64_t) (((double) i + rng_unit(r)) * step);
}

static void
judge_live(const judge_input *in, mrd_follow *follow, outcome *o)
{
    rng r = rng_new(in->seed);
    size_t fed = 0;

    o->noticed_s = NAN;
    for (size_t i = 0; i < in->events; i++) {
        int64_t at = event_at(in, &r, i);
        mrd_local_ns local = { in->local_of(in->self, at) };
        mrd_align_bound bound;
        mrd_sess_ns got;

        for (; fed < in->n && in->known[fed] <= at; fed++)
            mrd_follow_probe(follow, &in->probes[fed]);
        if (!mrd_follow_live(follow, local, &got, &bound)) {
            o->live.none++;
            continue;
        }
        if (in->step_at != 0 && at > in->step_at && isnan(o->noticed_s) &&
            (bound.quality <= MRD_ALIGN_SUSPECT || bound.epoch > 0))
            o->noticed_s = (double) (at - in->step_at) * 1e-9;
        o->suspected += bound.quality <= MRD_ALIGN_SUSPECT;
        o->live_epochs = bound.epoch + 1;
        verdict_add(&o->live, got, &bound, at);
        if (at - in->from > 30 * MRD_SEC)
            verdict_add(&o->late, got, &bound, at);
    }
}

static void
judge_offline(const judge_input *in, outcome *o)
{
    rng r = rng_new(in->seed + 1);
    mrd_align_cursor cursor = fresh();
    int64_t last = INT64_MIN;

    for (size_t i = 0; i < in->events; i++) {
        int64_t at = event_at(in, &r, i);
        mrd_local_ns local = { in->local_of(in->self, at) };
        mrd_align_bound bound;
        mrd_sess_ns got;

        if (!mrd_align_map(o->align, &cursor, local, &got, &bound)) {
            o->offline.none++;
            continue;
        }
        verdict_add(&o->offline, got, &bound, at);
        o->disorder = o->disorder || (in->ordered && got.ns < last);
        last = got.ns;
    }
}

void
judge(const judge_input *in, outcome *ret_outcome)
{
    mrd_follow *follow = mrd_follow_new("node", 1, &mrd_follow_defaults);
    outcome *o = ret_outcome;

    memset(o, 0, sizeof(*o));
    if (follow == NULL)
        abort();
    judge_live(in, follow, o);
    o->err = mrd_follow_offline(
        &(mrd_follow_input){
            .name = "node", .clock_id = 1, .probes = in->probes, .n_probes = in->n },
        &o->align, &o->report, &o->why);
    if (o->err == MRD_OK)
        judge_offline(in, o);
    mrd_follow_free(follow);
}

void
outcome_fini(outcome *o)
{
    verdict_fini(&o->live);
    verdict_fini(&o->late);
    verdict_fini(&o->offline);
    mrd_align_free(o->align);
}

/* ---- Simple methods of clock alignment for comparison. They may use all probes ---- */

const char *const baseline_names[BASE_COUNT] = { "middle-of-RTT average", "two-point line",
                                                 "best-of-8", "weighted regression",
                                                 "single hull" };

typedef struct {
    int64_t t;
    double mid, delay; /* relative to base; ns */
} round_trip;

static size_t
round_trips(const mrd_probe *probes, size_t n, int64_t base, round_trip *to)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        const mrd_probe *p = &probes[i];

        if (!p->up || !p->down)
            continue;
        to[k].t = p->a1 + (p->a4 - p->a1) / 2;
        to[k].mid = (mrd_relative(p->r2 - p->a1, base) + mrd_relative(p->r3 - p->a4, base)) / 2;
        to[k++].delay = (double) ((p->a4 - p->a1) - (p->r3 - p->r2));
    }
    return k;
}

static void
line_fit(baseline_fit *fit, const round_trip *rt, const double *w, size_t n)
{
    double sw = 0, st = 0, sv = 0, stt = 0, stv = 0;

    for (size_t i = 0; i < n; i++) {
        double t = mrd_seconds(fit->t0, rt[i].t);

        sw += w[i];
        st += w[i] * t;
        sv += w[i] * rt[i].mid;
    }
    st /= sw;
    sv /= sw;
    for (size_t i = 0; i < n; i++) {
        double t = mrd_seconds(fit->t0, rt[i].t) - st;

        stt += w[i] * t * t;
        stv += w[i] * t * (rt[i].mid - sv);
    }
    fit->b = stt > 0 ? stv / stt : 0;
    fit->a = sv - fit->b * st;
}

/* Fits a line through two round trips: the one with the least delay of the first 16, and the one of
 * the last 16. */
static void
two_point(baseline_fit *fit, const round_trip *rt, size_t n)
{
    size_t m = n < 32 ? n / 2 : 16, a = 0, b = n - 1;

    for (size_t i = 0; i < m; i++) {
        a = rt[i].delay < rt[a].delay ? i : a;
        b = rt[n - 1 - i].delay < rt[b].delay ? n - 1 - i : b;
    }
    fit->b = a == b ? 0 : (rt[b].mid - rt[a].mid) / mrd_seconds(rt[a].t, rt[b].t);
    fit->a = rt[a].mid - fit->b * mrd_seconds(fit->t0, rt[a].t);
}

/* Imitates NTP's clock filter: of each 8 round trips it uses the one with the least delay, and
 * interpolates linearly between these. */
static void
best_of_8(baseline_fit *fit, const round_trip *rt, size_t n)
{
    fit->t = malloc((n + 1) * sizeof(*fit->t));
    fit->v = malloc((n + 1) * sizeof(*fit->v));
    if (fit->t == NULL || fit->v == NULL)
        abort();
    for (size_t i = 0; i < n; i += 8) {
        size_t best = i;

        for (size_t j = i; j < n && j < i + 8; j++)
            best = rt[j].delay < rt[best].delay ? j : best;
        fit->t[fit->n] = rt[best].t;
        fit->v[fit->n++] = rt[best].mid;
    }
}

static void
regression(baseline_fit *fit, const round_trip *rt, size_t n)
{
    double *w = malloc((n + 1) * sizeof(*w)), least = INFINITY, spread = 0;

    if (w == NULL)
        abort();
    for (size_t i = 0; i < n; i++)
        least = fmin(least, rt[i].delay);
    for (size_t i = 0; i < n; i++)
        spread += (rt[i].delay - least) / (double) n;
    for (size_t i = 0; i < n; i++) {
        double f = 1 + (rt[i].delay - least) / fmax(spread, 1);

        w[i] = 1 / (f * f * f * f); /* variance grows with the square of (1 + excess)^2 */
    }
    line_fit(fit, rt, w, n);
    free(w);
}

/* Fits one straight line that violates no inequality: it lies below all upper and above all lower
 * ones, in the middle of the feasible set. */
static void
hull(baseline_fit *fit, const mrd_probe *probes, size_t n)
{
    mrd_poly p;
    mrd_poly_range r;

    mrd_poly_box(&p, -1e12, 1e12, -MRD_BOUND_RATE_MAX, MRD_BOUND_RATE_MAX);
    for (size_t i = 0; i < n; i++) {
        mrd_ineq q[2];
        size_t k = mrd_probe_ineqs(&probes[i], q);

        if (!mrd_ineqs_cut(&p, q, k, fit->base, fit->t0, 0)) {
            fit->ok = false;
            return;
        }
    }
    r = mrd_poly_extent(&p);
    fit->b = (r.rate_lo + r.rate_hi) / 2;
    fit->a = (r.lo + r.hi) / 2;
}

void
baseline_solve(baseline kind, const mrd_probe *probes, size_t n, baseline_fit *ret_fit)
{
    round_trip *rt = malloc((n + 1) * sizeof(*rt));
    baseline_fit fit = { .ok = n > 0 };
    size_t k;

    if (rt == NULL)
        abort();
    if (n > 0) {
        fit.base = probes[0].r2 - probes[0].a1;
        fit.t0 = probes[n / 2].a1;
    }
    k = round_trips(probes, n, fit.base, rt);
    fit.ok = k > 1;
    if (!fit.ok)
        goto out;
    if (kind == BASE_MIDDLE) {
        for (size_t i = 0; i < k; i++)
            fit.a += rt[i].mid / (double) k;
    } else if (kind == BASE_TWO_POINT) {
        two_point(&fit, rt, k);
    } else if (kind == BASE_BEST_OF_8) {
        best_of_8(&fit, rt, k);
    } else if (kind == BASE_REGRESSION) {
        regression(&fit, rt, k);
    } else {
        hull(&fit, probes, n);
    }
out:
    free(rt);
    *ret_fit = fit;
}

int64_t
baseline_offset(const baseline_fit *fit, int64_t local)
{
    size_t lo = 0, hi = fit->n;
    double f;

    if (fit->n == 0)
        return fit->base + llround(fit->a + fit->b * mrd_seconds(fit->t0, local));
    if (fit->n == 1)
        return fit->base + llround(fit->v[0]);
    while (lo + 1 < hi) {
        size_t mid = (lo + hi) / 2;

        if (fit->t[mid] <= local)
            lo = mid;
        else
            hi = mid;
    }
    if (lo + 1 == fit->n)
        lo--;
    f = (double) (local - fit->t[lo]) / (double) (fit->t[lo + 1] - fit->t[lo]);
    return fit->base + llround(fit->v[lo] + (fit->v[lo + 1] - fit->v[lo]) * f);
}

void
baseline_fini(baseline_fit *fit)
{
    free(fit->t);
    free(fit->v);
}
