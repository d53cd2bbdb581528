/* Matches observations of one collective: by sequence number, otherwise by order. */
#include "timesync/collective.h"

#include "timesync/collective_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One process's observations of one group, in its own order. */
typedef struct {
    uint32_t process;
    const mrd_coll_obs *obs;
    size_t n, at; /* at: position of its first in the longest sequence */
    bool cut;     /* a gap cut it short */
} run;

/* Memory for one group, and values for all groups. */
typedef struct {
    run *runs;
    mrd_coll_obs *scratch;
    const mrd_coll_gap *gaps;
    size_t gap_count;
    const mrd_coll_options *options; /* or NULL */
} matching;

static int
order_obs(const void *a, const void *b)
{
    const mrd_coll_obs *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->seq != y->seq && x->seq >= 0 && y->seq >= 0)
        return x->seq < y->seq ? -1 : 1;
    if (x->begin.ns != y->begin.ns)
        return mrd_local_before(x->begin, y->begin) ? -1 : 1;
    return mrd_local_before(x->end, y->end) ? -1 : mrd_local_after(x->end, y->end);
}

static bool
same_kind(const mrd_coll_obs *a, const mrd_coll_obs *b)
{
    return a->op == b->op && a->size == b->size;
}

/* Returns the name of a group or an operation for messages. `room` is for the hash if it has no
 * name. */
static const char *
called(const mrd_coll_options *o, uint64_t hash, char room[20])
{
    const char *text = o == NULL || o->text == NULL ? NULL : o->text(o->self, hash);

    snprintf(room, 20, "%016llx", (unsigned long long) hash);
    return text != NULL ? text : room;
}

static mrd_err
differ(const run *a, size_t i, const run *b, size_t j, const mrd_coll_options *o, mrd_why *why)
{
    char room[3][20];

    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: group %s, process %u number %zu is operation %s "
                       "of size %lld, process %u number %zu is operation %s of size %lld",
                       called(o, a->obs->group, room[0]), a->process, i,
                       called(o, a->obs[i].op, room[1]), (long long) a->obs[i].size, b->process, j,
                       called(o, b->obs[j].op, room[2]), (long long) b->obs[j].size);
}

static mrd_err
add_group(mrd_coll_match *m, const mrd_coll_obs *obs, size_t n)
{
    if (n < 2) {
        m->left_out += n;
        return MRD_OK;
    }
    memcpy(m->obs + m->obs_n, obs, n * sizeof(*obs));
    m->obs_n += n;
    m->first[++m->count] = m->obs_n;
    return MRD_OK;
}

/* ---- Matching by sequence number ---- */

static bool
all_numbered(const mrd_coll_obs *obs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (obs[i].seq < 0)
            return false;
    }
    return true;
}

static mrd_err
match_numbered(mrd_coll_match *m, run *runs, size_t n, const matching *x, mrd_why *why)
{
    mrd_coll_obs *scratch = x->scratch;
    char room[20];

    for (size_t r = 0; r < n; r++) {
        for (size_t i = 1; i < runs[r].n; i++) {
            if (runs[r].obs[i].seq == runs[r].obs[i - 1].seq)
                return mrd_why_set(why, MRD_CLOCK, 0,
                                   "collectives do not match: process %u has number %lld of group "
                                   "%s twice",
                                   runs[r].process, (long long) runs[r].obs[i].seq,
                                   called(x->options, runs[r].obs[i].group, room));
        }
        runs[r].at = 0;
    }
    for (;;) {
        int64_t least = INT64_MAX;
        const run *lead = NULL;
        size_t k = 0;

        for (size_t r = 0; r < n; r++) {
            if (runs[r].at < runs[r].n && runs[r].obs[runs[r].at].seq < least) {
                least = runs[r].obs[runs[r].at].seq;
                lead = &runs[r];
            }
        }
        if (lead == NULL)
            return MRD_OK;
        for (size_t r = 0; r < n; r++) {
            if (runs[r].at == runs[r].n || runs[r].obs[runs[r].at].seq != least)
                continue;
            if (k > 0 && !same_kind(&scratch[0], &runs[r].obs[runs[r].at]))
                return differ(lead, lead->at - 1, &runs[r], runs[r].at, x->options, why);
            scratch[k++] = runs[r].obs[runs[r].at++];
        }
        (void) add_group(m, scratch, k);
    }
}

/* ---- by order ---- */

static bool
fits_at(const run *longest, const run *r, size_t at, mrd_dur_ns trust)
{
    for (size_t i = 0; i < r->n; i++) {
        int64_t d = mrd_local_diff(r->obs[i].end, longest->obs[at + i].end);

        if (!same_kind(&r->obs[i], &longest->obs[at + i]))
            return false;
        if (trust > 0 && (d > trust || d < -trust))
            return false;
    }
    return true;
}

/* Finds the position of the run in the longest one. There must be exactly one. */
static mrd_err
place_run(const run *longest, run *r, const mrd_coll_options *options, mrd_why *why)
{
    mrd_dur_ns trust = options == NULL ? 0 : options->trust_ns;
    char room[20];
    size_t places = 0, last = longest->n - r->n;

    for (size_t at = 0; at <= last && places < 2; at++) {
        if (fits_at(longest, r, at, trust)) {
            r->at = at;
            places++;
        }
    }
    if (places == 1)
        return MRD_OK;
    if (places == 0 && trust > 0 && fits_at(longest, r, last == 0 ? 0 : r->at, 0))
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: the clocks of processes %u and %u nowhere "
                           "agree within %lld ns",
                           longest->process, r->process, (long long) trust);
    if (places == 0) {
        for (size_t i = 0; i < r->n; i++) {
            if (!same_kind(&r->obs[i], &longest->obs[i]))
                return differ(longest, i, r, i, options, why);
        }
    }
    return mrd_why_set(
        why, MRD_CLOCK, 0,
        "collectives do not match: the %zu of process %u%s fit the %zu of process %u in "
        "group %s at several places",
        r->n, r->process, r->cut ? " before its gap" : "", longest->n, longest->process,
        called(options, r->obs->group, room));
}

static mrd_err
match_ordered(mrd_coll_match *m, run *runs, size_t n, const matching *x, mrd_why *why)
{
    mrd_coll_obs *scratch = x->scratch;
    const run *longest = &runs[0];
    size_t before = m->obs_n, total = 0;
    mrd_err err = MRD_OK;

    for (size_t r = 1; r < n; r++)
        longest = runs[r].n > longest->n ? &runs[r] : longest;
    for (size_t r = 0; r < n && err == MRD_OK; r++) {
        total += runs[r].n;
        if (&runs[r] != longest && runs[r].n > 0)
            err = place_run(longest, &runs[r], x->options, why);
    }
    for (size_t i = 0; i < longest->n && err == MRD_OK; i++) {
        size_t k = 0;

        for (size_t r = 0; r < n; r++) {
            if (i >= runs[r].at && i - runs[r].at < runs[r].n)
                scratch[k++] = runs[r].obs[i - runs[r].at];
        }
        if (k >= 2)
            (void) add_group(m, scratch, k);
    }
    m->left_out += err == MRD_OK ? total - (m->obs_n - before) : 0;
    return err;
}

/* ---- groups ---- */

/* The order is unknown after a gap, so this keeps what ended before the first one. */
static void
cut_at_gap(mrd_coll_match *m, run *r, const mrd_coll_gap *gaps, size_t gap_count)
{
    size_t n = r->n;

    for (size_t g = 0; g < gap_count; g++) {
        while (gaps[g].process == r->process && r->n > 0 &&
               mrd_local_after(r->obs[r->n - 1].end, gaps[g].begin))
            r->n--;
    }
    r->cut = r->n < n;
    m->left_out += n - r->n;
}

static mrd_err
match_group(mrd_coll_match *m, const mrd_coll_obs *obs, size_t n, const matching *x, mrd_why *why)
{
    run *runs = x->runs;
    bool numbered = all_numbered(obs, n);
    char room[20];
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        if (i == 0 || obs[i].process != obs[i - 1].process)
            runs[k++] = (run){ .process = obs[i].process, .obs = &obs[i] };
        runs[k - 1].n++;
    }
    if (k < 2) {
        m->left_out += n;
        return MRD_OK;
    }
    if (obs[0].members > 0 && k > obs[0].members)
        return mrd_why_set(why, MRD_CLOCK, 0,
                           "collectives do not match: group %s says that it has %u members, "
                           "but %zu take part: several communicators have its name",
                           called(x->options, obs[0].group, room), obs[0].members, k);
    if (numbered)
        return match_numbered(m, runs, k, x, why);
    for (size_t r = 0; r < k; r++)
        cut_at_gap(m, &runs[r], x->gaps, x->gap_count);
    return match_ordered(m, runs, k, x, why);
}

static mrd_err
check_obs(const mrd_coll_obs *obs, size_t n, size_t process_count, mrd_why *why)
{
    if (process_count > MRD_COLL_PROCESSES_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "%zu processes, at most %d", process_count,
                           MRD_COLL_PROCESSES_MAX);
    for (size_t i = 0; i < n; i++) {
        if (obs[i].process >= process_count || mrd_local_before(obs[i].end, obs[i].begin) ||
            obs[i].begin.ns < 0 || obs[i].end.ns > MRD_COLL_TIME_MAX)
            return mrd_why_set(why, MRD_INVALID, 0,
                               "collective %zu: process %u of %zu, from %lld to %lld", i,
                               obs[i].process, process_count, (long long) obs[i].begin.ns,
                               (long long) obs[i].end.ns);
    }
    return MRD_OK;
}

mrd_err
mrd_coll_match_new(const mrd_coll_obs *obs, size_t n, size_t process_count,
                   const mrd_coll_gap *gaps, size_t gap_count, const mrd_coll_options *options,
                   mrd_coll_match **ret_match, mrd_why *why)
{
    mrd_coll_match *m = calloc(1, sizeof(*m));
    mrd_coll_obs *sorted = malloc((n + 1) * sizeof(*sorted));
    mrd_coll_obs *scratch = malloc((process_count + 1) * sizeof(*scratch));
    run *runs = malloc((process_count + 1) * sizeof(*runs));
    mrd_err err = check_obs(obs, n, process_count, why);

    if (err == MRD_OK && (m == NULL || sorted == NULL || scratch == NULL || runs == NULL ||
                          (m->obs = malloc((n + 1) * sizeof(*m->obs))) == NULL ||
                          (m->first = calloc(n + 2, sizeof(*m->first))) == NULL))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu collectives", n);
    if (err == MRD_OK && n > 0) {
        memcpy(sorted, obs, n * sizeof(*sorted));
        qsort(sorted, n, sizeof(*sorted), order_obs);
    }
    for (size_t i = 0, end; i < n && err == MRD_OK; i = end) {
        for (end = i; end < n && sorted[end].group == sorted[i].group;)
            end++;
        err = match_group(m, sorted + i, end - i,
                          &(matching){ runs, scratch, gaps, gap_count, options }, why);
    }
    if (err == MRD_OK && m->count == 0)
        err = mrd_why_set(why, MRD_EMPTY, 0,
                          "no collective was seen by two processes (%zu observations)", n);
    if (err == MRD_OK) {
        m->process_count = process_count;
        *ret_match = m;
        m = NULL;
    }
    mrd_coll_match_free(m);
    free(sorted);
    free(scratch);
    free(runs);
    return err;
}

void
mrd_coll_match_free(mrd_coll_match *match)
{
    if (match == NULL)
        return;
    free(match->obs);
    free(match->first);
    free(match);
}

size_t
mrd_coll_match_count(const mrd_coll_match *match)
{
    return match->count;
}

size_t
mrd_coll_match_left_out(const mrd_coll_match *match)
{
    return match->left_out;
}

const mrd_coll_obs *
mrd_coll_match_borrow(const mrd_coll_match *match, size_t i, size_t *ret_n)
{
    *ret_n = match->first[i + 1] - match->first[i];
    return match->obs + match->first[i];
}

/* ---- The check of alignments by probes ---- */

typedef struct {
    int64_t enter_est, enter_lo, exit_est, exit_hi; /* latest entry, earliest exit */
} meeting;

static bool
map_meeting(const mrd_coll_obs *obs, size_t n, const mrd_align *const *tables,
            mrd_align_cursor *cursors, meeting *ret)
{
    meeting t = { INT64_MIN, INT64_MIN, INT64_MAX, INT64_MAX };

    for (size_t i = 0; i < n; i++) {
        const mrd_align *table = tables[obs[i].process];
        mrd_align_bound in, out;
        mrd_sess_ns a, b;
        mrd_align_cursor *c = &cursors[obs[i].process];

        if (table == NULL || !mrd_align_map(table, c, obs[i].begin, &a, &in) ||
            !mrd_align_map(table, c, obs[i].end, &b, &out))
            return false;
        t.enter_est = a.ns > t.enter_est ? a.ns : t.enter_est;
        t.enter_lo = in.lo.ns > t.enter_lo ? in.lo.ns : t.enter_lo;
        t.exit_est = b.ns < t.exit_est ? b.ns : t.exit_est;
        t.exit_hi = out.hi.ns < t.exit_hi ? out.hi.ns : t.exit_hi;
    }
    *ret = t;
    return true;
}

void
mrd_coll_check_run(const mrd_coll_match *match, const mrd_align *const *tables,
                   mrd_coll_check *ret_check)
{
    mrd_align_cursor *cursors = calloc(match->process_count + 1, sizeof(*cursors));
    mrd_coll_check check = { 0 };

    for (size_t i = 0; cursors != NULL && i < match->count; i++) {
        size_t n;
        const mrd_coll_obs *obs = mrd_coll_match_borrow(match, i, &n);
        meeting t;

        if (!map_meeting(obs, n, tables, cursors, &t))
            continue;
        check.collectives++;
        check.out_of_order += t.enter_est > t.exit_est;
        if (t.enter_lo > t.exit_hi) {
            check.violations++;
            check.worst =
                t.enter_lo - t.exit_hi > check.worst ? t.enter_lo - t.exit_hi : check.worst;
        }
    }
    free(cursors);
    *ret_check = check;
}
