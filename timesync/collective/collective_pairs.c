/*
 * Checks whether collectives of different processes are matched correctly. Suppose that one process
 * lost a collective at the start and another one at the end. Both then have the same number of
 * collectives, and matching by order is wrong by one everywhere. If collectives come at regular
 * intervals, their ends do not show the error.
 */
#include "timesync/collective/collective_impl.h"

#include <math.h>

#include "base/map.h"

#define OTHERS 64  /* maximum number of positions that are tried in each direction */
#define TAKE   512 /* maximum number of differences from which a median is taken */
/* maximum number of samples after a break that are compared with the line before it */
#define BEHIND 16
/* ns; two lines that meet within this distance show no step of the clock between them */
#define SEAM_NS 2000
/* each fitted line fits two ends exactly; beyond these, this many ends are needed as evidence */
#define FREE 4
/* sets the accepted probability exp(-CHANCE / 2) that a wrong match agrees by chance */
#define CHANCE 20

/* One process's collectives in one group, in their order: parts[0] to parts[n - 1]. */
typedef struct {
    const coll_part *parts;
    size_t n;
    uint32_t process;
} series;

static bool
same_group(const mrd_coll_match *match, size_t c, size_t d)
{
    return match->obs[match->first[c]].group == match->obs[match->first[d]].group;
}

static bool
same_kind(const mrd_coll_match *match, size_t c, size_t d)
{
    return mrd_coll_same_kind(&match->obs[match->first[c]], &match->obs[match->first[d]]);
}

static bool
numbered(const mrd_coll_match *match, size_t c)
{
    return match->obs[match->first[c]].seq >= 0;
}

/* Returns the session time from the end of part i to the end of the collective that is `by`
 * positions later in the series. */
static double
distance(const coll_solver *solver, const series *v, size_t i, ptrdiff_t by)
{
    const coll_part *part = &v->parts[i];

    return solver->v[v->parts[(size_t) ((ptrdiff_t) i + by)].coll] -
           (part->end + solver->a[v->process] + solver->b[v->process] * part->end);
}

static bool
kinds_fit(const coll_solver *solver, const series *v, size_t from, size_t to, ptrdiff_t by)
{
    for (size_t i = from; i < to; i++) {
        if (!same_kind(solver->match, v->parts[i].coll,
                       v->parts[(size_t) ((ptrdiff_t) i + by)].coll))
            return false;
    }
    return true;
}

/* Returns the scatter of a series in ns if each part is matched with the collective `by` positions
 * later. This is the median change of their distance from one part to the next. Offset and drift of
 * a clock do not explain such changes. */
static double
scatter(coll_solver *solver, const series *v, size_t from, size_t to, ptrdiff_t by)
{
    size_t step = (to - from) / TAKE + 1, n = 0;

    for (size_t i = from; i + 1 < to; i += step)
        solver->x[n++] = fabs(distance(solver, v, i + 1, by) - distance(solver, v, i, by));
    return n == 0 ? 0 : mrd_coll_median(solver->x, n);
}

/* Returns true if part i cannot belong to the collective `by` positions later, because the
 * unaligned clocks would then disagree by more than `trust` ns. */
static bool
excluded(const coll_solver *solver, const series *v, size_t i, ptrdiff_t by, mrd_dur_ns trust)
{
    const coll_part *part = &v->parts[i];
    double zero = (double) (solver->origin[solver->reference] - solver->origin[v->process]);

    return trust > 0 && fabs(solver->v[v->parts[(size_t) ((ptrdiff_t) i + by)].coll] - part->end +
                             zero) > (double) trust;
}

static mrd_err
ambiguous(const series *v, ptrdiff_t by, mrd_why *why)
{
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: those of process %u fit as well %td places %s; "
                       "their intervals are too regular to tell which belong together "
                       "(--align-trust says how well the clocks agree before alignment)",
                       v->process, by < 0 ? -by : by, by < 0 ? "earlier" : "later");
}

static mrd_err
contradict(const series *v, ptrdiff_t by, mrd_why *why)
{
    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: by their sequence numbers those of process %u "
                       "scatter, and %td places %s they do not",
                       v->process, by < 0 ? -by : by, by < 0 ? "earlier" : "later");
}

/* Shifts the series by up to OTHERS positions, and returns CLOCK if it fits as well at another
 * position. At least half of the series must overlap, because a short part always fits somewhere.
 * Sequence numbers are trusted unless another position fits much better. */
static mrd_err
check_series(coll_solver *solver, const series *v, mrd_dur_ns trust, mrd_why *why)
{
    ptrdiff_t n = (ptrdiff_t) v->n, most = n / 2 < OTHERS ? n / 2 : OTHERS;
    double own = scatter(solver, v, 0, v->n, 0);
    bool by_number = numbered(solver->match, v->parts[0].coll);

    for (ptrdiff_t by = -most; by <= most; by++) {
        size_t from = by < 0 ? (size_t) -by : 0, to = (size_t) (by > 0 ? n - by : n);
        double other;

        if (by == 0 || to < from + 2 || !kinds_fit(solver, v, from, to, by) ||
            excluded(solver, v, from, by, trust))
            continue;
        other = scatter(solver, v, from, to, by);
        if (by_number && MRD_COLL_AS_WELL * other + MRD_COLL_FINE_NS < own)
            return contradict(v, by, why);
        if (!by_number && other <= MRD_COLL_AS_WELL * own + MRD_COLL_FINE_NS)
            return ambiguous(v, by, why);
    }
    return MRD_OK;
}

mrd_err
mrd_coll_check_pairs(coll_solver *solver, size_t process, mrd_dur_ns trust, mrd_why *why)
{
    size_t last = solver->first[process + 1];
    mrd_err err = MRD_OK;

    for (size_t i = solver->first[process], end; i < last && err == MRD_OK; i = end) {
        series v = { &solver->parts[i], 0, (uint32_t) process };

        for (end = i; end < last &&
                      same_group(solver->match, solver->parts[i].coll, solver->parts[end].coll);)
            end++;
        v.n = end - i;
        err = check_series(solver, &v, trust, why);
    }
    return err;
}

/* ---- Evidence that matched collectives belong together ---- */

/* Measures how much the intervals between collectives of the same kind vary, as the median distance
 * from their median. In a wrong match, ends would vary by about the same amount. Stores INFINITY if
 * fewer than a quarter of the collectives have another one of the same kind. The kinds alone then
 * show whether a match is right. Errors: NOMEM. */
static mrd_err
find_change(coll_solver *solver, const coll_sample *sample, size_t n, double *ret_change)
{
    const mrd_coll_match *match = solver->match;
    mrd_map last = { 0 };
    mrd_err err = MRD_OK;
    size_t k = 0;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        const mrd_coll_obs *kind = &match->obs[match->first[sample[i].coll]];
        mrd_map_key key = { kind->group, kind->op, (uint64_t) kind->size };
        uint32_t j = mrd_map_get(&last, key);

        if (j != MRD_MAP_NONE)
            solver->x[k++] = sample[i].end - sample[j].end;
        err = mrd_map_put(&last, key, (uint32_t) i);
    }
    mrd_map_fini(&last);
    *ret_change = INFINITY;
    if (k > 1 && 4 * k >= n) {
        double usual = mrd_coll_median(solver->x, k);

        for (size_t i = 0; i < k; i++)
            solver->x[i] = fabs(solver->x[i] - usual);
        (void) mrd_coll_median(solver->x, k);
        *ret_change = solver->x[(k + 1) / 2];
    }
    return err;
}

/* Returns true if no other match is possible: the clocks agree within `trust` ns without alignment,
 * and the next collective of the same kind is further away. */
static bool
trust_decides(const coll_solver *solver, size_t process, const coll_sample *sample, size_t n,
              mrd_dur_ns trust)
{
    double zero = (double) (solver->origin[solver->reference] - solver->origin[process]);
    double most = -INFINITY, least = INFINITY, far;

    for (size_t i = 0; i < n; i++) {
        most = fmax(most, sample[i].at - sample[i].end + zero);
        least = fmin(least, sample[i].at - sample[i].end + zero);
    }
    far = (double) trust - fmin(most, -least);
    for (size_t i = 0; i < n && trust > 0; i++) {
        for (size_t j = i + 1; j < n && sample[j].end - sample[i].end <= far; j++) {
            if (same_group(solver->match, sample[i].coll, sample[j].coll) &&
                same_kind(solver->match, sample[i].coll, sample[j].coll))
                return false;
        }
    }
    return trust > 0;
}

mrd_err
mrd_coll_find_evidence(coll_solver *solver, size_t process, const coll_sample *sample,
                       const coll_line *lines, size_t n_lines, mrd_dur_ns trust, bool *ret_belong)
{
    size_t all = lines[n_lines - 1].first + lines[n_lines - 1].n, n = 0, fitted = 2 * n_lines;
    double change, off;

    for (size_t l = 0; l < n_lines; l++) {
        for (size_t i = lines[l].first; i < lines[l].first + lines[l].n; i++)
            solver->x[n++] =
                fabs(sample[i].at - sample[i].end - lines[l].a - lines[l].b * sample[i].end);
    }
    *ret_belong = trust_decides(solver, process, sample, all, trust);
    /* Sequence numbers are evidence only if the ends fit well. Otherwise each recording may have
     * started its numbers again. */
    off = mrd_coll_median(solver->x, n);
    for (size_t i = 0; i < all && off <= MRD_COLL_RESIDUAL_MAX; i++)
        *ret_belong = *ret_belong || numbered(solver->match, sample[i].coll);
    if (*ret_belong || n < fitted + FREE)
        return MRD_OK;
    /* Each line fits two ends exactly, and their residual of 0 shows nothing. Take the median of
     * the other residuals. */
    off = MRD_COLL_AS_WELL * fmax(solver->x[(n + fitted) / 2], MRD_COLL_FLOOR_NS);
    if (find_change(solver, sample, all, &change) != MRD_OK)
        return MRD_NOMEM;
    *ret_belong = change > off * exp(CHANCE / (double) (n - fitted)) + MRD_COLL_FINE_NS;
    return MRD_OK;
}

/* ---- Checks after a cut between segments ---- */

/* Returns true if the first samples of a segment continue the previous line when each is matched
 * with the collective `by` positions later. */
static bool
continues(const coll_solver *solver, const double *at, const coll_sample *sample,
          const coll_line *line, const coll_line *before, double jump, ptrdiff_t by)
{
    const mrd_coll_match *match = solver->match;
    double off[BEHIND];
    size_t n = 0;

    for (size_t i = 0; i < line->n && n < BEHIND; i++) {
        const coll_sample *q = &sample[line->first + i];
        ptrdiff_t other = (ptrdiff_t) q->coll + by;

        if (other < 0 || other >= (ptrdiff_t) match->count ||
            !same_group(match, q->coll, (size_t) other))
            continue;
        if (numbered(match, q->coll) || !same_kind(match, q->coll, (size_t) other))
            return false;
        if (!isnan(at[other]))
            off[n++] = fabs(at[other] - q->end - before->a - before->b * q->end);
    }
    return n > 0 && mrd_coll_median(off, n) <= MRD_COLL_AS_WELL * before->residual + fabs(jump) / 4;
}

mrd_err
mrd_coll_check_cut(const coll_solver *solver, size_t process, const double *at,
                   const coll_sample *sample, const coll_line *lines, size_t n_lines, mrd_why *why)
{
    for (size_t k = 1; k < n_lines; k++) {
        double t = sample[lines[k].first].end;
        double jump = lines[k].a + lines[k].b * t - lines[k - 1].a - lines[k - 1].b * t;

        if (fabs(jump) <= lines[k].residual + lines[k - 1].residual + SEAM_NS)
            /* the lines meet here, so the clock's rate changed but the clock was not stepped */
            continue;
        for (ptrdiff_t by = -8; by <= 8; by++) {
            if (by != 0 && continues(solver, at, sample, &lines[k], &lines[k - 1], jump, by))
                return mrd_why_set(
                    why, MRD_CLOCK, 0,
                    "collectives do not match: behind number %zu of process %zu its clock was "
                    "stepped by %.0f ns, or %td collectives are missing; nothing tells which",
                    lines[k].first, process, jump, by < 0 ? -by : by);
        }
    }
    return MRD_OK;
}
