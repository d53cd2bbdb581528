#include "timesync/collective/collective.h"

#include "base/num.h"
#include "base/vec.h"
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENOUGH 6  /* collectives; with fewer, a process waits for the next layer */
#define ROUNDS 10 /* rounds of lines against medians; measured to converge in 3 to 5 */

static double
session(const coll_solver *s, uint32_t p, double t)
{
    return t + s->a[p] + s->b[p] * t;
}

static void
solver_fini(coll_solver *s)
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
solver_alloc(coll_solver *s, const mrd_coll_match *m)
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
    s->x = malloc((2 * s->n + 1) * sizeof(double));
    s->y = malloc((2 * s->n + 1) * sizeof(double));
    s->w = malloc((2 * s->n + 1) * sizeof(double));
    return s->parts != NULL && s->first != NULL && s->next != NULL && s->origin != NULL &&
           s->a != NULL && s->b != NULL && s->known != NULL && s->v != NULL && s->x != NULL &&
           s->y != NULL && s->w != NULL;
}

/* Counting sort by process; collectives stay in order. */
static void
solver_fill(coll_solver *s)
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
                s->origin[p] = o->end.ns;
            s->parts[s->next[p]++] = (coll_part){ p, c, (double) (o->begin.ns - s->origin[p]),
                                                  (double) (o->end.ns - s->origin[p]) };
        }
    }
}

/* ---- lines ---- */

/* Computes the end of each collective: the median over its known participants. */
static void
meet(coll_solver *s)
{
    const mrd_coll_match *m = s->match;

    for (size_t c = 0; c < m->count; c++) {
        size_t k = 0;

        for (size_t i = m->first[c]; i < m->first[c + 1]; i++) {
            uint32_t p = m->obs[i].process;

            if (s->known[p])
                s->y[k++] = session(s, p, (double) (m->obs[i].end.ns - s->origin[p]));
        }
        s->v[c] = k == 0 ? NAN : mrd_coll_median(s->y, k);
    }
}

/* Fits one process to the known ends. Returns false if there are none. */
static bool
line_up(coll_solver *s, size_t p)
{
    size_t k = 0;

    for (size_t i = s->first[p]; i < s->first[p + 1]; i++) {
        const coll_part *q = &s->parts[i];

        if (isnan(s->v[q->coll]))
            continue;
        s->x[k] = q->end;
        s->y[k++] = s->v[q->coll] - q->end;
    }
    if (k == 0)
        return false;
    s->a[p] = mrd_coll_fit(s->x, s->y, s->w, k, &s->b[p]);
    return true;
}

/* Fits from the reference outward, then all against the common ends. */
static void
align_all(coll_solver *s)
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
        /* The timeline is the reference's own clock, so its change by the round is reverted. */
        a = s->a[s->reference];
        b = s->b[s->reference];
        for (size_t p = 0; p < np; p++) {
            s->a[p] = (s->a[p] - a) / (1 + b);
            s->b[p] = (1 + s->b[p]) / (1 + b) - 1;
        }
    }
    meet(s);
}

/* ---- samples ---- */

/* The times of each collective by the solved processes, in session time. */
typedef struct {
    double *at, *up, *down; /* NAN, INFINITY, -INFINITY while unknown */
    double *reach;          /* of `at` */
    double *sum;
    uint32_t *count; /* of this layer */
    coll_sample *samples;
    bool *done; /* per process */
    char **odd; /* why each process is at fault, or NULL */
    mrd_why *first_odd;
    const mrd_coll_options *options; /* or NULL */
} meetings;

static void
meetings_fini(meetings *m)
{
    free(m->at);
    free(m->up);
    free(m->down);
    free(m->reach);
    free(m->sum);
    free(m->count);
    free(m->samples);
    free(m->done);
}

static bool
meetings_alloc(meetings *m, const coll_solver *s)
{
    size_t n = s->match->count + 1;

    *m = (meetings){ .at = malloc(n * sizeof(double)),
                     .up = malloc(n * sizeof(double)),
                     .down = malloc(n * sizeof(double)),
                     .reach = calloc(n, sizeof(double)),
                     .sum = calloc(n, sizeof(double)),
                     .count = calloc(n, sizeof(*m->count)),
                     .samples = malloc((s->n + 1) * sizeof(*m->samples)),
                     .done = calloc(s->match->process_count + 1, sizeof(bool)) };
    if (m->at == NULL || m->up == NULL || m->down == NULL || m->reach == NULL || m->sum == NULL ||
        m->count == NULL || m->samples == NULL || m->done == NULL)
        return false;
    for (size_t c = 0; c < n; c++) {
        m->at[c] = NAN;
        m->up[c] = INFINITY;
        m->down[c] = -INFINITY;
    }
    return true;
}

static int
order_sample(const void *a, const void *b)
{
    const coll_sample *x = a, *y = b;

    return mrd_double_order(&x->end, &y->end);
}

static size_t
take_samples(const coll_solver *s, const meetings *m, size_t p)
{
    size_t n = 0;

    for (size_t i = s->first[p]; i < s->first[p + 1]; i++) {
        const coll_part *q = &s->parts[i];

        if (!isnan(m->at[q->coll]))
            m->samples[n++] =
                (coll_sample){ q->begin,       q->end,           m->at[q->coll], m->reach[q->coll],
                               m->up[q->coll], m->down[q->coll], q->coll };
    }
    qsort(m->samples, n, sizeof(*m->samples), order_sample);
    return n;
}

/* The reference's clock is session time. */
static void
publish_reference(const coll_solver *s, meetings *m)
{
    for (size_t i = s->first[s->reference]; i < s->first[s->reference + 1]; i++) {
        const coll_part *q = &s->parts[i];

        m->at[q->coll] = m->up[q->coll] = q->end;
        m->down[q->coll] = q->begin;
    }
    m->done[s->reference] = true;
}

bool
mrd_coll_knows(const mrd_coll_process *p, int64_t local)
{
    for (size_t k = 0; k < p->segment_count; k++) {
        if (local >= p->segments[k].from && local <= p->segments[k].to)
            return true;
    }
    return false;
}

static double
largest_reach(const mrd_coll_process *p)
{
    double most = 0;

    for (size_t k = 0; k < p->segment_count; k++)
        most = fmax(most, (double) p->segments[k].reach);
    return most;
}

static double
since(mrd_sess_ns at, int64_t zero) /* either may be at the end of the range */
{
    return (double) ((__int128) at.ns - zero);
}

static bool
publish(const coll_solver *s, meetings *m, const mrd_coll_solution *sol, size_t p)
{
    const mrd_coll_process *to = &sol->process[p];
    mrd_align *table = mrd_coll_align(sol, p, "");
    int64_t zero = s->origin[s->reference];
    mrd_align_cursor in = { 0 }, out = { 0 };

    for (size_t i = s->first[p]; table != NULL && i < s->first[p + 1]; i++) {
        const coll_part *q = &s->parts[i];
        int64_t begin = to->origin + llround(q->begin), end = to->origin + llround(q->end);
        mrd_align_bound b;
        mrd_sess_ns at;

        if (mrd_align_map(table, &in, (mrd_local_ns){ begin }, &at, &b) &&
            mrd_coll_knows(to, begin))
            m->down[q->coll] = fmax(m->down[q->coll], since(b.lo, zero));
        if (mrd_align_map(table, &out, (mrd_local_ns){ end }, &at, &b) && mrd_coll_knows(to, end)) {
            m->up[q->coll] = fmin(m->up[q->coll], since(b.hi, zero));
            m->sum[q->coll] += since(at, zero);
            m->count[q->coll]++;
            if (isnan(m->at[q->coll]))
                m->reach[q->coll] = fmax(m->reach[q->coll], largest_reach(to));
        }
    }
    mrd_align_free(table);
    return table != NULL;
}

/* ---- one process ---- */

static mrd_err
refuse_ends(size_t p, mrd_dur_ns median, mrd_why *why)
{
    return mrd_why_set(
        why, MRD_CLOCK, 0,
        "the ends of matched collectives do not coincide: process %zu is off by %lld "
        "ns in the median",
        p, (long long) median);
}

static mrd_err
refuse_drift(size_t p, double b, mrd_why *why)
{
    return mrd_why_set(
        why, MRD_CLOCK, 0,
        "the clock of process %zu would drift by %.0f ppm; at most 500 ppm are accepted", p,
        b * 1e6);
}

/* Uses the line that all processes agreed on instead of a single own line, unless that is much
 * better. */
static void
prefer_common(const coll_solver *s, size_t p, const coll_sample *v, coll_line *line)
{
    coll_line common = *line;

    common.a = s->a[p];
    common.b = s->b[p];
    common.residual = common.sum = 0;
    for (size_t i = 0; i < line->n; i++) {
        double r = fabs(v[i].at - v[i].end - common.a - common.b * v[i].end);

        common.residual = fmax(common.residual, r);
        common.sum += r;
    }
    if (common.residual <= 2 * line->residual + 2 * MRD_COLL_FLOOR_NS)
        *line = common;
}

static void
take_residuals(coll_solver *s, const coll_sample *v, const coll_line *lines, size_t n_lines,
               mrd_coll_process *to)
{
    size_t k = 0, n;

    for (size_t l = 0; l < n_lines; l++) {
        for (size_t i = 0; i < lines[l].n; i++) {
            const coll_sample *at = &v[lines[l].first + i];

            s->x[k++] = fabs(at->at - at->end - lines[l].a - lines[l].b * at->end);
        }
    }
    n = k;
    qsort(s->x, n, sizeof(*s->x), mrd_double_order);
    to->residual_median = llround(fmin(s->x[n / 2], MRD_COLL_FAR));
    to->residual_p99 = llround(fmin(s->x[(size_t) (0.99 * (double) (n - 1))], MRD_COLL_FAR));
    to->residual_max = llround(fmin(s->x[n - 1], MRD_COLL_FAR));
    to->used = n;
}

static double
jump(const coll_sample *v, const coll_line *before, const coll_line *after)
{
    double t = v[after->first].end;

    return after->a + after->b * t - before->a - before->b * t;
}

/* A clock that was set back makes session - local larger. */
static coll_seams
seams_of(const coll_sample *v, const coll_line *lines, size_t n_lines, size_t l)
{
    coll_seams s = { .before = l > 0, .after = l + 1 < n_lines };

    if (s.before)
        s.back_before = fmax(jump(v, &lines[l - 1], &lines[l]), 0);
    if (s.after)
        s.back_after = fmax(jump(v, &lines[l], &lines[l + 1]), 0);
    return s;
}

static mrd_err
bound_segments(const coll_solver *s, size_t p, const coll_sample *v, const coll_line *lines,
               size_t n_lines, mrd_coll_process *to, mrd_why *why)
{
    int64_t shift = s->origin[s->reference] - s->origin[p];
    size_t longest = 0;

    for (size_t l = 0; l < n_lines; l++) {
        bool fits;

        if (mrd_coll_bound(v, &lines[l], s->origin[p], shift, seams_of(v, lines, n_lines, l), to,
                           &fits) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", lines[l].n);
        if (fits && lines[l].n >= longest) {
            longest = lines[l].n;
            to->offset = shift + llround(lines[l].a);
            to->drift = lines[l].b * 1e9;
            to->aligned = true;
        }
    }
    if (to->aligned)
        return MRD_OK;
    if (fabs(lines[0].b) * 1e9 > MRD_ALIGN_RATE_MAX)
        return refuse_drift(p, lines[0].b, why);
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "the collectives of process %zu contradict each other for any clock "
                       "whose rate changes by at most 5 ppm a second",
                       p);
}

static mrd_err
add_gaps(const coll_solver *s, const coll_sample *v, const coll_line *lines, size_t n_lines,
         mrd_coll_solution *sol)
{
    for (size_t l = 0; l + 1 < n_lines; l++) {
        double wide = fmin(lines[l].residual + lines[l + 1].residual, MRD_COLL_FAR);
        int64_t zero = s->origin[s->reference];

        if (!MRD_VEC_NEXT(sol->breaks, sol->break_count))
            return MRD_NOMEM;
        sol->breaks[sol->break_count++] = (mrd_coll_break){
            zero + (int64_t) floor(v[lines[l].first + lines[l].n - 1].at - wide),
            zero + (int64_t) ceil(v[lines[l + 1].first].at + wide),
        };
    }
    return MRD_OK;
}

static mrd_err
solve_process(coll_solver *s, const meetings *m, size_t p, size_t n, mrd_coll_solution *sol,
              mrd_why *why)
{
    mrd_coll_process *to = &sol->process[p];
    coll_line lines[MRD_COLL_SEGMENTS];
    size_t n_lines = mrd_coll_cut(m->samples, n, s->x, s->y, s->w, lines);
    mrd_err err;

    if (n_lines == 1)
        prefer_common(s, p, m->samples, &lines[0]);
    to->origin = s->origin[p];
    take_residuals(s, m->samples, lines, n_lines, to);
    if (to->residual_median > MRD_COLL_RESIDUAL_MAX)
        return refuse_ends(p, to->residual_median, why);
    if ((err = mrd_coll_check_cut(s, p, m->at, m->samples, lines, n_lines, why)) != MRD_OK)
        return err;
    if (add_gaps(s, m->samples, lines, n_lines, sol) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", n);
    return bound_segments(s, p, m->samples, lines, n_lines, to, why);
}

static mrd_err
solve_reference(const coll_solver *s, mrd_coll_solution *sol, mrd_why *why)
{
    size_t p = s->reference;
    mrd_coll_process *to = &sol->process[p];
    int64_t first = INT64_MAX, last = INT64_MIN;

    to->segments = calloc(1, sizeof(*to->segments));
    to->bins = calloc(1, sizeof(*to->bins));
    if (to->segments == NULL || to->bins == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu processes", sol->process_count);
    for (size_t i = s->first[p]; i < s->first[p + 1]; i++) {
        int64_t begin = s->origin[p] + llround(s->parts[i].begin);
        int64_t end = s->origin[p] + llround(s->parts[i].end);

        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    to->aligned = true;
    to->origin = s->origin[p];
    to->used = s->first[p + 1] - s->first[p];
    to->bins[0] = (mrd_align_bin){ .at = { first }, .quality = MRD_ALIGN_GOOD };
    to->segments[0] = (mrd_coll_segment){ .from = first, .to = last, .count = 1 };
    to->segment_count = to->bin_count = 1;
    return MRD_OK;
}

/* Handles the error of one process. With leave_out, only that process is at fault. */
static mrd_err
blame(const meetings *m, size_t p, mrd_err err, const mrd_why *why)
{
    if (err != MRD_CLOCK || m->options == NULL || !m->options->leave_out)
        return err;
    if (m->first_odd->err == MRD_OK)
        *m->first_odd = *why;
    m->done[p] = true;
    return mrd_coll_note(m->odd, p, why->text);
}

/* Solves one layer further from the reference: the processes with at least this many collectives in
 * common with the solved ones. *ret_more is false if no process was added. */
static mrd_err
solve_layer(coll_solver *s, meetings *m, mrd_coll_solution *sol, size_t least, bool *ret_more,
            mrd_why *why)
{
    size_t np = s->match->process_count;
    mrd_err err;

    *ret_more = false;
    for (size_t p = 0; p < np; p++) {
        size_t n = m->done[p] ? 0 : take_samples(s, m, p);

        n = n < least ? 0 : n;
        if (n > 0 && (err = solve_process(s, m, p, n, sol, why)) != MRD_OK &&
            (err = blame(m, p, err, why)) != MRD_OK)
            return err;
    }
    for (size_t p = 0; p < np; p++) {
        if (m->done[p] || !sol->process[p].aligned)
            continue;
        m->done[p] = *ret_more = true;
        if (!publish(s, m, sol, p))
            return mrd_why_set(why, MRD_NOMEM, 0, "%zu processes", np);
    }
    for (size_t c = 0; c < s->match->count; c++) {
        if (isnan(m->at[c]) && m->count[c] > 0)
            m->at[c] = m->sum[c] / m->count[c];
    }
    return MRD_OK;
}

/* ---- Contradictions of the bounds ---- */

static void
check_one(const mrd_coll_match *m, size_t c, mrd_align *const *tables, mrd_align_cursor *cursors,
          mrd_coll_solution *sol)
{
    mrd_sess_ns enter = { INT64_MIN }, leave = { INT64_MAX };

    for (size_t i = m->first[c]; i < m->first[c + 1]; i++) {
        const mrd_coll_obs *o = &m->obs[i];
        const mrd_coll_process *p = &sol->process[o->process];
        mrd_align_cursor *at = &cursors[o->process];
        mrd_align_bound b;
        mrd_sess_ns there;

        if (tables[o->process] == NULL)
            continue;
        if (mrd_align_map(tables[o->process], at, o->begin, &there, &b) &&
            mrd_coll_knows(p, o->begin.ns))
            enter = mrd_sess_max(b.lo, enter);
        if (mrd_align_map(tables[o->process], at, o->end, &there, &b) &&
            mrd_coll_knows(p, o->end.ns))
            leave = mrd_sess_min(b.hi, leave);
    }
    if (!mrd_sess_after(enter, leave))
        return;
    sol->violations++;
    for (size_t i = m->first[c]; i < m->first[c + 1]; i++)
        sol->process[m->obs[i].process].violations++;
}

static mrd_err
check_bounds(const coll_solver *s, mrd_coll_solution *sol)
{
    size_t np = sol->process_count;
    mrd_align **tables = calloc(np + 1, sizeof(mrd_align *));
    mrd_align_cursor *cursors = calloc(np + 1, sizeof(*cursors));
    mrd_err err = tables == NULL || cursors == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t p = 0; p < np && err == MRD_OK; p++) {
        if (sol->process[p].aligned && (tables[p] = mrd_coll_align(sol, p, "")) == NULL)
            err = MRD_NOMEM;
    }
    for (size_t c = 0; c < s->match->count && err == MRD_OK; c++)
        check_one(s->match, c, tables, cursors, sol);
    for (size_t p = 0; p < np && tables != NULL; p++)
        mrd_align_free(tables[p]);
    free(tables);
    free(cursors);
    return err;
}

/* ---- the whole ---- */

static mrd_err
solve_layers(coll_solver *s, meetings *m, mrd_coll_solution *sol, mrd_why *why)
{
    mrd_dur_ns trust = m->options == NULL ? 0 : m->options->trust_ns;
    mrd_err err = solve_reference(s, sol, why);
    size_t least = ENOUGH;
    bool more = true;

    publish_reference(s, m);
    while (err == MRD_OK && more) {
        err = solve_layer(s, m, sol, least, &more, why);
        if (!more && least > 1) {
            least = 1;
            more = true;
        }
    }
    for (size_t p = 0; p < sol->process_count && err == MRD_OK; p++) {
        if (p != s->reference && s->known[p] && m->odd[p] == NULL &&
            (err = mrd_coll_check_pairs(s, p, trust, why)) != MRD_OK)
            err = blame(m, p, err, why);
    }
    if (err == MRD_OK && (err = check_bounds(s, sol)) != MRD_OK)
        err = mrd_why_set(why, err, 0, "%zu matched collectives", s->match->count);
    return err;
}

mrd_err
mrd_coll_solve_once(const mrd_coll_match *match, const mrd_coll_options *options, char **odd,
                    mrd_why *first_odd, mrd_coll_solution *ret_solution, mrd_why *why)
{
    mrd_coll_solution sol = { .process_count = match->process_count };
    meetings m = { 0 };
    coll_solver s;
    mrd_err err;

    sol.process = calloc(match->process_count + 1, sizeof(*sol.process));
    if (!solver_alloc(&s, match) || sol.process == NULL || !meetings_alloc(&m, &s)) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", match->count);
        goto out;
    }
    m.odd = odd;
    m.first_odd = first_odd;
    m.options = options;
    solver_fill(&s);
    sol.reference = s.reference;
    align_all(&s);
    if ((err = solve_layers(&s, &m, &sol, why)) != MRD_OK)
        goto out;
    *ret_solution = sol;
    sol = (mrd_coll_solution){ 0 };
out:
    mrd_coll_solution_fini(&sol);
    meetings_fini(&m);
    solver_fini(&s);
    return err;
}

void
mrd_coll_solution_fini(mrd_coll_solution *solution)
{
    for (size_t p = 0; solution->process != NULL && p < solution->process_count; p++) {
        free(solution->process[p].left_out);
        free(solution->process[p].segments);
        free(solution->process[p].bins);
    }
    free(solution->process);
    free(solution->breaks);
    memset(solution, 0, sizeof(*solution));
}

static bool
add_segment(mrd_align *align, const mrd_coll_process *p, size_t k)
{
    const mrd_coll_segment *segment = &p->segments[k];

    if (mrd_align_segment_add(align, (uint32_t) k,
                              k == 0 ? MRD_EPOCH_START : MRD_EPOCH_CONTRADICTION, segment->base,
                              segment->w) != MRD_OK)
        return false;
    for (size_t i = 0; i < segment->count; i++) {
        if (mrd_align_bin_add(align, &p->bins[segment->first + i]) != MRD_OK)
            return false;
    }
    return p->segment_count == 1 ||
           mrd_align_segment_extent(align, segment->from, segment->to) == MRD_OK;
}

mrd_align *
mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name)
{
    const mrd_coll_process *p = &solution->process[process];
    mrd_align *align;

    if (process >= solution->process_count || !p->aligned ||
        (align = mrd_align_new(name, process)) == NULL)
        return NULL;
    for (size_t k = 0; k < p->segment_count; k++) {
        if (!add_segment(align, p, k)) {
            mrd_align_free(align);
            return NULL;
        }
    }
    return align;
}
