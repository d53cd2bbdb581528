#include "timesync/collective/collective.h"

#include "base/num.h"
#include "base/vec.h"
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Minimum number of collectives that a process must share with the solved processes to be solved
 * next. A process that shares fewer is solved later, when more of its partners are solved. */
#define ENOUGH 6
/* Number of rounds of fitting lines and taking medians. In measurements, 3 to 5 rounds were enough
 * to converge. */
#define ROUNDS 10

static double
session(const coll_solver *solver, uint32_t p, double t)
{
    return t + solver->a[p] + solver->b[p] * t;
}

static void
solver_fini(coll_solver *solver)
{
    free(solver->parts);
    free(solver->first);
    free(solver->next);
    free(solver->origin);
    free(solver->a);
    free(solver->b);
    free(solver->known);
    free(solver->v);
    free(solver->x);
    free(solver->y);
    free(solver->w);
}

static bool
solver_alloc(coll_solver *solver, const mrd_coll_match *match)
{
    size_t np = match->process_count + 1;

    memset(solver, 0, sizeof(*solver));
    solver->match = match;
    solver->n = match->obs_n;
    solver->parts = malloc((solver->n + 1) * sizeof(*solver->parts));
    solver->first = calloc(np + 1, sizeof(*solver->first));
    solver->next = calloc(np, sizeof(*solver->next));
    solver->origin = calloc(np, sizeof(*solver->origin));
    solver->a = calloc(np, sizeof(double));
    solver->b = calloc(np, sizeof(double));
    solver->known = calloc(np, sizeof(bool));
    solver->v = malloc((match->count + 1) * sizeof(double));
    solver->x = malloc((2 * solver->n + 1) * sizeof(double));
    solver->y = malloc((2 * solver->n + 1) * sizeof(double));
    solver->w = malloc((2 * solver->n + 1) * sizeof(double));
    return solver->parts != NULL && solver->first != NULL && solver->next != NULL &&
           solver->origin != NULL && solver->a != NULL && solver->b != NULL &&
           solver->known != NULL && solver->v != NULL && solver->x != NULL && solver->y != NULL &&
           solver->w != NULL;
}

/* Fills solver->parts with the observations, sorted by process. The collectives of a process keep
 * their order. */
static void
solver_fill(coll_solver *solver)
{
    const mrd_coll_match *match = solver->match;

    for (size_t i = 0; i < solver->n; i++)
        solver->first[match->obs[i].process + 1]++;
    for (size_t p = 0; p < match->process_count; p++)
        solver->first[p + 1] += solver->first[p];
    solver->reference = match->process_count;
    for (size_t p = match->process_count; p-- > 0;)
        solver->reference = solver->first[p + 1] > solver->first[p] ? p : solver->reference;
    memcpy(solver->next, solver->first, match->process_count * sizeof(*solver->next));
    for (size_t c = 0; c < match->count; c++) {
        for (size_t i = match->first[c]; i < match->first[c + 1]; i++) {
            const mrd_coll_obs *obs = &match->obs[i];
            uint32_t p = obs->process;

            if (solver->next[p] == solver->first[p])
                solver->origin[p] = obs->end.ns;
            solver->parts[solver->next[p]++] =
                (coll_part){ p, c, (double) (obs->begin.ns - solver->origin[p]),
                             (double) (obs->end.ns - solver->origin[p]) };
        }
    }
}

/* ---- Fitting lines to processes ---- */

/* Computes when each collective ended, in session time. This is the median of its ends on the
 * clocks of the participants that are connected to the reference process. */
static void
meet(coll_solver *solver)
{
    const mrd_coll_match *match = solver->match;

    for (size_t c = 0; c < match->count; c++) {
        size_t k = 0;

        for (size_t i = match->first[c]; i < match->first[c + 1]; i++) {
            uint32_t p = match->obs[i].process;

            if (solver->known[p])
                solver->y[k++] =
                    session(solver, p, (double) (match->obs[i].end.ns - solver->origin[p]));
        }
        solver->v[c] = k == 0 ? NAN : mrd_coll_median(solver->y, k);
    }
}

/* Fits the line of process p, which maps its clock to session time, to the known ends of its
 * collectives. Returns false if all ends are unknown. */
static bool
line_up(coll_solver *solver, size_t p)
{
    size_t k = 0;

    for (size_t i = solver->first[p]; i < solver->first[p + 1]; i++) {
        const coll_part *part = &solver->parts[i];

        if (isnan(solver->v[part->coll]))
            continue;
        solver->x[k] = part->end;
        solver->y[k++] = solver->v[part->coll] - part->end;
    }
    if (k == 0)
        return false;
    solver->a[p] = mrd_coll_fit(solver->x, solver->y, solver->w, k, &solver->b[p]);
    return true;
}

/* Fits a line to each process. Starts with the processes that share collectives with the reference
 * process, continues with their partners, and so on. Then repeats the fit of all lines against the
 * median ends, ROUNDS times. */
static void
align_all(coll_solver *solver)
{
    size_t np = solver->match->process_count;
    bool more = true;

    solver->known[solver->reference] = true;
    while (more) {
        more = false;
        meet(solver);
        for (size_t p = 0; p < np; p++) {
            if (!solver->known[p] && line_up(solver, p))
                solver->known[p] = more = true;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        double a, b;

        meet(solver);
        for (size_t p = 0; p < np; p++)
            (void) (solver->known[p] && line_up(solver, p));
        /* Session time is the reference's own clock. The round changed the line of the reference,
         * so correct all lines until the reference has offset 0 and rate 0 again. */
        a = solver->a[solver->reference];
        b = solver->b[solver->reference];
        for (size_t p = 0; p < np; p++) {
            solver->a[p] = (solver->a[p] - a) / (1 + b);
            solver->b[p] = (1 + solver->b[p]) / (1 + b) - 1;
        }
    }
    meet(solver);
}

/* Returns how far the ends of collectives on a typical process are from the common ends (the
 * medians over all processes), in ns. This is the median over the processes. */
static double
usual_scatter(const coll_solver *solver)
{
    size_t count = 0;

    for (size_t p = 0; p < solver->match->process_count; p++) {
        size_t n = 0;

        for (size_t i = solver->first[p]; i < solver->first[p + 1] && solver->known[p]; i++) {
            const coll_part *part = &solver->parts[i];

            solver->x[n++] =
                fabs(solver->v[part->coll] - session(solver, part->process, part->end));
        }
        if (n > 0)
            solver->y[count++] = mrd_coll_median(solver->x, n);
    }
    return count == 0 ? 0 : mrd_coll_median(solver->y, count);
}

/* ---- Comparing a process with the processes that are solved ---- */

/* Results from the processes that are already solved: when each collective ended, in session time,
 * with limits. */
typedef struct {
    /* For each collective: its end, and the upper and lower limit of the end. They are NAN,
     * INFINITY and -INFINITY while unknown. */
    double *at, *up, *down;
    double *reach; /* for each collective: maximum error of its `at`, in ns */
    double *sum;
    /* for each collective: number of participants that are summed in `sum`, which solve_layer()
     * averages */
    uint32_t *count;
    coll_sample *samples;
    bool *done; /* for each process: true if it is solved */
    /* for each process: true if the ends of its collectives show that these are matched
     * correctly */
    bool *belongs;
    char **odd; /* for each process: why it does not fit the others, or NULL */
    mrd_why *first_odd;
    const mrd_coll_options *options; /* options of the caller, may be NULL */
    /* by how much the ends of collectives of most processes differ from the common ends, in ns */
    double usual;
} meetings;

static mrd_dur_ns
trust_of(const meetings *m)
{
    return m->options == NULL ? 0 : m->options->trust_ns;
}

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
    free(m->belongs);
}

static bool
meetings_alloc(meetings *m, const coll_solver *solver)
{
    size_t n = solver->match->count + 1;

    *m = (meetings){ .at = malloc(n * sizeof(double)),
                     .up = malloc(n * sizeof(double)),
                     .down = malloc(n * sizeof(double)),
                     .reach = calloc(n, sizeof(double)),
                     .sum = calloc(n, sizeof(double)),
                     .count = calloc(n, sizeof(*m->count)),
                     .samples = malloc((solver->n + 1) * sizeof(*m->samples)),
                     .done = calloc(solver->match->process_count + 1, sizeof(bool)),
                     .belongs = calloc(solver->match->process_count + 1, sizeof(bool)) };
    if (m->at == NULL || m->up == NULL || m->down == NULL || m->reach == NULL || m->sum == NULL ||
        m->count == NULL || m->samples == NULL || m->done == NULL || m->belongs == NULL)
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
take_samples(const coll_solver *solver, const meetings *m, size_t p)
{
    size_t n = 0;

    for (size_t i = solver->first[p]; i < solver->first[p + 1]; i++) {
        const coll_part *part = &solver->parts[i];

        if (!isnan(m->at[part->coll]))
            m->samples[n++] = (coll_sample){ part->begin,       part->end,
                                             m->at[part->coll], m->reach[part->coll],
                                             m->up[part->coll], m->down[part->coll],
                                             part->coll };
    }
    qsort(m->samples, n, sizeof(*m->samples), order_sample);
    return n;
}

/* Stores the begin and end of the reference's collectives in *m. They are session times already,
 * because the reference's clock defines session time. */
static void
publish_reference(const coll_solver *solver, meetings *m)
{
    for (size_t i = solver->first[solver->reference]; i < solver->first[solver->reference + 1];
         i++) {
        const coll_part *part = &solver->parts[i];

        m->at[part->coll] = m->up[part->coll] = part->end;
        m->down[part->coll] = part->begin;
    }
    m->done[solver->reference] = true;
}

bool
mrd_coll_knows(const mrd_coll_process *process, int64_t local)
{
    for (size_t k = 0; k < process->segment_count; k++) {
        if (local >= process->segments[k].from && local <= process->segments[k].to)
            return true;
    }
    return false;
}

static double
largest_reach(const mrd_coll_process *process)
{
    double most = 0;

    for (size_t k = 0; k < process->segment_count; k++)
        most = fmax(most, (double) process->segments[k].reach);
    return most;
}

/* Returns at - zero in ns. Subtracts in 128 bits, because the difference of the two times may
 * overflow int64. */
static double
since(mrd_sess_ns at, int64_t zero)
{
    return (double) ((__int128) at.ns - zero);
}

static bool
publish(const coll_solver *solver, meetings *m, const mrd_coll_solution *sol, size_t p)
{
    const mrd_coll_process *to = &sol->process[p];
    mrd_align *table = mrd_coll_align(sol, p, "");
    int64_t zero = solver->origin[solver->reference];
    mrd_align_cursor in = { 0 }, out = { 0 };

    for (size_t i = solver->first[p]; table != NULL && i < solver->first[p + 1]; i++) {
        const coll_part *part = &solver->parts[i];
        int64_t begin = to->origin + llround(part->begin), end = to->origin + llround(part->end);
        mrd_align_bound bound;
        mrd_sess_ns at;

        if (mrd_align_map(table, &in, (mrd_local_ns){ begin }, &at, &bound) &&
            mrd_coll_knows(to, begin))
            m->down[part->coll] = fmax(m->down[part->coll], since(bound.lo, zero));
        if (mrd_align_map(table, &out, (mrd_local_ns){ end }, &at, &bound) &&
            mrd_coll_knows(to, end)) {
            m->up[part->coll] = fmin(m->up[part->coll], since(bound.hi, zero));
            m->sum[part->coll] += since(at, zero);
            m->count[part->coll]++;
            if (isnan(m->at[part->coll]))
                m->reach[part->coll] = fmax(m->reach[part->coll], largest_reach(to));
        }
    }
    mrd_align_free(table);
    return table != NULL;
}

/* ---- Solving one process ---- */

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

/* Replaces the line of a process by the line of align_all(), which fits the medians over all
 * processes. Keeps the process's own line if that line fits much better. */
static void
prefer_common(const coll_solver *solver, size_t p, const coll_sample *sample, coll_line *line)
{
    coll_line common = *line;

    common.a = solver->a[p];
    common.b = solver->b[p];
    common.residual = common.sum = 0;
    for (size_t i = 0; i < line->n; i++) {
        double r = fabs(sample[i].at - sample[i].end - common.a - common.b * sample[i].end);

        common.residual = fmax(common.residual, r);
        common.sum += r;
    }
    if (common.residual <= 2 * line->residual + 2 * MRD_COLL_FLOOR_NS)
        *line = common;
}

static void
take_residuals(coll_solver *solver, const coll_sample *sample, const coll_line *lines,
               size_t n_lines, mrd_coll_process *to)
{
    size_t k = 0, n;

    for (size_t l = 0; l < n_lines; l++) {
        for (size_t i = 0; i < lines[l].n; i++) {
            const coll_sample *at = &sample[lines[l].first + i];

            solver->x[k++] = fabs(at->at - at->end - lines[l].a - lines[l].b * at->end);
        }
    }
    n = k;
    qsort(solver->x, n, sizeof(*solver->x), mrd_double_order);
    to->residual_median = llround(fmin(solver->x[n / 2], MRD_COLL_FAR));
    to->residual_p99 = llround(fmin(solver->x[(size_t) (0.99 * (double) (n - 1))], MRD_COLL_FAR));
    to->residual_max = llround(fmin(solver->x[n - 1], MRD_COLL_FAR));
    to->used = n;
}

static double
jump(const coll_sample *sample, const coll_line *before, const coll_line *after)
{
    double t = sample[after->first].end;

    return after->a + after->b * t - before->a - before->b * t;
}

/* Returns by how many ns the clock was set back at one end of a line: at its last sample if `after`
 * is true, else at its first one. Compares the line with the collectives beyond that end, which are
 * not samples of the line. */
static double
set_back(const coll_solver *solver, size_t pos, const coll_sample *sample, const coll_line *line,
         bool after)
{
    double edge = sample[line->first + (after ? line->n - 1 : 0)].end, most = 0;

    for (size_t i = solver->first[pos]; i < solver->first[pos + 1]; i++) {
        const coll_part *part = &solver->parts[i];
        double off = solver->v[part->coll] - part->end - line->a - line->b * part->end;

        if ((after ? part->end > edge : part->end < edge) && !isnan(off))
            most = fmax(most, after ? off : -off);
    }
    return most;
}

/* Returns whether other segments precede and follow segment l, and by how many ns the process's
 * clock was set back at its begin and end. Setting a clock back makes its offset (session - local)
 * larger. */
static coll_seams
seams_of(const coll_solver *solver, size_t pos, const coll_sample *sample, const coll_line *lines,
         size_t n_lines, size_t l)
{
    coll_seams seams = { .before = l > 0, .after = l + 1 < n_lines };

    seams.back_before = seams.before ? fmax(jump(sample, &lines[l - 1], &lines[l]), 0)
                                     : set_back(solver, pos, sample, &lines[l], false);
    seams.back_after = seams.after ? fmax(jump(sample, &lines[l], &lines[l + 1]), 0)
                                   : set_back(solver, pos, sample, &lines[l], true);
    return seams;
}

static mrd_err
bound_segments(const coll_solver *solver, size_t pos, const coll_sample *sample,
               const coll_line *lines, size_t n_lines, mrd_coll_process *to, mrd_why *why)
{
    int64_t shift = solver->origin[solver->reference] - solver->origin[pos];
    size_t longest = 0;

    for (size_t l = 0; l < n_lines; l++) {
        bool fits;

        if (mrd_coll_bound(sample, &lines[l], solver->origin[pos], shift,
                           seams_of(solver, pos, sample, lines, n_lines, l), to, &fits) != MRD_OK)
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
        return refuse_drift(pos, lines[0].b, why);
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "the collectives of process %zu contradict each other for any clock "
                       "whose rate changes by at most 5 ppm a second",
                       pos);
}

static mrd_err
add_gaps(const coll_solver *solver, const coll_sample *sample, const coll_line *lines,
         size_t n_lines, mrd_coll_solution *sol)
{
    for (size_t l = 0; l + 1 < n_lines; l++) {
        double wide = fmin(lines[l].residual + lines[l + 1].residual, MRD_COLL_FAR);
        int64_t zero = solver->origin[solver->reference];

        if (!MRD_VEC_NEXT(sol->breaks, sol->break_count))
            return MRD_NOMEM;
        sol->breaks[sol->break_count++] = (mrd_coll_break){
            zero + (int64_t) floor(sample[lines[l].first + lines[l].n - 1].at - wide),
            zero + (int64_t) ceil(sample[lines[l + 1].first].at + wide),
        };
    }
    return MRD_OK;
}

static mrd_err
solve_process(coll_solver *solver, const meetings *m, size_t pos, size_t count,
              mrd_coll_solution *sol, mrd_why *why)
{
    mrd_coll_process *to = &sol->process[pos];
    coll_line lines[MRD_COLL_SEGMENTS];
    size_t n_lines = mrd_coll_cut(m->samples, count, solver->x, solver->y, solver->w, lines);
    mrd_err err;

    if (n_lines == 1)
        prefer_common(solver, pos, m->samples, &lines[0]);
    to->origin = solver->origin[pos];
    take_residuals(solver, m->samples, lines, n_lines, to);
    if ((err = mrd_coll_check_cut(solver, pos, m->at, m->samples, lines, n_lines, why)) != MRD_OK)
        return err;
    if (mrd_coll_find_evidence(solver, pos, m->samples, lines, n_lines, trust_of(m),
                               &m->belongs[pos]) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", count);
    /* The ends of collectives may scatter in all processes, for example if the processes run on
     * CPUs. A large residual is then accepted on two conditions. The ends must show that the match
     * is right, and must not scatter much more than in other processes. */
    if (to->residual_median > MRD_COLL_RESIDUAL_MAX &&
        (!m->belongs[pos] || (double) to->residual_median > MRD_COLL_AS_WELL * m->usual))
        return refuse_ends(pos, to->residual_median, why);
    if (add_gaps(solver, m->samples, lines, n_lines, sol) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", count);
    return bound_segments(solver, pos, m->samples, lines, n_lines, to, why);
}

static mrd_err
solve_reference(const coll_solver *solver, mrd_coll_solution *sol, mrd_why *why)
{
    size_t pos = solver->reference;
    mrd_coll_process *to = &sol->process[pos];
    int64_t first = INT64_MAX, last = INT64_MIN;

    to->segments = calloc(1, sizeof(*to->segments));
    to->bins = calloc(1, sizeof(*to->bins));
    if (to->segments == NULL || to->bins == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%zu processes", sol->process_count);
    for (size_t i = solver->first[pos]; i < solver->first[pos + 1]; i++) {
        int64_t begin = solver->origin[pos] + llround(solver->parts[i].begin);
        int64_t end = solver->origin[pos] + llround(solver->parts[i].end);

        first = begin < first ? begin : first;
        last = end > last ? end : last;
    }
    to->aligned = true;
    to->origin = solver->origin[pos];
    to->used = solver->first[pos + 1] - solver->first[pos];
    to->bins[0] = (mrd_align_bin){ .at = { first }, .quality = MRD_ALIGN_GOOD };
    to->segments[0] = (mrd_coll_segment){ .from = first, .to = last, .count = 1 };
    to->segment_count = to->bin_count = 1;
    return MRD_OK;
}

/* Handles an error of one process. With options->leave_out, stores the error as the reason why this
 * process does not fit, and returns OK. Otherwise returns the error. */
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

/* Solves all processes that share at least `least` collectives with the processes that are already
 * solved. *ret_more is false if there was no such process. */
static mrd_err
solve_layer(coll_solver *solver, meetings *m, mrd_coll_solution *sol, size_t least, bool *ret_more,
            mrd_why *why)
{
    size_t np = solver->match->process_count;
    mrd_err err;

    *ret_more = false;
    for (size_t p = 0; p < np; p++) {
        size_t n = m->done[p] ? 0 : take_samples(solver, m, p);

        n = n < least ? 0 : n;
        if (n > 0 && (err = solve_process(solver, m, p, n, sol, why)) != MRD_OK &&
            (err = blame(m, p, err, why)) != MRD_OK)
            return err;
    }
    for (size_t p = 0; p < np; p++) {
        if (m->done[p] || !sol->process[p].aligned)
            continue;
        m->done[p] = *ret_more = true;
        if (!publish(solver, m, sol, p))
            return mrd_why_set(why, MRD_NOMEM, 0, "%zu processes", np);
    }
    for (size_t c = 0; c < solver->match->count; c++) {
        if (isnan(m->at[c]) && m->count[c] > 0)
            m->at[c] = m->sum[c] / m->count[c];
    }
    return MRD_OK;
}

/* ---- Collectives that contradict the bounds of clocks: a member left before another entered ---- */

static void
check_one(const mrd_coll_match *match, size_t c, mrd_align *const *tables,
          mrd_align_cursor *cursors, mrd_coll_solution *sol)
{
    mrd_sess_ns enter = { INT64_MIN }, leave = { INT64_MAX };

    for (size_t i = match->first[c]; i < match->first[c + 1]; i++) {
        const mrd_coll_obs *obs = &match->obs[i];
        const mrd_coll_process *process = &sol->process[obs->process];
        mrd_align_cursor *at = &cursors[obs->process];
        mrd_align_bound bound;
        mrd_sess_ns there;

        if (tables[obs->process] == NULL)
            continue;
        if (mrd_align_map(tables[obs->process], at, obs->begin, &there, &bound) &&
            mrd_coll_knows(process, obs->begin.ns))
            enter = mrd_sess_max(bound.lo, enter);
        if (mrd_align_map(tables[obs->process], at, obs->end, &there, &bound) &&
            mrd_coll_knows(process, obs->end.ns))
            leave = mrd_sess_min(bound.hi, leave);
    }
    if (!mrd_sess_after(enter, leave))
        return;
    sol->violations++;
    for (size_t i = match->first[c]; i < match->first[c + 1]; i++)
        sol->process[match->obs[i].process].violations++;
}

static mrd_err
check_bounds(const coll_solver *solver, mrd_coll_solution *sol)
{
    size_t np = sol->process_count;
    mrd_align **tables = calloc(np + 1, sizeof(mrd_align *));
    mrd_align_cursor *cursors = calloc(np + 1, sizeof(*cursors));
    mrd_err err = tables == NULL || cursors == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t p = 0; p < np && err == MRD_OK; p++) {
        if (sol->process[p].aligned && (tables[p] = mrd_coll_align(sol, p, "")) == NULL)
            err = MRD_NOMEM;
    }
    for (size_t c = 0; c < solver->match->count && err == MRD_OK; c++)
        check_one(solver->match, c, tables, cursors, sol);
    for (size_t p = 0; p < np && tables != NULL; p++)
        mrd_align_free(tables[p]);
    free(tables);
    free(cursors);
    return err;
}

/* ---- The whole solution ---- */

/* Returns CLOCK if the process's collectives may be matched with the wrong collectives of other
 * processes. */
static mrd_err
check_match(coll_solver *solver, const meetings *m, size_t p, const mrd_coll_process *process,
            mrd_why *why)
{
    mrd_err err = mrd_coll_check_pairs(solver, p, m->at, trust_of(m), why);

    if (err != MRD_OK || m->belongs[p] || !process->aligned)
        return err;
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: the %zu of process %zu are too few or come too "
                       "regularly to tell which belong together (--align-trust says how well the "
                       "clocks agree before alignment)",
                       process->used, p);
}

static mrd_err
solve_layers(coll_solver *solver, meetings *m, mrd_coll_solution *sol, mrd_why *why)
{
    mrd_err err = solve_reference(solver, sol, why);
    size_t least = ENOUGH;
    bool more = true;

    publish_reference(solver, m);
    while (err == MRD_OK && more) {
        err = solve_layer(solver, m, sol, least, &more, why);
        if (!more && least > 1) {
            least = 1;
            more = true;
        }
    }
    for (size_t p = 0; p < sol->process_count && err == MRD_OK; p++) {
        if (p != solver->reference && solver->known[p] && m->odd[p] == NULL &&
            (err = check_match(solver, m, p, &sol->process[p], why)) != MRD_OK)
            err = blame(m, p, err, why);
    }
    if (err == MRD_OK && (err = check_bounds(solver, sol)) != MRD_OK)
        err = mrd_why_set(why, err, 0, "%zu matched collectives", solver->match->count);
    return err;
}

mrd_err
mrd_coll_solve_once(const mrd_coll_match *match, const mrd_coll_options *options, char **odd,
                    mrd_why *first_odd, mrd_coll_solution *ret_solution, mrd_why *why)
{
    mrd_coll_solution sol = { .process_count = match->process_count };
    meetings m = { 0 };
    coll_solver solver;
    mrd_err err;

    sol.process = calloc(match->process_count + 1, sizeof(*sol.process));
    if (!solver_alloc(&solver, match) || sol.process == NULL || !meetings_alloc(&m, &solver)) {
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu matched collectives", match->count);
        goto out;
    }
    m.odd = odd;
    m.first_odd = first_odd;
    m.options = options;
    solver_fill(&solver);
    sol.reference = solver.reference;
    align_all(&solver);
    m.usual = usual_scatter(&solver);
    if ((err = solve_layers(&solver, &m, &sol, why)) != MRD_OK)
        goto out;
    *ret_solution = sol;
    sol = (mrd_coll_solution){ 0 };
out:
    mrd_coll_solution_fini(&sol);
    meetings_fini(&m);
    solver_fini(&solver);
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
add_segment(mrd_align *align, const mrd_coll_process *process, size_t k)
{
    const mrd_coll_segment *segment = &process->segments[k];

    if (mrd_align_segment_add(align, (uint32_t) k,
                              k == 0 ? MRD_EPOCH_START : MRD_EPOCH_CONTRADICTION, segment->base,
                              segment->w) != MRD_OK)
        return false;
    for (size_t i = 0; i < segment->count; i++) {
        if (mrd_align_bin_add(align, &process->bins[segment->first + i]) != MRD_OK)
            return false;
    }
    return process->segment_count == 1 ||
           mrd_align_segment_extent(align, segment->from, segment->to) == MRD_OK;
}

mrd_align *
mrd_coll_align(const mrd_coll_solution *solution, size_t process, const char *name)
{
    const mrd_coll_process *coll_process = &solution->process[process];
    mrd_align *align;

    if (process >= solution->process_count || !coll_process->aligned ||
        (align = mrd_align_new(name, process)) == NULL)
        return NULL;
    for (size_t k = 0; k < coll_process->segment_count; k++) {
        if (!add_segment(align, coll_process, k)) {
            mrd_align_free(align);
            return NULL;
        }
    }
    return align;
}
