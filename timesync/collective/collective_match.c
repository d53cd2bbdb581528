/* Finds the observations that belong to the same collective. Observations are matched by sequence
 * number if all observations of a group have one, and otherwise by their order. */
#include "timesync/collective/collective.h"

#include "timesync/collective/collective_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Working memory for matching one group, and inputs that all groups share. */
typedef struct {
    coll_run *runs;
    mrd_coll_obs *scratch;
    mrd_coll_meeting *meets;
    const mrd_coll_gap *gaps;
    size_t gap_count;
    const mrd_coll_options *options; /* options of the caller, may be NULL */
    mrd_why *first;                  /* where to store the first reason why a group was left out */
} matching;

static int
order_obs(const void *a, const void *b)
{
    const mrd_coll_obs *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->seq != y->seq && x->seq >= 0 && y->seq >= 0)
        return x->seq < y->seq ? -1 : 1;
    if (x->begin.ns != y->begin.ns)
        return mrd_local_before(x->begin, y->begin) ? -1 : 1;
    return mrd_local_before(x->end, y->end) ? -1 : mrd_local_after(x->end, y->end);
}

static bool
leaves_out(const matching *x)
{
    return x->options != NULL && x->options->leave_out;
}

static void
add_collective(mrd_coll_match *match, const mrd_coll_obs *obs, size_t n)
{
    if (n < 2)
        return;
    memcpy(match->obs + match->obs_n, obs, n * sizeof(*obs));
    match->obs_n += n;
    match->first[++match->count] = match->obs_n;
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
refuse_twice(const coll_run *run, const mrd_coll_obs *obs, const matching *x, mrd_why *why)
{
    char room[20];

    return mrd_why_set(
        why, MRD_CLOCK, 0, "collectives do not match: process %u has number %lld of group %s twice",
        run->process, (long long) obs->seq, mrd_coll_called(x->options, obs->group, room));
}

/* Leaves out the runs of participants in which a sequence number occurs twice. Returns CLOCK if
 * options->leave_out is not set, or if at least half of the runs have such a number. */
static mrd_err
check_numbers(mrd_coll_match *match, coll_run *runs, size_t count, const matching *x, mrd_why *why)
{
    size_t odd = 0;

    for (size_t r = 0; r < count; r++) {
        runs[r].placed = true;
        for (size_t i = 1; i < runs[r].n && runs[r].placed; i++) {
            if (runs[r].obs[i].seq != runs[r].obs[i - 1].seq)
                continue;
            refuse_twice(&runs[r], &runs[r].obs[i], x, why);
            runs[r].placed = false;
            odd++;
        }
    }
    if (odd > 0 && (!leaves_out(x) || 2 * odd >= count))
        return MRD_CLOCK;
    for (size_t r = 0; r < count; r++) {
        if (!runs[r].placed && mrd_coll_note(match->reasons, runs[r].process, why->text) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "%zu sequences of collectives", count);
    }
    return MRD_OK;
}

static mrd_err
differ(const mrd_coll_obs *a, const mrd_coll_obs *b, const matching *x, mrd_why *why)
{
    char room[3][20];

    return mrd_why_set(why, MRD_CLOCK, 0,
                       "collectives do not match: number %lld of group %s is operation %s of size "
                       "%lld for process %u, and operation %s of size %lld for process %u",
                       (long long) a->seq, mrd_coll_called(x->options, a->group, room[0]),
                       mrd_coll_called(x->options, a->op, room[1]), (long long) a->size, a->process,
                       mrd_coll_called(x->options, b->op, room[2]), (long long) b->size,
                       b->process);
}

static mrd_err
match_numbered(mrd_coll_match *match, coll_run *runs, size_t count, const matching *x, mrd_why *why)
{
    mrd_coll_obs *scratch = x->scratch;
    mrd_err err = check_numbers(match, runs, count, x, why);

    for (size_t r = 0; r < count; r++)
        runs[r].at = 0;
    while (err == MRD_OK) {
        int64_t least = INT64_MAX;
        size_t k = 0;

        for (size_t r = 0; r < count; r++) {
            if (runs[r].placed && (size_t) runs[r].at < runs[r].n &&
                runs[r].obs[runs[r].at].seq < least)
                least = runs[r].obs[runs[r].at].seq;
        }
        if (least == INT64_MAX)
            break;
        for (size_t r = 0; r < count; r++) {
            const mrd_coll_obs *obs = runs[r].obs + runs[r].at;

            if (!runs[r].placed || (size_t) runs[r].at == runs[r].n || obs->seq != least)
                continue;
            if (k > 0 && !mrd_coll_same_kind(&scratch[0], obs))
                return differ(&scratch[0], obs, x, why);
            scratch[k++] = *obs;
            runs[r].at++;
        }
        add_collective(match, scratch, k);
    }
    return err;
}

/* ---- Matching by the order of collectives ---- */

static mrd_err
match_ordered(mrd_coll_match *match, coll_run *runs, size_t count, const matching *x, mrd_why *why)
{
    ptrdiff_t first = PTRDIFF_MAX, last = PTRDIFF_MIN;
    mrd_err err = mrd_coll_place(runs, count, x->options, match->reasons, why);

    for (size_t r = 0; r < count && err == MRD_OK; r++) {
        ptrdiff_t end = runs[r].at + (ptrdiff_t) runs[r].n;

        if (!runs[r].placed || runs[r].n == 0)
            continue;
        first = runs[r].at < first ? runs[r].at : first;
        last = end > last ? end : last;
    }
    for (ptrdiff_t i = first; i < last && err == MRD_OK; i++) {
        size_t k = 0;

        for (size_t r = 0; r < count; r++) {
            if (runs[r].placed && i >= runs[r].at && i - runs[r].at < (ptrdiff_t) runs[r].n)
                x->scratch[k++] = runs[r].obs[i - runs[r].at];
        }
        add_collective(match, x->scratch, k);
    }
    return err;
}

/* ---- Matching all groups ---- */

/* Shortens a run (the collectives of one participant) to the part that ended before its first gap.
 * In a gap, events were lost, so the positions of collectives after the gap are unknown. */
static void
cut_at_gap(coll_run *run, const mrd_coll_gap *gaps, size_t gap_count)
{
    size_t n = run->n;

    for (size_t g = 0; g < gap_count; g++) {
        while (gaps[g].process == run->process && run->n > 0 &&
               mrd_local_after(run->obs[run->n - 1].end, gaps[g].begin))
            run->n--;
    }
    run->cut = run->n < n;
}

static size_t
find_runs(coll_run *runs, mrd_coll_obs *obs, size_t n, bool *ret_several)
{
    size_t k = 0;

    *ret_several = n > 0 && obs[0].process != obs[n - 1].process;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || obs[i].process != obs[i - 1].process || obs[i].part != obs[i - 1].part)
            runs[k++] = (coll_run){ .process = obs[i].process, .obs = &obs[i] };
        runs[k - 1].n++;
    }
    return k;
}

static mrd_err
match_runs(mrd_coll_match *match, mrd_coll_obs *obs, size_t n, size_t k, const matching *x,
           mrd_why *why)
{
    size_t count = match->count, obs_n = match->obs_n;
    bool several;
    mrd_err err;

    if (all_numbered(obs, n)) {
        err = match_numbered(match, x->runs, k, x, why);
        if (err != MRD_CLOCK || !leaves_out(x))
            return err;
        /* The sequence numbers contradict each other, so match the observations by their order
         * instead. */
        match->count = count;
        match->obs_n = obs_n;
        for (size_t i = 0; i < n; i++)
            obs[i].seq = -1;
        qsort(obs, n, sizeof(*obs), order_obs);
        k = find_runs(x->runs, obs, n, &several);
    }
    for (size_t r = 0; r < k; r++)
        cut_at_gap(&x->runs[r], x->gaps, x->gap_count);
    return match_ordered(match, x->runs, k, x, why);
}

/* Adds one observation to the n observations of a collective, and returns the new number. Two
 * participants of one process share a clock, so they become one observation. It has the later begin
 * and the earlier end of the two. */
static size_t
fold_into(mrd_coll_obs *to, size_t n, const mrd_coll_obs *obs)
{
    if (n == 0 || to[n - 1].process != obs->process) {
        to[n] = *obs;
        return n + 1;
    }
    to[n - 1].begin = mrd_local_max(to[n - 1].begin, obs->begin);
    to[n - 1].end = mrd_local_min(to[n - 1].end, obs->end);
    return n;
}

/* Reduces the collectives from index `from` on to one observation per process. Drops an observation
 * if its entry in `meets` is not MRD_COLL_MEETS, or if its begin is after its end. `meets` may be
 * NULL. Drops collectives with fewer than two processes. */
static void
fold_parts(mrd_coll_match *match, size_t from, const mrd_coll_meeting *meets)
{
    size_t zero = match->first[from], start = zero, out = zero, count = from;

    for (size_t c = from; c < match->count; c++) {
        size_t next = match->first[c + 1], k = 0, kept = 0;
        mrd_coll_obs *to = match->obs + out;

        for (size_t i = start; i < next; i++) {
            mrd_coll_obs obs = match->obs[i]; /* a copy, because `to` may overwrite the original */

            k = meets == NULL || meets[i - zero] == MRD_COLL_MEETS ? fold_into(to, k, &obs) : k;
        }
        for (size_t i = 0; i < k; i++) {
            if (!mrd_local_after(to[i].begin, to[i].end))
                to[kept++] = to[i];
        }
        out += kept < 2 ? 0 : kept;
        if (kept >= 2)
            match->first[++count] = out;
        start = next;
    }
    match->count = count;
    match->obs_n = out;
}

static mrd_err
note_all(mrd_coll_match *match, const mrd_coll_obs *obs, size_t n, const char *reason)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        if (i == 0 || obs[i].process != obs[i - 1].process)
            err = mrd_coll_note(match->reasons, obs[i].process, reason);
    }
    return err;
}

static size_t
count_unplaced(const coll_run *runs, size_t n)
{
    size_t unplaced = 0;

    for (size_t r = 0; r < n; r++)
        unplaced += !runs[r].placed && runs[r].n > 0;
    return unplaced;
}

/* Handles a group that is marked as doubtful (mrd_coll_obs). Drops the participants for which
 * mrd_coll_meet does not show that they meet the others, and stores a reason for each of them. */
static mrd_err
test_doubt(mrd_coll_match *match, size_t from, size_t unplaced, const matching *x, mrd_why *why)
{
    static const char scatters[] =
        "the ends of matched collectives do not coincide: they scatter by more than 100 us";
    size_t zero = match->first[from], count = match->obs_n - zero;
    mrd_err err = MRD_OK;
    char room[20];

    if (count == 0)
        return MRD_OK;
    if ((err = mrd_coll_meet(match, from, unplaced, x->meets)) != MRD_OK)
        return mrd_why_set(why, err, 0, "%zu collectives", count);
    mrd_why_set(why, MRD_CLOCK, 0,
                "nothing shows that the participants of group %s wait for each other: the trace "
                "does not name its members, and in too few of its collectives one participant "
                "clearly enters last; they may be several groups of one name",
                mrd_coll_called(x->options, match->obs[zero].group, room));
    for (size_t i = 0; i < count && err == MRD_OK; i++) {
        if (x->meets[i] != MRD_COLL_MEETS)
            err = mrd_coll_note(match->reasons, match->obs[zero + i].process,
                                x->meets[i] == MRD_COLL_UNSHOWN ? why->text : scatters);
    }
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "%zu collectives", count);
    fold_parts(match, from, x->meets);
    return match->count > from ? MRD_OK : MRD_CLOCK;
}

static mrd_err
match_group(mrd_coll_match *match, mrd_coll_obs *obs, size_t count, const matching *x, mrd_why *why)
{
    size_t from = match->count, before = match->obs_n, k;
    bool several, doubtful = false;
    char room[20];
    mrd_err err;

    k = find_runs(x->runs, obs, count, &several);
    if (!several) {
        match->left_out += count;
        return MRD_OK;
    }
    for (size_t i = 0; i < count; i++)
        doubtful = doubtful || obs[i].doubtful;
    if (obs[0].members > 0 && k > obs[0].members)
        err = mrd_why_set(why, MRD_CLOCK, 0,
                          "collectives do not match: group %s says that it has %u members, "
                          "but %zu take part: several communicators have its name",
                          mrd_coll_called(x->options, obs[0].group, room), obs[0].members, k);
    else
        err = match_runs(match, obs, count, k, x, why);
    if (err == MRD_OK && doubtful && leaves_out(x))
        err = test_doubt(match, from, count_unplaced(x->runs, k), x, why);
    else if (err == MRD_OK)
        fold_parts(match, from, NULL);
    if (err == MRD_CLOCK && leaves_out(x)) {
        match->count = from;
        match->obs_n = before;
        if (x->first->err == MRD_OK)
            *x->first = *why;
        err = note_all(match, obs, count, why->text) == MRD_OK ? MRD_OK : MRD_NOMEM;
    }
    match->left_out += count - (match->obs_n - before);
    return err;
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

static bool
match_alloc(mrd_coll_match *match, size_t n, size_t process_count)
{
    match->process_count = process_count;
    match->obs = malloc((n + 1) * sizeof(*match->obs));
    match->first = calloc(n + 2, sizeof(*match->first));
    match->reasons = calloc(process_count + 1, sizeof(char *));
    return match->obs != NULL && match->first != NULL && match->reasons != NULL;
}

static mrd_err
match_groups(mrd_coll_match *match, mrd_coll_obs *obs, size_t count, const matching *x,
             mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (count > 0)
        qsort(obs, count, sizeof(*obs), order_obs);
    for (size_t i = 0, end; i < count && err == MRD_OK; i = end) {
        for (end = i; end < count && obs[end].group == obs[i].group;)
            end++;
        err = match_group(match, obs + i, end - i, x, why);
    }
    if (err != MRD_OK || match->count > 0)
        return err;
    if (x->first->err != MRD_OK) {
        *why = *x->first;
        return why->err;
    }
    return mrd_why_set(why, MRD_EMPTY, 0,
                       "no collective was seen by two processes (%zu observations)", count);
}

mrd_err
mrd_coll_match_new(const mrd_coll_obs *obs, size_t count, size_t process_count,
                   const mrd_coll_gap *gaps, size_t gap_count, const mrd_coll_options *options,
                   mrd_coll_match **ret_match, mrd_why *why)
{
    mrd_coll_match *match = calloc(1, sizeof(*match));
    mrd_coll_obs *sorted = malloc((count + 1) * sizeof(*sorted));
    mrd_why first = { 0 }, unread = { 0 };
    matching x = { .runs = malloc((count + 1) * sizeof(*x.runs)),
                   .scratch = malloc((count + 1) * sizeof(*x.scratch)),
                   .meets = malloc((count + 1) * sizeof(*x.meets)),
                   .gaps = gaps,
                   .gap_count = gap_count,
                   .options = options,
                   .first = &first };
    mrd_err err;

    why = why == NULL ? &unread : why;
    err = check_obs(obs, count, process_count, why);
    if (err == MRD_OK && (match == NULL || sorted == NULL || x.runs == NULL || x.scratch == NULL ||
                          x.meets == NULL || !match_alloc(match, count, process_count)))
        err = mrd_why_set(why, MRD_NOMEM, 0, "%zu collectives", count);
    if (err == MRD_OK && count > 0)
        memcpy(sorted, obs, count * sizeof(*sorted));
    if (err == MRD_OK)
        err = match_groups(match, sorted, count, &x, why);
    if (err == MRD_OK) {
        *ret_match = match;
        match = NULL;
    }
    mrd_coll_match_free(match);
    free(sorted);
    free(x.scratch);
    free(x.meets);
    free(x.runs);
    return err;
}

mrd_err
mrd_coll_match_without(const mrd_coll_match *match, const bool *without, mrd_coll_match **ret_match)
{
    mrd_coll_match *coll_match = calloc(1, sizeof(*coll_match));
    mrd_err err = MRD_OK;

    if (coll_match == NULL || !match_alloc(coll_match, match->obs_n, match->process_count)) {
        mrd_coll_match_free(coll_match);
        return MRD_NOMEM;
    }
    for (size_t c = 0; c < match->count; c++) {
        size_t n = 0;

        for (size_t i = match->first[c]; i < match->first[c + 1]; i++) {
            if (!without[match->obs[i].process])
                coll_match->obs[coll_match->obs_n + n++] = match->obs[i];
        }
        if (n >= 2)
            coll_match->first[++coll_match->count] = coll_match->obs_n += n;
    }
    for (size_t p = 0; p < match->process_count && err == MRD_OK; p++) {
        if (match->reasons[p] != NULL)
            err = mrd_coll_note(coll_match->reasons, p, match->reasons[p]);
    }
    if (err == MRD_OK && coll_match->count == 0)
        err = MRD_EMPTY;
    if (err == MRD_OK) {
        *ret_match = coll_match;
        coll_match = NULL;
    }
    mrd_coll_match_free(coll_match);
    return err;
}

void
mrd_coll_match_free(mrd_coll_match *match)
{
    if (match == NULL)
        return;
    for (size_t p = 0; match->reasons != NULL && p < match->process_count; p++)
        free(match->reasons[p]);
    free(match->reasons);
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

/* ---- Checking alignments by probes ---- */

typedef struct {
    /* ns of session time: latest entry and earliest exit of a collective's participants. `_est` is
     * the estimate, `_lo` and `_hi` are the ends of the bounds. */
    int64_t enter_est, enter_lo, exit_est, exit_hi;
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
        mrd_align_cursor *cursor = &cursors[obs[i].process];

        if (table == NULL || !mrd_align_map(table, cursor, obs[i].begin, &a, &in) ||
            !mrd_align_map(table, cursor, obs[i].end, &b, &out))
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
