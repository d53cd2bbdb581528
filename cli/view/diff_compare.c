/* Finds the differences between two sides of runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "cli/view/diff.h"
#include "trace/analysis/judge/steps.h"

/* An operation in one run. */
typedef struct {
    const char *kind, *name;
    int64_t size;
    bool now; /* false for the base side, true for the other side */
    size_t run;
    const mrd_json *op;
} entry;

typedef struct {
    const mrd_diff_side *side[2];
    entry *entries;
    size_t n_entries, cap_entries;
    double level, min_change;
    mrd_diff *d;
    size_t cap_rows;
    mrd_map rank_at; /* maps mrd_diff_rank_key() to an index in d->ranks */
    /* time per step of the current operation, summed over the runs of a side; the first index is
     * that of d->ranks, the second one is the side */
    double (*rank_sums)[2];
    double *sorted;       /* scratch memory with a value for each rank */
    bool on_one_timeline; /* the times of different processes can be compared in all runs */
} work;

/* ---- Series of values ---- */

/* Returns an operation's time per step in each block of steps of one run. In traces without steps,
 * it is the time per call. The caller owns the array. NULL if out of memory. */
static double *
series_of(const mrd_diff_run *run, const mrd_json *op, size_t *ret_n)
{
    const mrd_json *ns = mrd_json_get(op, "blocks_ns"), *counts = mrd_json_get(op, "blocks_count");
    bool own = run->by_call || strcmp(mrd_json_str(op, "kind", ""), "part") == 0;
    size_t n = own ? mrd_json_size(counts) : run->n_blocks, kept = 0;
    double *v = malloc((n + 1) * sizeof(*v));

    for (size_t b = 0; v != NULL && b < n; b++) {
        double per = own ? (double) mrd_json_int_of(mrd_json_at(counts, b)) : run->per_block[b];

        if (per > 0)
            v[kept++] = (double) mrd_json_int_of(mrd_json_at(ns, b)) / per;
    }
    *ret_n = kept;
    return v;
}

/* Returns the mean duration of a step in each block of steps. The mean is over the compared
 * processes with numbers from `first` up to `end` - 1. */
static double *
step_series(const mrd_diff_run *run, size_t first, size_t end, size_t *ret_n)
{
    const mrd_json *processes = mrd_json_get(run->steps, "processes");
    double *v = malloc((run->n_blocks + 1) * sizeof(*v));
    size_t kept = 0;

    for (size_t b = 0; v != NULL && b < run->n_blocks; b++) {
        double ns = 0, count = 0;

        for (size_t i = first; i < end; i++) {
            const mrd_json *json = mrd_json_at(processes, i);

            if (!mrd_diff_has_process(run, i))
                continue;
            ns += (double) mrd_json_int_of(mrd_json_at(mrd_json_get(json, "blocks_ns"), b));
            count += (double) mrd_json_int_of(mrd_json_at(mrd_json_get(json, "blocks_count"), b));
        }
        if (count > 0)
            v[kept++] = ns / count;
    }
    *ret_n = kept;
    return v;
}

/* Returns how long one process itself worked per step, in each block of steps: the time of `part`,
 * or of all parts for MRD_DIFF_OWN. A steps.json of an earlier version does not contain these
 * times, and then there are no values. */
static double *
own_series(const mrd_diff_run *run, size_t process, mrd_diff_part part, size_t *ret_n)
{
    static const struct {
        const char *key;
        mrd_diff_part part;
    } own[] = { { "compute", MRD_DIFF_COMPUTATION },
                { "both", MRD_DIFF_COMPUTATION },
                { "copy", MRD_DIFF_COPIES },
                { "host", MRD_DIFF_HOST_WORK },
                { "idle", MRD_DIFF_IDLE } };
    const mrd_json *json = mrd_json_at(mrd_json_get(run->steps, "processes"), process),
                   *counts = mrd_json_get(json, "own_count"), *times = mrd_json_get(json, "own_ns");
    double *v = malloc((run->n_blocks + 1) * sizeof(*v));
    size_t kept = 0;

    for (size_t b = 0; v != NULL && b < run->n_blocks; b++) {
        double count = (double) mrd_json_int_of(mrd_json_at(counts, b)), ns = 0;

        for (size_t i = 0; i < MRD_COUNT(own); i++)
            if (part == MRD_DIFF_OWN || own[i].part == part)
                ns += (double) mrd_json_int_of(mrd_json_at(mrd_json_get(times, own[i].key), b));
        if (count > 0)
            v[kept++] = ns / count;
    }
    *ret_n = kept;
    return v;
}

/* The series of both sides, indexed by side and run. pair_compare() frees them. */
typedef struct {
    mrd_compare_run run[2][MRD_DIFF_RUNS];
    double *held[2][MRD_DIFF_RUNS];
    size_t n[2];
    bool failed;
} pair;

static void
pair_add(pair *p, bool now, double *v, size_t n)
{
    size_t i = p->n[now];

    if (v == NULL) {
        p->failed = true;
        return;
    }
    p->held[now][i] = v;
    p->run[now][i] = (mrd_compare_run){ v, n };
    p->n[now]++;
}

static mrd_err
pair_compare(const work *w, pair *p, mrd_compared *ret, double *ret_half)
{
    mrd_err err = p->failed ? MRD_NOMEM : mrd_compare(p->run[0], p->n[0], p->run[1], p->n[1], ret);

    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < p->n[side]; i++)
            free(p->held[side][i]);
    }
    if (err == MRD_OK)
        *ret_half = mrd_compare_half(ret, w->level);
    return err;
}

/* ---- Operations ---- */

static int
entry_order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = strcmp(x->kind, y->kind);

    if (order == 0)
        order = strcmp(x->name, y->name);
    if (order == 0)
        order = x->size < y->size ? -1 : x->size > y->size;
    if (order == 0)
        order = (int) x->now - (int) y->now;
    return order != 0 ? order : x->run < y->run ? -1 : x->run > y->run;
}

static bool
same_operation(const entry *x, const entry *y)
{
    return strcmp(x->kind, y->kind) == 0 && strcmp(x->name, y->name) == 0 && x->size == y->size;
}

static mrd_err
collect(work *w)
{
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < w->side[side]->n; run++) {
            const mrd_json *ops = mrd_json_get(w->side[side]->run[run].steps, "operations");

            for (size_t i = 0; i < mrd_json_size(ops); i++) {
                const mrd_json *op = mrd_json_at(ops, i);

                const char *kind = mrd_json_str(op, "kind", "");

                if (w->side[side]->some_left_out && strcmp(kind, "part") == 0)
                    continue; /* older files do not have the times of single processes */
                /* The waiting part of a collective is known only if all its ranks are compared.
                 * Otherwise compare its whole time. */
                if (w->side[side]->some_left_out && strcmp(kind, "waiting") == 0)
                    kind = "collective";
                if (!MRD_VEC_ROOM(w->entries, w->n_entries, w->cap_entries, 1))
                    return MRD_NOMEM;
                w->entries[w->n_entries++] = (entry){ .kind = kind,
                                                      .name = mrd_json_str(op, "name", ""),
                                                      .size = mrd_json_int(op, "size", MRD_NONE),
                                                      .now = side == 1,
                                                      .run = run,
                                                      .op = op };
            }
        }
    }
    if (w->n_entries > 0)
        qsort(w->entries, w->n_entries, sizeof(*w->entries), entry_order);
    return MRD_OK;
}

static const entry *
entry_of(const entry *group, size_t n, bool now, size_t run)
{
    for (size_t i = 0; i < n; i++) {
        if (group[i].now == now && group[i].run == run)
            return &group[i];
    }
    return NULL;
}

/* For each rank, sums the operation's time per step over the runs of each side, in w->rank_sums. */
static void
sum_by_rank(const work *w, const entry *group, size_t n)
{
    memset(w->rank_sums, 0, w->d->n_ranks * sizeof(*w->rank_sums));
    for (size_t i = 0; i < n; i++) {
        const mrd_diff_run *run = &w->side[group[i].now]->run[group[i].run];
        const mrd_json *by = mrd_json_get(group[i].op, "by_process");

        for (size_t k = 0; k < mrd_json_size(by); k++) {
            const mrd_json *place = mrd_json_at(by, k);
            size_t process = (size_t) mrd_json_int_of(mrd_json_at(place, 0));
            uint32_t at;

            if (process >= run->n_listed || run->listed[process].steps <= 0)
                continue;
            at = mrd_map_get(&w->rank_at, mrd_diff_rank_key(run->listed[process].rank));
            if (at != MRD_MAP_NONE)
                w->rank_sums[at][group[i].now] += (double) mrd_json_int_of(mrd_json_at(place, 2)) /
                                                  (double) run->listed[process].steps;
        }
    }
}

/* Returns the change of the current operation's time per step on rank number i. Call sum_by_rank()
 * first. */
static double
rank_change(const work *w, size_t i)
{
    return w->rank_sums[i][1] / (double) w->side[1]->n -
           w->rank_sums[i][0] / (double) w->side[0]->n;
}

/* Finds the rank that causes more than half of the sum of all ranks' changes. Call sum_by_rank()
 * first. */
static void
find_rank(const work *w, mrd_diff_row *row)
{
    double all = 0, most = 0;

    for (size_t i = 0; i < w->d->n_ranks; i++) {
        double change = rank_change(w, i);

        all += fabs(change);
        if (fabs(change) > fabs(most)) {
            most = change;
            row->rank = w->d->ranks[i].rank;
        }
    }
    row->rank_change = most;
    if (w->d->n_ranks < 2 || fabs(most) * 2 <= all)
        row->rank = MRD_NONE;
}

/* Returns the mean time of an operation in one run, per step or, without steps, per call. Only
 * processes that are compared count. The values of blocks cannot be used for this, because they are
 * sums over all processes. The caller frees the array, which has one element. NULL if out of
 * memory. */
static double *
mean_of(const work *w, const entry *group, size_t n, bool now, size_t run, size_t *ret_n)
{
    const mrd_diff_run *diff_run = &w->side[now]->run[run];
    double *v = malloc(sizeof(*v)), ns = 0, calls = 0;

    for (size_t k = 0; k < n; k++) {
        const mrd_json *by = mrd_json_get(group[k].op, "by_process");
        bool counts = strcmp(mrd_json_str(group[k].op, "kind", ""), "waiting") != 0;

        if (group[k].now != now || group[k].run != run)
            continue;
        for (size_t i = 0; i < mrd_json_size(by); i++) {
            const mrd_json *place = mrd_json_at(by, i);

            if (!mrd_diff_has_process(diff_run, (size_t) mrd_json_int_of(mrd_json_at(place, 0))))
                continue;
            calls += counts ? (double) mrd_json_int_of(mrd_json_at(place, 1)) : 0;
            ns += (double) mrd_json_int_of(mrd_json_at(place, 2));
        }
    }
    if (!diff_run->by_call)
        calls = (double) diff_run->n_steps;
    *ret_n = calls > 0;
    if (v != NULL)
        *v = calls > 0 ? ns / calls : 0;
    return v;
}

/* ---- The rank for which the others wait ---- */

const char *
mrd_diff_part_text(mrd_diff_part part)
{
    static const char *const text[] = {
        [MRD_DIFF_COMPUTATION] = "computation",
        [MRD_DIFF_COPIES] = "copies",
        [MRD_DIFF_HOST_WORK] = "host work",
        [MRD_DIFF_IDLE] = "idle time",
        [MRD_DIFF_OWN] = "own time",
        [MRD_DIFF_TRANSFER] = "exposed communication",
    };

    return text[part];
}

static bool
is_on_one_timeline(const mrd_diff_side *side)
{
    bool all = true;

    for (size_t i = 0; i < side->n; i++)
        all = all && side->run[i].on_one_timeline;
    return all;
}

/* Returns 1 if steps became longer, -1 if they became shorter. */
static double
direction(const work *w)
{
    return w->d->step.is.change < 0 ? -1 : 1;
}

/* For one part, subtracts the change of the median rank from the change of each rank. For an even
 * number of ranks, the lower of the two middle changes is the median. */
static void
subtract_middle(const work *w, mrd_diff_part part)
{
    mrd_diff_rank *ranks = w->d->ranks;
    size_t n = w->d->n_ranks;

    for (size_t i = 0; i < n; i++)
        w->sorted[i] = ranks[i].part_change[part];
    qsort(w->sorted, n, sizeof(*w->sorted), mrd_double_order);
    for (size_t i = 0; i < n; i++)
        ranks[i].part_change[part] -= w->sorted[(n - 1) / 2];
}

/* Finds the ranks with a change that a host span of this name explains, and stores the name. The
 * change of the span must be at least half of `beyond`. Ranks that compute longer are excluded,
 * because their host spans only wait for the device. Of nested spans, the span with the largest
 * relative change is kept. Call sum_by_rank() first. */
static void
note_host(const work *w, const char *name)
{
    for (size_t i = 0; i < w->d->n_ranks; i++) {
        mrd_diff_rank *rank = &w->d->ranks[i];
        double change = direction(w) * rank_change(w, i), base = w->rank_sums[i][0];

        if (rank->is_cause && (rank->part == MRD_DIFF_IDLE || rank->part == MRD_DIFF_HOST_WORK) &&
            change * 2 >= rank->beyond &&
            (rank->host == NULL ||
             change * (rank->host_base + 1) > rank->host_change * (base + 1))) {
            rank->host = name;
            rank->host_change = change;
            rank->host_base = base;
        }
    }
}

/* Adds the change of a collective to each rank's MRD_DIFF_TRANSFER. Call sum_by_rank() first. */
static void
note_transfer(const work *w)
{
    for (size_t i = 0; i < w->d->n_ranks; i++)
        w->d->ranks[i].part_change[MRD_DIFF_TRANSFER] += direction(w) * rank_change(w, i);
}

static mrd_err
row_add(work *w, const entry *group, size_t count)
{
    mrd_diff_row row = {
        .kind = group->kind, .name = group->name, .size = group->size, .rank = MRD_NONE
    };
    pair *p = calloc(1, sizeof(*p));
    mrd_err err;

    if (p == NULL)
        return MRD_NOMEM;
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < w->side[side]->n; run++) {
            const entry *item = entry_of(group, count, side == 1, run);
            size_t values = 0;
            double *v;

            *(side == 0 ? &row.in_base : &row.in_now) |= item != NULL;
            if (item == NULL && w->d->by_call)
                continue; /* the operation does not occur in this run, so it has no time per call */
            v = w->side[side]->some_left_out
                    ? mean_of(w, group, count, side == 1, run, &values)
                    : series_of(&w->side[side]->run[run], item == NULL ? NULL : item->op, &values);
            pair_add(p, side == 1, v, values);
        }
    }
    err = pair_compare(w, p, &row.is, &row.half);
    free(p);
    if (err != MRD_OK)
        return err;
    sum_by_rank(w, group, count);
    find_rank(w, &row);
    if (strcmp(row.kind, "host") == 0)
        note_host(w, row.name);
    if (strcmp(row.kind, "collective") == 0)
        note_transfer(w);
    if (!MRD_VEC_ROOM(w->d->rows, w->d->n_rows, w->cap_rows, 1))
        return MRD_NOMEM;
    w->d->rows[w->d->n_rows++] = row;
    return MRD_OK;
}

/* ---- Ranks ---- */

/* Returns the number of the rank's first process with steps, if it is compared. Otherwise returns
 * MRD_MAP_NONE. */
static uint32_t
process_of(const mrd_diff_run *run, int64_t rank)
{
    uint32_t i = mrd_map_get(&run->by_rank, mrd_diff_rank_key(rank));

    return i != MRD_MAP_NONE && run->listed[i].steps > 0 && mrd_diff_has_process(run, i)
               ? i
               : MRD_MAP_NONE;
}

/* Compares one rank between the two sides. With `step`, compares the duration of its steps.
 * Otherwise compares the time of `part` in a step (own_series()). */
static mrd_err
rank_compare(const work *w, int64_t rank, bool step, mrd_diff_part part, mrd_compared *ret,
             double *ret_half)
{
    pair *p = calloc(1, sizeof(*p));
    mrd_err err;

    if (p == NULL)
        return MRD_NOMEM;
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < w->side[side]->n; run++) {
            const mrd_diff_run *of = &w->side[side]->run[run];
            uint32_t only = process_of(of, rank);
            size_t n = 0;

            double *v;

            if (only == MRD_MAP_NONE)
                continue;
            v = step ? step_series(of, only, (size_t) only + 1, &n)
                     : own_series(of, only, part, &n);
            pair_add(p, side == 1, v, n);
        }
    }
    err = pair_compare(w, p, ret, ret_half);
    free(p);
    return err;
}

static mrd_err
rank_add(work *w, int64_t rank)
{
    mrd_diff_rank *diff_rank = &w->d->ranks[w->d->n_ranks];
    mrd_err err = rank_compare(w, rank, true, MRD_DIFF_OWN, &diff_rank->is, &diff_rank->half);
    double half;

    diff_rank->rank = rank;
    /* the loop ends with MRD_DIFF_OWN, the sum of the other parts, so that `own` then holds this
     * sum */
    for (unsigned k = 0; k <= MRD_DIFF_OWN && err == MRD_OK; k++) {
        err = rank_compare(w, rank, false, (mrd_diff_part) k, &diff_rank->own, &half);
        diff_rank->part_change[k] = direction(w) * diff_rank->own.change;
    }
    if (err == MRD_OK)
        err = mrd_map_put(&w->rank_at, mrd_diff_rank_key(rank), (uint32_t) w->d->n_ranks++);
    return err;
}

/* Finds the ranks that explain the change of the step by their own time, and for each of them the
 * part that changed most. w->level is the confidence of all tests together. */
static void
find_causes(work *w)
{
    mrd_diff *diff = w->d;
    double level = 1 - (1 - w->level) / (double) (diff->n_ranks + 1),
           most = fabs(diff->step.is.change);

    if (diff->n_ranks < 2 || !diff->step.differs)
        return;
    for (unsigned k = 0; k <= MRD_DIFF_OWN; k++)
        subtract_middle(w, (mrd_diff_part) k);
    for (size_t i = 0; i < diff->n_ranks; i++) {
        diff->ranks[i].beyond = diff->ranks[i].part_change[MRD_DIFF_OWN];
        most = fmax(most, diff->ranks[i].beyond);
    }
    for (size_t i = 0; i < diff->n_ranks; i++) {
        mrd_diff_rank *rank = &diff->ranks[i];

        rank->is_cause =
            rank->beyond * 2 >= most && rank->beyond > mrd_compare_half(&rank->own, level);
        for (unsigned k = 0; k < MRD_DIFF_OWN; k++)
            if (rank->part_change[k] > rank->part_change[rank->part])
                rank->part = (mrd_diff_part) k;
    }
}

/* Finds the rank with collectives that take longer, or less long, after their last participant
 * began. Does nothing if a rank's own time explains the change. Also does nothing without aligned
 * clocks, because it is then unknown when the last participant began. */
static void
find_slow_transfer(const work *w)
{
    const mrd_diff *diff = w->d;
    mrd_diff_rank *most = diff->ranks;

    if (diff->n_ranks < 2 || !diff->step.differs || !w->on_one_timeline)
        return;
    subtract_middle(w, MRD_DIFF_TRANSFER);
    for (size_t i = 0; i < diff->n_ranks; i++) {
        if (diff->ranks[i].is_cause)
            return;
        if (diff->ranks[i].part_change[MRD_DIFF_TRANSFER] > most->part_change[MRD_DIFF_TRANSFER])
            most = &diff->ranks[i];
    }
    most->part = MRD_DIFF_TRANSFER;
    most->beyond = most->part_change[MRD_DIFF_TRANSFER];
    most->is_cause = most->beyond * 2 >= fabs(diff->step.is.change);
}

static mrd_err
ranks_make(work *w)
{
    const mrd_diff_run *first[2] = { &w->side[0]->run[0], &w->side[1]->run[0] };
    mrd_err err = MRD_OK;

    w->d->ranks = calloc(first[0]->n_listed + 1, sizeof(*w->d->ranks));
    w->rank_sums = calloc(first[0]->n_listed + 1, sizeof(*w->rank_sums));
    w->sorted = calloc(first[0]->n_listed + 1, sizeof(*w->sorted));
    if (w->d->ranks == NULL || w->rank_sums == NULL || w->sorted == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < first[0]->n_listed && err == MRD_OK; i++) {
        int64_t rank = first[0]->listed[i].rank;

        if (rank != MRD_NONE && process_of(first[0], rank) != MRD_MAP_NONE &&
            process_of(first[1], rank) != MRD_MAP_NONE &&
            mrd_map_get(&w->rank_at, mrd_diff_rank_key(rank)) == MRD_MAP_NONE)
            err = rank_add(w, rank);
    }
    if (err == MRD_OK)
        find_causes(w);
    return err;
}

/* ---- Deciding what differs ---- */

static int
p_order(const void *a, const void *b)
{
    double x = (*(mrd_diff_row *const *) a)->is.p, y = (*(mrd_diff_row *const *) b)->is.p;

    return x < y ? -1 : x > y;
}

/* Returns true if a change is at least min_change of the duration of a step. In traces without
 * steps, the change is compared with the time of the operation itself. */
static bool
is_large(const work *w, const mrd_diff_row *row)
{
    const mrd_compared *of = w->d->by_call ? &row->is : &w->d->step.is;
    double whole = of->base > 0 ? of->base : of->now;

    return fabs(row->is.change) >= w->min_change * whole && row->is.change != 0;
}

/* Decides which rows differ, by Holm's method: the k-th smallest p (from 0) is compared with (1 -
 * level) / (number of tests - k). The step is not among these tests. It is tested at the full
 * level, because it is the main question of every comparison. */
static mrd_err
judge(work *w)
{
    mrd_diff *diff = w->d;
    mrd_diff_row **order = calloc(diff->n_rows + 1, sizeof(*order));
    size_t n = 0;
    bool on = true;

    if (order == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < diff->n_rows; i++) {
        if (is_large(w, &diff->rows[i]))
            order[n++] = &diff->rows[i];
    }
    qsort(order, n, sizeof(*order), p_order);
    for (size_t i = 0; i < n && on; i++)
        on = order[i]->differs = order[i]->is.p <= (1 - w->level) / (double) (n - i);
    free(order);
    for (size_t i = 0; i < diff->n_ranks; i++) {
        mrd_diff_rank *rank = &diff->ranks[i];
        double beyond = fabs(rank->is.change - diff->step.is.change);

        rank->differs =
            beyond >= w->min_change * diff->step.is.base &&
            beyond > mrd_compare_half(&rank->is, 1 - (1 - w->level) / (double) diff->n_ranks);
    }
    return MRD_OK;
}

static int
row_order(const void *a, const void *b)
{
    const mrd_diff_row *x = a, *y = b;
    double u = fabs(x->is.change), v = fabs(y->is.change);
    int order;

    if (x->differs != y->differs)
        return x->differs ? -1 : 1;
    if (u != v)
        return u > v ? -1 : 1;
    order = strcmp(x->kind, y->kind);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static bool
can_cause(const mrd_diff *diff, const mrd_diff_row *row)
{
    if (!row->differs && diff->by_means && diff->step.differs)
        return fabs(row->is.change) * 2 >= fabs(diff->step.is.change) &&
               strcmp(row->kind, "collective") != 0;
    return row->differs && strcmp(row->kind, "waiting") != 0 && strcmp(row->kind, "part") != 0;
}

/* Returns the operation that explains the change best. Scopes and calls contain each other, so
 * several operations may have nearly the same change as the largest one. Of these, the result is
 * the one with the largest relative change. Operations on devices come first, because a host waits
 * for its device. */
static const mrd_diff_row *
cause_of(const mrd_diff *diff)
{
    const mrd_diff_row *found = NULL;

    for (int device = 1; device >= 0 && found == NULL; device--) {
        double most = 0, part = 0;

        for (size_t i = 0; i < diff->n_rows; i++) {
            const mrd_diff_row *row = &diff->rows[i];
            bool host = strcmp(row->kind, "host") == 0 || strcmp(row->kind, "runtime") == 0;

            if (!can_cause(diff, row) || host == (device == 1) ||
                (device == 1 && diff->step.differs &&
                 (row->is.change * diff->step.is.change <= 0 ||
                  fabs(row->is.change) * 4 < fabs(diff->step.is.change))))
                continue;
            /* rows are sorted, so the first one has the largest change */
            most = most > 0 ? most : fabs(row->is.change);
            if (fabs(row->is.change) >= 0.8 * most &&
                fabs(row->is.change) / (row->is.base + 1) > part) {
                part = fabs(row->is.change) / (row->is.base + 1);
                found = row;
            }
        }
    }
    return found;
}

static mrd_err
step_make(work *w)
{
    mrd_diff *diff = w->d;
    pair *p;
    mrd_err err;

    diff->step = (mrd_diff_row){ .kind = "step",
                                 .name = "",
                                 .size = MRD_NONE,
                                 .rank = MRD_NONE,
                                 .in_base = true,
                                 .in_now = true };
    if (diff->by_call)
        return MRD_OK;
    if ((p = calloc(1, sizeof(*p))) == NULL)
        return MRD_NOMEM;
    for (int side = 0; side < 2; side++) {
        for (size_t run = 0; run < w->side[side]->n; run++) {
            const mrd_diff_run *of = &w->side[side]->run[run];
            size_t n = 0, blocks = 0;
            double *v = step_series(of, 0, of->n_listed, &n);

            pair_add(p, side == 1, v, n);
            if (v != NULL && mrd_compare_warmup(&(mrd_compare_run){ v, n }, &blocks) != MRD_OK)
                p->failed = true;
            diff->warmup[side][run] = blocks * (uint64_t) mrd_json_int(of->steps, "width", 1);
        }
    }
    err = pair_compare(w, p, &diff->step.is, &diff->step.half);
    free(p);
    diff->step.differs =
        err == MRD_OK && is_large(w, &diff->step) && diff->step.is.p <= 1 - w->level;
    return err;
}

static mrd_err
check_sides(const work *w, mrd_why *why)
{
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < w->side[side]->n; i++) {
            const mrd_diff_run *run = &w->side[side]->run[i], *first = &w->side[0]->run[0];

            if (mrd_json_size(mrd_json_get(run->steps, "operations")) == 0 && run->n_steps == 0)
                return mrd_why_set(why, MRD_STATE, 0,
                                   "'%s' has no finished span: nothing to compare", run->label);
            if (run->by_call != first->by_call)
                return mrd_why_set(why, MRD_STATE, 0,
                                   "'%s' has training steps and '%s' has none: they cannot be "
                                   "compared per step",
                                   run->by_call ? first->label : run->label,
                                   run->by_call ? run->label : first->label);
        }
    }
    return MRD_OK;
}

mrd_err
mrd_diff_make(const mrd_diff_side *base, const mrd_diff_side *now, double level, double min_change,
              mrd_diff *ret, mrd_why *why)
{
    work w = { .side = { base, now }, .level = level, .min_change = min_change, .d = ret };
    mrd_err err;

    *ret = (mrd_diff){ .by_call = base->run[0].by_call, .by_means = base->some_left_out };
    w.on_one_timeline = is_on_one_timeline(base) && is_on_one_timeline(now);
    if ((err = check_sides(&w, why)) != MRD_OK)
        return err;
    if ((err = step_make(&w)) == MRD_OK && (err = ranks_make(&w)) == MRD_OK)
        err = collect(&w);
    for (size_t i = 0, n; i < w.n_entries && err == MRD_OK; i += n) {
        for (n = 1; i + n < w.n_entries && same_operation(&w.entries[i], &w.entries[i + n]); n++)
            ;
        err = row_add(&w, &w.entries[i], n);
    }
    if (err == MRD_OK)
        err = judge(&w);
    if (err == MRD_OK)
        find_slow_transfer(&w);
    free(w.entries);
    free(w.rank_sums);
    free(w.sorted);
    mrd_map_fini(&w.rank_at);
    if (err != MRD_OK) {
        mrd_diff_fini(ret);
        return mrd_why_set(why, err, 0, "comparing");
    }
    if (ret->n_rows > 0)
        qsort(ret->rows, ret->n_rows, sizeof(*ret->rows), row_order);
    ret->cause = cause_of(ret);
    return MRD_OK;
}

mrd_diff_verdict
mrd_diff_verdict_of(const mrd_diff *diff)
{
    if (diff->by_call)
        return diff->cause == NULL ? MRD_DIFF_NO_DIFFERENCE : MRD_DIFF_OPERATIONS_DIFFER;
    if (diff->step.is.drifts)
        return MRD_DIFF_DRIFTING;
    if (isinf(diff->step.half))
        return MRD_DIFF_TOO_FEW;
    return !diff->step.differs        ? MRD_DIFF_NO_DIFFERENCE
           : diff->step.is.change > 0 ? MRD_DIFF_SLOWER
                                      : MRD_DIFF_FASTER;
}

void
mrd_diff_fini(mrd_diff *diff)
{
    free(diff->rows);
    free(diff->ranks);
    *diff = (mrd_diff){ 0 };
}
