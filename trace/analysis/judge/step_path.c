#include "trace/analysis/judge/step_path.h"

#include <stdlib.h>
#include <string.h>

/* Smaller changes of the mean step than this share are not reported. */
#define CHANGE_EFFECT 0.01

/* The critical path that ends at one worker: the path `base` up to `since`, then only the time of
 * this worker. */
typedef struct {
    mrd_critical_path base; /* the field `ns` of `base` is unused */
    /* end of `base`; INT64_MIN if there is no `base`, so that the path begins with the worker's
     * first device span */
    mrd_ev_ns since;
    /* Time in ns that the worker had spent in each part up to `since`. Only later time belongs to
     * the path. */
    uint64_t had_ns[MRD_REPORT_PARTS];
    uint64_t had_unmet_ns;
} path;

typedef struct {
    mrd_proc_id process;
    path path;
    /* time in ns that the worker had spent in each part when the step began */
    uint64_t at_begin[MRD_REPORT_PARTS];
    uint64_t caused_ns; /* time that others waited for the worker in this step */
    mrd_step_worker pub;
} worker_state;

struct mrd_step_path {
    mrd_step_account_fn account;
    void *self;
    worker_state *workers;
    size_t n;
    bool chosen;    /* a process was chosen, and totals.process is its number */
    bool has_paths; /* false if the workers come from program phases, which have no paths */
    bool any;       /* at least one path was found */
    /* begin and end of the current step; end is INT64_MAX if there is no step */
    mrd_ev_ns begin, end;
    uint32_t last_late;
    /* id of the latest collective that all members began; met_ns is how long they waited in it for
     * the worker met_late */
    uint64_t met_id, met_ns;
    uint32_t met_late;
    mrd_step_block blocks[MRD_PATH_BLOCKS];
    mrd_sid name;     /* name of the current step's span */
    mrd_onset *onset; /* the duration of each step */
    mrd_step_totals totals;
};

mrd_step_path *
mrd_step_path_new(const mrd_workers *who, mrd_step_account_fn account, void *self)
{
    mrd_step_path *step_path = calloc(1, sizeof(*step_path));

    if (step_path == NULL)
        return NULL;
    step_path->account = account;
    step_path->self = self;
    step_path->n = mrd_workers_count(who);
    step_path->has_paths = !mrd_workers_are_phases(who);
    step_path->end = (mrd_ev_ns){ INT64_MAX };
    step_path->last_late = step_path->met_late = MRD_NO_WORKER;
    step_path->totals.width = 1;
    if ((step_path->workers = calloc(step_path->n + 1, sizeof(*step_path->workers))) == NULL ||
        (step_path->onset = mrd_onset_new()) == NULL) {
        mrd_step_path_free(step_path);
        return NULL;
    }
    for (uint32_t i = 0; i < step_path->n; i++) {
        step_path->workers[i].process = mrd_workers_at(who, i)->process;
        step_path->workers[i].path.since = (mrd_ev_ns){ INT64_MIN };
    }
    return step_path;
}

void
mrd_step_path_free(mrd_step_path *step_path)
{
    if (step_path == NULL)
        return;
    mrd_onset_free(step_path->onset);
    free(step_path->workers);
    free(step_path);
}

/* ---- Paths ---- */

/* Adds `ns` to the share of a worker in the path. Only the largest shares are stored, and the
 * others are summed in rest_ns. */
static void
share_add(mrd_critical_path *critical_path, uint32_t worker, uint64_t ns)
{
    uint32_t i = 0;

    while (i < critical_path->shares && critical_path->share[i].worker != worker)
        i++;
    if (i == critical_path->shares && i == MRD_PATH_SHARES && critical_path->share[--i].ns >= ns) {
        critical_path->rest_ns += ns;
        return;
    }
    if (i < critical_path->shares &&
        /* the list is full, so this worker replaces the one with the smallest share */
        critical_path->share[i].worker != worker) {
        critical_path->rest_ns += critical_path->share[i].ns;
        critical_path->share[i] = (mrd_path_share){ worker, 0 };
    } else if (i == critical_path->shares) {
        critical_path->share[critical_path->shares++] = (mrd_path_share){ worker, 0 };
    }
    critical_path->share[i].ns += ns;
    for (; i > 0 && critical_path->share[i - 1].ns < critical_path->share[i].ns; i--) {
        mrd_path_share share = critical_path->share[i];

        critical_path->share[i] = critical_path->share[i - 1];
        critical_path->share[i - 1] = share;
    }
}

/* Makes the worker's path continue from `base`, which ends at `at`. `account` is the worker's time
 * account at `at`. */
static void
path_from(path *v, const mrd_critical_path *base, mrd_ev_ns at, const mrd_step_account *account)
{
    v->base = *base;
    v->since = at;
    memcpy(v->had_ns, account->part_ns, sizeof(v->had_ns));
    v->had_unmet_ns = account->unmet_ns;
}

/* Returns the critical path to this worker at time `at`. `account` is the worker's time account at
 * `at`. */
static mrd_critical_path
path_to(mrd_step_path *step_path, uint32_t worker, mrd_ev_ns at, const mrd_step_account *account)
{
    const path *v = &step_path->workers[worker].path;
    mrd_critical_path critical_path = v->base;
    mrd_ev_ns since = v->since;
    uint64_t known = 0, all;

    if (since.ns == INT64_MIN) {
        since = account->any ? account->first : at;
        critical_path.begin = since;
    }
    all = mrd_ev_after(at, since) ? (uint64_t) mrd_ev_diff(at, since) : 0;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        critical_path.part_ns[k] += account->part_ns[k] - v->had_ns[k];
        known += account->part_ns[k] - v->had_ns[k];
    }
    critical_path.unmet_ns += account->unmet_ns - v->had_unmet_ns;
    critical_path.part_ns[MRD_REPORT_IDLE] +=
        /* unaccounted time lies before the worker's first device span, where it was idle */
        all > known ? all - known : 0;
    share_add(&critical_path, worker, all);
    return critical_path;
}

/* Adds the time for which the other members waited to caused_ns of the worker that came last. If
 * the same collective is passed again, because a later member has joined, the function first
 * subtracts the waits that it added before. */
static void
waits_add(mrd_step_path *step_path, const mrd_gathered *group)
{
    mrd_ev_ns at = group->parts[group->n - 1].begin;

    if (step_path->met_late != MRD_NO_WORKER && step_path->met_id == group->id)
        step_path->workers[step_path->met_late].caused_ns -= step_path->met_ns;
    step_path->met_id = group->id;
    step_path->met_late = group->parts[group->n - 1].core;
    step_path->met_ns = 0;
    for (size_t i = 0; i + 1 < group->n && !group->is_tie; i++) {
        mrd_ev_ns from = group->parts[i].begin;

        if (step_path->end.ns != INT64_MAX)
            from = mrd_ev_max(from, step_path->begin);
        step_path->met_ns += (uint64_t) mrd_ev_diff(at, from);
    }
    step_path->workers[step_path->met_late].caused_ns += step_path->met_ns;
}

void
mrd_step_path_meet(mrd_step_path *step_path, const mrd_gathered *group)
{
    const mrd_gather_part *last = &group->parts[group->n - 1];
    mrd_step_account account;
    mrd_critical_path from;

    waits_add(step_path, group);
    step_path->account(step_path->self, last->core, last->begin, &account);
    from = path_to(step_path, last->core, last->begin, &account);
    path_from(&step_path->workers[last->core].path, &from, last->begin, &account);
    from.changes++;
    for (size_t i = 0; i + 1 < group->n; i++) {
        const mrd_gather_part *part = &group->parts[i];

        if (!mrd_ev_before(part->begin, last->begin) || mrd_ev_before(part->end, last->begin))
            /* this worker did not wait, or by clock errors it left before the last worker began */
            continue;
        step_path->account(step_path->self, part->core, last->begin, &account);
        path_from(&step_path->workers[part->core].path, &from, last->begin, &account);
    }
}

/* ---- Steps ---- */

mrd_ev_ns
mrd_step_path_end(const mrd_step_path *step_path)
{
    return step_path->end;
}

void
mrd_step_path_begin(mrd_step_path *step_path, mrd_proc_id process, mrd_sid name, mrd_ev_ns begin,
                    mrd_ev_ns end)
{
    const mrd_critical_path none = { .begin = begin };

    if (step_path->end.ns != INT64_MAX ||
        (step_path->chosen && process != step_path->totals.process) || !mrd_ev_after(end, begin) ||
        end.ns == INT64_MAX)
        return;
    step_path->chosen = true;
    step_path->name = name;
    step_path->totals.process = process;
    step_path->begin = begin;
    step_path->end = end;
    step_path->met_late = MRD_NO_WORKER;
    for (uint32_t i = 0; i < step_path->n; i++) {
        mrd_step_account account;

        step_path->account(step_path->self, i, begin, &account);
        path_from(&step_path->workers[i].path, &none, begin, &account);
        memcpy(step_path->workers[i].at_begin, account.part_ns, sizeof(account.part_ns));
        step_path->workers[i].caused_ns = 0;
    }
}

/* Returns the worker at which a path that ends at time `at` has to end: the one with the latest end
 * of device work. Only workers of the steps' process count, unless none of them had device work. */
static uint32_t
ends_at(mrd_step_path *step_path, mrd_ev_ns at)
{
    mrd_ev_ns longest = { INT64_MIN };
    uint32_t best = MRD_NO_WORKER;

    for (unsigned all = step_path->chosen ? 0 : 1; all < 2 && best == MRD_NO_WORKER; all++) {
        for (uint32_t i = 0; i < step_path->n; i++) {
            mrd_step_account account;

            if (all == 0 && step_path->workers[i].process != step_path->totals.process)
                continue;
            step_path->account(step_path->self, i, at, &account);
            if (!account.any || !mrd_ev_after(account.device_end, longest))
                continue;
            longest = account.device_end;
            best = i;
        }
    }
    return best;
}

static void
block_add(mrd_step_block *to, const mrd_step_block *from)
{
    to->steps += from->steps;
    to->ns += from->ns;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        to->part_ns[k] += from->part_ns[k];
        to->path_ns[k] += from->path_ns[k];
    }
}

static mrd_step_block *
block_of(mrd_step_path *step_path, uint64_t step)
{
    if (step / step_path->totals.width == MRD_PATH_BLOCKS) {
        for (size_t i = 0; i < MRD_PATH_BLOCKS / 2; i++) {
            mrd_step_block both = step_path->blocks[2 * i];

            block_add(&both, &step_path->blocks[2 * i + 1]);
            step_path->blocks[i] = both;
        }
        memset(&step_path->blocks[MRD_PATH_BLOCKS / 2], 0, sizeof(step_path->blocks) / 2);
        step_path->totals.width *= 2;
    }
    step_path->totals.blocks = (size_t) (step / step_path->totals.width) + 1;
    return &step_path->blocks[step / step_path->totals.width];
}

/* Ends the current path at time `at`, and adds it to the totals. */
static void
path_over(mrd_step_path *step_path, mrd_ev_ns at, mrd_step_block *block)
{
    uint32_t worker = step_path->has_paths ? ends_at(step_path, at) : MRD_NO_WORKER;
    mrd_step_account account;
    mrd_critical_path critical_path = { .begin = step_path->begin };

    if (worker != MRD_NO_WORKER) {
        step_path->account(step_path->self, worker, at, &account);
        critical_path = path_to(step_path, worker, at, &account);
    } else if (!step_path->chosen) {
        return;
    }
    critical_path.ns =
        mrd_ev_after(at, critical_path.begin) ? (uint64_t) mrd_ev_diff(at, critical_path.begin) : 0;
    if (worker == MRD_NO_WORKER)
        critical_path.part_ns[MRD_REPORT_IDLE] = critical_path.rest_ns = critical_path.ns;
    step_path->any = step_path->any || worker != MRD_NO_WORKER;
    step_path->totals.path_of_all_ns += critical_path.ns;
    step_path->totals.unmet_ns += critical_path.unmet_ns;
    step_path->totals.changes += critical_path.changes;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        step_path->totals.path_ns[k] += critical_path.part_ns[k];
        if (block != NULL)
            block->path_ns[k] += critical_path.part_ns[k];
    }
    for (uint32_t i = 0; i < critical_path.shares; i++)
        step_path->workers[critical_path.share[i].worker].pub.path_ns += critical_path.share[i].ns;
    if (critical_path.ns > step_path->totals.slowest.ns) {
        step_path->totals.slowest = critical_path;
        step_path->totals.slowest_number = step_path->totals.steps;
    }
}

/* Finds the worker that the others waited for longest in this step. Counts whether it differs from
 * the late worker of an earlier step. */
static void
late_over(mrd_step_path *step_path)
{
    uint32_t late = MRD_NO_WORKER;

    for (uint32_t i = 0; i < step_path->n; i++) {
        step_path->workers[i].pub.caused_ns += step_path->workers[i].caused_ns;
        if (step_path->workers[i].caused_ns > 0 &&
            (late == MRD_NO_WORKER ||
             step_path->workers[i].caused_ns > step_path->workers[late].caused_ns))
            late = i;
    }
    if (late == MRD_NO_WORKER)
        return;
    step_path->totals.changed +=
        step_path->last_late != MRD_NO_WORKER && step_path->last_late != late;
    step_path->totals.late_steps++;
    step_path->workers[late].pub.late++;
    step_path->last_late = late;
}

void
mrd_step_path_over(mrd_step_path *step_path)
{
    mrd_step_block *block;

    if (step_path->end.ns == INT64_MAX)
        return;
    block = block_of(step_path, step_path->totals.steps);
    block->steps++;
    block->name = step_path->name;
    block->ns += (uint64_t) mrd_ev_diff(step_path->end, step_path->begin);
    mrd_onset_add(step_path->onset, step_path->begin, 0,
                  (uint64_t) mrd_ev_diff(step_path->end, step_path->begin));
    for (uint32_t i = 0; i < step_path->n; i++) {
        mrd_step_account account;

        step_path->account(step_path->self, i, step_path->end, &account);
        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            block->part_ns[k] += account.part_ns[k] - step_path->workers[i].at_begin[k];
    }
    path_over(step_path, step_path->end, block);
    late_over(step_path);
    step_path->totals.steps++;
    step_path->end = (mrd_ev_ns){ INT64_MAX };
    step_path->met_late = MRD_NO_WORKER;
}

void
mrd_step_path_finish(mrd_step_path *step_path)
{
    mrd_ev_ns last = { INT64_MIN };

    if (step_path->chosen) {
        mrd_step_path_over(step_path);
        if (!step_path->any) { /* no device ran anything before the end of the last step */
            step_path->totals.path_of_all_ns = step_path->totals.slowest.ns = 0;
            memset(step_path->totals.path_ns, 0, sizeof(step_path->totals.path_ns));
            for (size_t i = 0; i < step_path->totals.blocks; i++)
                memset(step_path->blocks[i].path_ns, 0, sizeof(step_path->blocks[i].path_ns));
        }
        return;
    }
    for (uint32_t i = 0; i < step_path->n; i++) {
        mrd_step_account account;

        step_path->account(step_path->self, i, (mrd_ev_ns){ INT64_MIN }, &account);
        if (account.any)
            last = mrd_ev_max(last, account.device_end);
    }
    path_over(step_path, last, NULL);
}

void
mrd_step_path_renumber(mrd_step_path *step_path, const uint32_t *place)
{
    mrd_critical_path *slowest = &step_path->totals.slowest;

    for (size_t i = 0; i < step_path->n; i++)
        step_path->workers[place[i]].pub = step_path->workers[i].pub;
    for (uint32_t i = 0; i < slowest->shares; i++)
        slowest->share[i].worker = place[slowest->share[i].worker];
}

/* ---- Results ---- */

const mrd_step_totals *
mrd_step_path_totals(const mrd_step_path *step_path)
{
    return &step_path->totals;
}

const mrd_step_block *
mrd_step_path_blocks(const mrd_step_path *step_path, size_t *ret_n)
{
    *ret_n = step_path->totals.blocks;
    return step_path->blocks;
}

mrd_trend
mrd_step_path_trend(const mrd_step_path *step_path)
{
    double v[MRD_PATH_BLOCKS];
    size_t kept = 0;

    for (size_t i = 0; i < step_path->totals.blocks && i < MRD_PATH_BLOCKS; i++) {
        const mrd_step_block *block = &step_path->blocks[i];

        if (block->steps >= step_path->totals.width)
            v[kept++] = (double) block->ns / (double) block->steps;
    }
    return mrd_trend_of(v, kept, true);
}

uint64_t
mrd_step_path_at(const mrd_step_path *step_path, mrd_ev_ns at)
{
    return mrd_onset_number_at(step_path->onset, at);
}

mrd_err
mrd_step_path_changes(const mrd_step_path *step_path, mrd_onset_result *ret)
{
    return mrd_onset_of(step_path->onset, 0, CHANGE_EFFECT, false, ret);
}

const mrd_step_worker *
mrd_step_path_worker(const mrd_step_path *step_path, uint32_t worker)
{
    return &step_path->workers[worker].pub;
}
