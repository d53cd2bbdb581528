/*
 * Checks whether collectives of different processes are matched correctly. For example, the
 * recording of one process may lack the first collective, and the recording of another process the
 * last. Both then have the same number of collectives, and matching by order is wrong by one
 * everywhere. If collectives come at regular intervals, their ends do not show this error.
 */
#include "timesync/collective/collective_impl.h"

#include <math.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/num.h"

#define OTHERS 64 /* maximum number of other positions that are tried in each direction */
/* maximum number of intervals between collectives that are compared at one position */
#define TAKE 64
/* maximum number of samples after a break of the clock that are compared with the line before the
 * break */
#define BEHIND 16
/* two lines that meet within this distance (ns) show no step of the clock between them */
#define SEAM_NS 2000
/* Each fitted line fits two ends exactly, which shows nothing. This number of further ends is
 * needed as evidence. */
#define FREE 4
/* the accepted probability that a wrong match agrees by chance is exp(-CHANCE / 2) */
#define CHANCE 20

/* One process's collectives in one group, in their order: parts[0] to parts[n - 1]. */
typedef struct {
    const coll_part *parts;
    size_t n;
    uint32_t process;
    const double *at; /* indexed by collective; its end in session time, or NAN */
    bool lasting;     /* the collectives are matched by lasting sequence numbers (mrd_coll_obs) */
    bool restarting;  /* the collectives are matched by sequence numbers that may begin again */
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

/* Returns true if collective c was matched by lasting sequence numbers, which cannot begin
 * again. */
static bool
lasts(const mrd_coll_match *match, size_t c)
{
    bool all = numbered(match, c);

    for (size_t i = match->first[c]; i < match->first[c + 1]; i++)
        all = all && match->obs[i].lasting;
    return all;
}

/* Returns the session time from the end of part i to the end of the collective that is `by`
 * positions later in the series. */
static double
distance(const coll_solver *solver, const series *v, size_t i, ptrdiff_t by)
{
    const coll_part *part = &v->parts[i];

    return v->at[v->parts[(size_t) ((ptrdiff_t) i + by)].coll] -
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

/* Returns by how many ns distance() changes from part i to the next part if each part is matched
 * with the collective `by` positions later. An offset or drift of the clock cannot cause such a
 * change. */
static double
change_after(const coll_solver *solver, const series *v, size_t i, ptrdiff_t by)
{
    return fabs(distance(solver, v, i + 1, by) - distance(solver, v, i, by));
}

/* Returns the median of change_after() over a series in its present match, in ns. */
static double
scatter(coll_solver *solver, const series *v)
{
    size_t step = v->n / TAKE + 1, n = 0;

    for (size_t i = 0; i + 1 < v->n; i += step) {
        double change = change_after(solver, v, i, 0);

        if (!isnan(change))
            solver->x[n++] = change;
    }
    return n == 0 ? 0 : mrd_coll_median(solver->x, n);
}

/* Returns true if the parts from `from` to `to` also fit when each is matched with the collective
 * `by` positions later. At least half of the known changes (change_after) must be at most `most`
 * ns, with collectives of the same kind. Without sequence numbers that may begin again, the kinds
 * of all collectives must agree. At most TAKE changes are compared. */
static bool
fits(const coll_solver *solver, const series *v, size_t from, size_t to, ptrdiff_t by, double most)
{
    size_t step = (to - from) / TAKE + 1, known = 0, over = 0;

    if (!v->restarting && !kinds_fit(solver, v, from, to, by))
        return false;
    for (size_t i = from; i + 1 < to; i += step) {
        double change = change_after(solver, v, i, by);
        bool same = kinds_fit(solver, v, i, i + 1, by);

        known += isnan(change) ? 0 : 1;
        over += !isnan(change) && (!same || change > most) ? 1 : 0;
    }
    return known > 0 && 2 * over <= known;
}

/* Returns how far distance() scatters for the parts from `from` to `to`, in ns, if each part is
 * matched with the collective `by` positions later. This is the median deviation from the line that
 * fits the distances. Many small changes in one direction add up here, which single changes do not
 * show. Returns NAN if fewer than 3 of at most TAKE distances can be computed. */
static double
spread(const coll_solver *solver, const series *v, size_t from, size_t to, ptrdiff_t by)
{
    double end[TAKE], off[TAKE], weight[TAKE], a, b;
    size_t step = (to - from) / TAKE + 1, n = 0;

    for (size_t i = from; i < to; i += step) {
        end[n] = v->parts[i].end;
        off[n] = distance(solver, v, i, by);
        n += isnan(off[n]) ? 0 : 1;
    }
    if (n < 3)
        return NAN;
    a = mrd_coll_fit(end, off, weight, n, &b);
    for (size_t i = 0; i < n; i++)
        off[i] = fabs(off[i] - a - b * end[i]);
    return mrd_coll_median(off, n);
}

/* Returns true if part i cannot belong to the collective `by` positions later, because the
 * unaligned clocks would then disagree by more than `trust` ns. */
static bool
excluded(const coll_solver *solver, const series *v, size_t i, ptrdiff_t by, mrd_dur_ns trust)
{
    const coll_part *part = &v->parts[i];
    double zero = (double) (solver->origin[solver->reference] - solver->origin[v->process]);

    return trust > 0 && fabs(v->at[v->parts[(size_t) ((ptrdiff_t) i + by)].coll] - part->end +
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

static int
order_by_end(const void *a, const void *b)
{
    const coll_part *x = a, *y = b;

    return mrd_double_order(&x->end, &y->end);
}

/* Compares the series, which is matched already, with other positions in the sequence of
 * collectives. Returns CLOCK if it fits as well at another position. If the numbers of the series
 * are lasting, it must fit much better there. At least half of the series must overlap, because a
 * short part always fits somewhere. All positions are tried if numbers may begin again, otherwise
 * the nearest OTHERS. A series without numbers was compared at all positions when it was placed. */
static mrd_err
check_series(coll_solver *solver, const series *v, mrd_dur_ns trust, mrd_why *why)
{
    ptrdiff_t n = (ptrdiff_t) v->n, most = n / 2 < OTHERS || v->restarting ? n / 2 : OTHERS;
    double own = scatter(solver, v);
    double limit = v->lasting      ? (own - MRD_COLL_FINE_NS) / MRD_COLL_AS_WELL
                   : v->restarting ? MRD_COLL_AS_WELL * fmax(own, MRD_COLL_FLOOR_NS)
                                   : MRD_COLL_AS_WELL * own + MRD_COLL_FINE_NS;
    double widest = MRD_COLL_AS_WELL * spread(solver, v, 0, v->n, 0) + MRD_COLL_FINE_NS;

    for (ptrdiff_t by = -most; by <= most; by++) {
        size_t from = by < 0 ? (size_t) -by : 0, to = (size_t) (by > 0 ? n - by : n);

        if (by == 0 || to < from + 2 || excluded(solver, v, from, by, trust) ||
            !fits(solver, v, from, to, by, limit))
            continue;
        /* If ends scatter widely, single intervals vary too little to exclude this position. The
         * sum of many intervals may still exclude it. */
        if (v->restarting && spread(solver, v, from, to, by) > widest)
            continue;
        return v->lasting ? contradict(v, by, why) : ambiguous(v, by, why);
    }
    return MRD_OK;
}

mrd_err
mrd_coll_check_pairs(coll_solver *solver, size_t process, const double *at, mrd_dur_ns trust,
                     mrd_why *why)
{
    size_t last = solver->first[process + 1];
    mrd_err err = MRD_OK;

    for (size_t i = solver->first[process], end; i < last && err == MRD_OK; i = end) {
        bool by_number = numbered(solver->match, solver->parts[i].coll);
        series v = { &solver->parts[i], 0, (uint32_t) process, solver->v, by_number, false };

        for (end = i; end < last &&
                      same_group(solver->match, solver->parts[i].coll, solver->parts[end].coll);
             end++)
            v.lasting = v.lasting && lasts(solver->match, solver->parts[end].coll);
        v.n = end - i;
        v.restarting = by_number && !v.lasting;
        /* use the ends according to the other processes; solver->v includes this process, so it
         * shows a wrong match less clearly */
        if (v.restarting)
            v.at = at;
        /* sort by end and not by sequence number, because the numbers may be hashes */
        qsort(&solver->parts[i], v.n, sizeof(*v.parts), order_by_end);
        err = check_series(solver, &v, trust, why);
    }
    return err;
}

/* ---- Evidence that matched collectives belong together ---- */

/* Measures how much the intervals between consecutive collectives of the same kind vary: the median
 * of their deviations from the median interval. In a wrong match, ends would vary by about the same
 * amount. Stores INFINITY if fewer than a quarter of the collectives have another one of the same
 * kind. The kinds alone then show whether a match is right. Errors: NOMEM. */
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

/* Returns true if no other match is possible, because the clocks agree within `trust` ns without
 * alignment, and the next collective of the same kind is further away. */
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
    bool by_number = true;
    double change, off;

    for (size_t l = 0; l < n_lines; l++) {
        for (size_t i = lines[l].first; i < lines[l].first + lines[l].n; i++)
            solver->x[n++] =
                fabs(sample[i].at - sample[i].end - lines[l].a - lines[l].b * sample[i].end);
    }
    *ret_belong = trust_decides(solver, process, sample, all, trust);
    /* Lasting sequence numbers are sufficient evidence if the ends fit well. Other numbers may have
     * begun again in each recording. */
    off = mrd_coll_median(solver->x, n);
    for (size_t i = 0; i < all; i++) {
        by_number = by_number && numbered(solver->match, sample[i].coll);
        *ret_belong =
            *ret_belong || (off <= MRD_COLL_RESIDUAL_MAX && lasts(solver->match, sample[i].coll));
    }
    if (*ret_belong || n < fitted + FREE)
        return MRD_OK;
    /* Each line fits two ends exactly, so two of its residuals are 0 and show nothing. The median
     * of the other residuals is used. */
    off = fmax(solver->x[(n + fitted) / 2], MRD_COLL_FLOOR_NS);
    if (find_change(solver, sample, all, &change) != MRD_OK)
        return MRD_NOMEM;
    off *= MRD_COLL_AS_WELL * exp(CHANCE / (double) (n - fitted));
    /* Sequence numbers are evidence for a right match even if they may begin again in each
     * recording. So with them, the intervals need not vary as much as without them. */
    *ret_belong = change > off + (by_number ? 0 : MRD_COLL_FINE_NS);
    return MRD_OK;
}

/* ---- Checks after a break between segments ---- */

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
            /* no check is needed if the lines meet here, because the clock changed its rate but was
             * not stepped */
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
