#include "timesync/collective.h"

#include "timesync/collective_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS      10    /* of lines against medians; measured to settle in 3 to 5 */
#define REWEIGHTS   12    /* of one robust line */
#define FLOOR_NS    500.0 /* residuals below count alike */
#define SPAN_MIN_NS 20e6  /* a shorter stretch says nothing about drift: 500 ppm of it is 10 us */

/* One participation: a process, a collective, times relative to the process's origin. */
typedef struct {
    uint32_t process;
    size_t coll;
    double begin, end;
} part;

typedef struct {
    const mrd_coll_match *match;
    size_t n;             /* parts */
    part *parts;          /* sorted by process, then collective */
    size_t *first, *next; /* per process, process_count + 1; next is a cursor while filling */
    int64_t *origin;      /* per process: its first matched end */
    double *a, *b;        /* per process: session - local = a + b * t, relative to the origins */
    bool *known;          /* per process: reaches the reference */
    double *v;            /* per collective: its end, relative to the reference's origin; NAN */
    double *x, *y, *w;    /* scratch, n each */
    size_t reference;
} solver;

static double
session(const solver *s, uint32_t p, double t)
{
    return t + s->a[p] + s->b[p] * t;
}

static void
solver_fini(solver *s)
{
    free(s->parts);
    free(s->first);
    free(s->next);
    free(s->origin);
    free(s->a);
    free(s->b);
    free(s->known);
    free(s->v);
    free(s->x);
    free(s->y);
    free(s->w);
}

static bool
solver_alloc(solver *s, const mrd_coll_match *m)
{
    size_t np = m->process_count + 1;

    memset(s, 0, sizeof(*s));
    s->match = m;
    s->n = m->obs_n;
    s->parts = malloc((s->n + 1) * sizeof(*s->parts));
    s->first = calloc(np + 1, sizeof(*s->first));
    s->next = calloc(np, sizeof(*s->next));
    s->origin = calloc(np, sizeof(*s->origin));
    s->a = calloc(np, sizeof(double));
    s->b = calloc(np, sizeof(double));
    s->known = calloc(np, sizeof(bool));
    s->v = malloc((m->count + 1) * sizeof(double));
    s->x = malloc((s->n + 1) * sizeof(double));
    s->y = malloc((s->n + 1) * sizeof(double));
    s->w = malloc((s->n + 1) * sizeof(double));
    return s->parts != NULL && s->first != NULL && s->next != NULL && s->origin != NULL &&
           s->a != NULL && s->b != NULL && s->known != NULL && s->v != NULL && s->x != NULL &&
           s->y != NULL && s->w != NULL;
}

/* Counting sort by process; collectives stay in order. */
static void
solver_fill(solver *s)
{
    const mrd_coll_match *m = s->match;

    for (size_t i = 0; i < s->n; i++)
        s->first[m->obs[i].process + 1]++;
    for (size_t p = 0; p < m->process_count; p++)
        s->first[p + 1] += s->first[p];
    s->reference = m->process_count;
    for (size_t p = m->process_count; p-- > 0;)
        s->reference = s->first[p + 1] > s->first[p] ? p : s->reference;
    memcpy(s->next, s->first, m->process_count * sizeof(*s->next));
    for (size_t c = 0; c < m->count; c++) {
        for (size_t i = m->first[c]; i < m->first[c + 1]; i++) {
            const mrd_coll_obs *o = &m->obs[i];
            uint32_t p = o->process;

            if (s->next[p] == s->first[p])
                s->origin[p] = o->end_ns;
            s->parts[s->next[p]++] = (part){ p, c, (double) (o->begin_ns - s->origin[p]),
                                             (double) (o->end_ns - s->origin[p]) };
        }
    }
}

/* ---- lines ---- */

static double
fit_weighted(const double *x, const double *y, const double *w, size_t n, double *ret_b)
{
    double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, least = INFINITY, most = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        sw += w[i];
        sx += w[i] * x[i];
        sy += w[i] * y[i];
        least = fmin(least, x[i]);
        most = fmax(most, x[i]);
    }
    sx /= sw;
    sy /= sw;
    for (size_t i = 0; i < n; i++) {
        sxx += w[i] * (x[i] - sx) * (x[i] - sx);
        sxy += w[i] * (x[i] - sx) * (y[i] - sy);
    }
    *ret_b = most - least >= SPAN_MIN_NS ? sxy / sxx : 0;
    return sy - *ret_b * sx;
}

/* A line of least absolute residuals, by reweighting. */
static double
fit_robust(const double *x, const double *y, double *w, size_t n, double *ret_b)
{
    double a = 0;

    for (size_t i = 0; i < n; i++)
        w[i] = 1;
    for (int round = 0; round < REWEIGHTS; round++) {
        a = fit_weighted(x, y, w, n, ret_b);
        for (size_t i = 0; i < n; i++)
            w[i] = 1 / fmax(fabs(y[i] - a - *ret_b * x[i]), FLOOR_NS);
    }
    return a;
}

static int
order_double(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return x < y ? -1 : x > y;
}

static double
median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), order_double);
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* The end of each collective: the median over the participants that are known. */
static void
meet(solver *s)
{
    const mrd_coll_match *m = s->match;

    for (size_t c = 0; c < m->count; c++) {
        size_t k = 0;

        for (size_t i = m->first[c]; i < m->first[c + 1]; i++) {
            uint32_t p = m->obs[i].process;

            if (s->known[p])
                s->y[k++] = session(s, p, (double) (m->obs[i].end_ns - s->origin[p]));
        }
        s->v[c] = k == 0 ? NAN : median(s->y, k);
    }
}

/* Fits one process to the ends that are known; false when there are none. */
static bool
line_up(solver *s, size_t p)
{
    size_t k = 0;

    for (size_t i = s->first[p]; i < s->first[p + 1]; i++) {
        const part *q = &s->parts[i];

        if (isnan(s->v[q->coll]))
            continue;
        s->x[k] = q->end;
        s->y[k++] = s->v[q->coll] - q->end;
    }
    if (k == 0)
        return false;
    s->a[p] = fit_robust(s->x, s->y, s->w, k, &s->b[p]);
    return true;
}

/* From the reference outward, then all against the common ends. */
static void
align_all(solver *s)
{
    size_t np = s->match->process_count;
    bool more = true;

    s->known[s->reference] = true;
    while (more) {
        more = false;
        meet(s);
        for (size_t p = 0; p < np; p++) {
            if (!s->known[p] && line_up(s, p))
                s->known[p] = more = true;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        double a, b;

        meet(s);
        for (size_t p = 0; p < np; p++)
            (void) (s->known[p] && line_up(s, p));
        /* The timeline is the reference's own clock: undo what the round did to it. */
        a = s->a[s->reference];
        b = s->b[s->reference];
        for (size_t p = 0; p < np; p++) {
            s->a[p] = (s->a[p] - a) / (1 + b);
            s->b[p] = (1 + s->b[p]) / (1 + b) - 1;
        }
    }
    meet(s);
}

/* ---- residuals, bound ---- */

static mrd_err
judge(solver *s, mrd_coll_process *to, mrd_why *why)
{
    for (size_t p = 0; p < s->match->process_count; p++) {
        size_t k = 0;

        if (!s->known[p] || s->first[p] == s->first[p + 1])
            continue;
        for (size_t i = s->first[p]; i < s->first[p + 1]; i++)
            s->x[k++] = fabs(session(s, (uint32_t) p, s->parts[i].end) - s->v[s->parts[i].coll]);
        qsort(s->x, k, sizeof(*s->x), order_double);
        to[p].aligned = true;
        to[p].origin = s->origin[p];
        to[p].offset = s->origin[s->reference] - s->origin[p] + llround(s->a[p]);
        to[p].drift = s->b[p] * 1e9;
        to[p].residual_median = llround(s->x[k / 2]);
        to[p].residual_p99 = llround(s->x[(size_t) (0.99 * (double) (k - 1))]);
        to[p].residual_max = llround(s->x[k - 1]);
        to[p].used = k;
        if (to[p].residual_median > MRD_COLL_RESIDUAL_MAX)
            return mrd_why_set(
                why, MRD_CLOCK, 0,
                "the ends of matched collectives do not coincide: process %zu is off by "
                "%lld ns in the median",
                p, (long long) to[p].residual_median);
        if (fabs(to[p].drift) > MRD_ALIGN_RATE_MAX)
            return mrd_why_set(
                why, MRD_CLOCK, 0,
                "process %zu would need a drift of %.0f ppm, at most 500 are believed", p,
                to[p].drift / 1000);
    }
    return MRD_OK;
}

/* True when even under the fitted lines somebody left before somebody entered. */
static bool
impossible(const solver *s, size_t c)
{
    const mrd_coll_match *m = s->match;
    double enter = -INFINITY, leave = INFINITY;

    for (size_t i = m->first[c]; i < m->first[c + 1]; i++) {
        uint32_t p = m->obs[i].process;

        if (!s->known[p])
            return true;
        enter = fmax(enter, session(s, p, (double) (m->obs[i].begin_ns - s->origin[p])));
        leave = fmin(leave, session(s, p, (double) (m->obs[i].end_ns - s->origin[p])));
    }
    return enter > leave;
}

/*
 * Bellman-Ford over processes and collectives, sign = 1 for the largest shift of each process that
 * the inequalities allow, -1 for the most negative one. shift[reference] = 0.
 */
static void
relax(solver *s, const bool *skip, double sign, double *shift, double *at)
{
    const mrd_coll_match *m = s->match;
    bool changed = true;

    for (size_t p = 0; p < m->process_count; p++)
        shift[p] = p == s->reference ? 0 : INFINITY;
    for (size_t round = 0; changed && round <= m->process_count; round++) {
        changed = false;
        for (size_t c = 0; c < m->count; c++)
            at[c] = INFINITY;
        for (size_t i = 0; i < s->n; i++) {
            const part *q = &s->parts[i];
            double leave = session(s, q->process, sign > 0 ? q->end : q->begin) * sign;

            if (!skip[q->coll])
                at[q->coll] = fmin(at[q->coll], leave + shift[q->process]);
        }
        for (size_t i = 0; i < s->n; i++) {
            const part *q = &s->parts[i];
            double enter = session(s, q->process, sign > 0 ? q->begin : q->end) * sign;
            double room = at[q->coll] - enter;

            if (!skip[q->coll] && room < shift[q->process] && q->process != s->reference) {
                shift[q->process] = room;
                changed = true;
            }
        }
    }
}

static mrd_err
bound_all(solver *s, mrd_coll_solution *sol)
{
    size_t np = s->match->process_count;
    bool *skip = calloc(s->match->count + 1, sizeof(*skip));
    double *up = malloc((np + 1) * sizeof(*up)), *down = malloc((np + 1) * sizeof(*down));

    if (skip == NULL || up == NULL || down == NULL) {
        free(skip);
        free(up);
        free(down);
        return MRD_NOMEM;
    }
    for (size_t c = 0; c < s->match->count; c++) {
        skip[c] = impossible(s, c);
        sol->violations += skip[c] && !isnan(s->v[c]);
    }
    relax(s, skip, 1, up, s->v);
    relax(s, skip, -1, down, s->v);
    for (size_t p = 0; p < np; p++) {
        mrd_coll_process *to = &sol->process[p];

        to->hi = isfinite(up[p]) ? (int64_t) ceil(fmax(up[p], 0)) : INT64_MAX;
        to->lo = isfinite(down[p]) ? -(int64_t) ceil(fmax(down[p], 0)) : INT64_MIN;
    }
    free(skip);
    free(up);
    free(down);
    return MRD_OK;
}

mrd_err
mrd_coll_solve(const mrd_coll_match *match, mrd_coll_solution *ret_solution, mrd_why *why)
{
    mrd_coll_solution sol = { .process_count = match->process_count };
    mrd_err err = MRD_OK;
    solver s;

    sol.process = calloc(match->process_count + 1, sizeof(*sol.process));
    if (!solver_alloc(&s, match) || sol.process == NULL) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", match->count);
        goto out;
    }
    solver_fill(&s);
    sol.reference = s.reference;
    align_all(&s);
    if ((err = judge(&s, sol.process, why)) != MRD_OK)
        goto out;
    if ((err = bound_all(&s, &sol)) != MRD_OK) {
        err = mrd_why_set(why, err, 0, "%zu matched collectives", match->count);
        goto out;
    }
    *ret_solution = sol;
    sol.process = NULL;
out:
    free(sol.process);
    solver_fini(&s);
    return err;
}

void
mrd_coll_solution_fini(mrd_coll_solution *solution)
{
    free(solution->process);
    memset(solution, 0, sizeof(*solution));
}

static bool
add_bin(mrd_align *align, const mrd_coll_process *p, int64_t at)
{
    double est = p->drift * 1e-9 * (double) (at - p->origin);
    mrd_align_bin bin = { .at = { at },
                          .est = est,
                          .lo = p->lo == INT64_MIN ? -4e15 : est + (double) p->lo,
                          .hi = p->hi == INT64_MAX ? 4e15 : est + (double) p->hi,
                          .rate = (float) p->drift,
                          .rate_lo = (float) p->drift,
                          .rate_hi = (float) p->drift,
                          .noise = (float) p->residual_median,
                          .quality = MRD_ALIGN_GOOD };

    return mrd_align_bin_add(align, &bin) == MRD_OK;
}

mrd_align *
mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name, int64_t first,
               int64_t last)
{
    const mrd_coll_process *p = &solution->process[process];
    mrd_align *align;

    if (process >= solution->process_count || !p->aligned ||
        (align = mrd_align_new(name, process)) == NULL)
        return NULL;
    if (mrd_align_segment_add(align, 0, MRD_EPOCH_START, p->offset, 0) == MRD_OK &&
        add_bin(align, p, first) && (last <= first || add_bin(align, p, last)))
        return align;
    mrd_align_free(align);
    return NULL;
}
