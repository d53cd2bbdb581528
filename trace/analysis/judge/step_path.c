#include "trace/analysis/judge/step_path.h"

#include <stdlib.h>
#include <string.h>

/* The path that ends at a worker: `base` until `since`, then what the worker does. */
typedef struct {
    mrd_critical_path base; /* its ns is unused */
    /* INT64_MIN if the path begins with the worker's first device span */
    mrd_ev_ns since;
    uint64_t had_ns[MRD_REPORT_PARTS]; /* the worker's account at `since` */
    uint64_t had_unmet_ns;
} path;

typedef struct {
    mrd_proc_id process;
    path path;
    uint64_t at_begin[MRD_REPORT_PARTS]; /* the account at the begin of the step */
    uint64_t caused_ns;                  /* in this step */
    mrd_step_worker pub;
} worker_state;

struct mrd_step_path {
    mrd_step_account_fn account;
    void *self;
    worker_state *workers;
    size_t n;
    bool chosen;          /* totals.process has steps */
    bool has_paths;       /* the workers do not come from program phases */
    bool any;             /* a path ended at a worker */
    mrd_ev_ns begin, end; /* of the current step; end is INT64_MAX if there is none */
    uint32_t last_late;
    uint64_t met_id, met_ns; /* the collective that met last, and the waits for met_late in it */
    uint32_t met_late;
    mrd_step_block blocks[MRD_PATH_BLOCKS];
    mrd_step_totals totals;
};

mrd_step_path *
mrd_step_path_new(const mrd_workers *who, mrd_step_account_fn account, void *self)
{
    mrd_step_path *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->account = account;
    p->self = self;
    p->n = mrd_workers_count(who);
    p->has_paths = !mrd_workers_are_phases(who);
    p->end = (mrd_ev_ns){ INT64_MAX };
    p->last_late = p->met_late = MRD_NO_WORKER;
    p->totals.width = 1;
    if ((p->workers = calloc(p->n + 1, sizeof(*p->workers))) == NULL) {
        free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        p->workers[i].process = mrd_workers_at(who, i)->process;
        p->workers[i].path.since = (mrd_ev_ns){ INT64_MIN };
    }
    return p;
}

void
mrd_step_path_free(mrd_step_path *p)
{
    if (p == NULL)
        return;
    free(p->workers);
    free(p);
}

/* ---- Paths ---- */

/* Adds a time in which the path ran through a worker. */
static void
share_add(mrd_critical_path *c, uint32_t worker, uint64_t ns)
{
    uint32_t i = 0;

    while (i < c->shares && c->share[i].worker != worker)
        i++;
    if (i == c->shares && i == MRD_PATH_SHARES && c->share[--i].ns >= ns) {
        c->rest_ns += ns;
        return;
    }
    if (i < c->shares && c->share[i].worker != worker) { /* replaces the smallest share */
        c->rest_ns += c->share[i].ns;
        c->share[i] = (mrd_path_share){ worker, 0 };
    } else if (i == c->shares) {
        c->share[c->shares++] = (mrd_path_share){ worker, 0 };
    }
    c->share[i].ns += ns;
    for (; i > 0 && c->share[i - 1].ns < c->share[i].ns; i--) {
        mrd_path_share v = c->share[i];

        c->share[i] = c->share[i - 1];
        c->share[i - 1] = v;
    }
}

/* Lets the worker's path continue from `at` with this base. */
static void
path_from(path *v, const mrd_critical_path *base, mrd_ev_ns at, const mrd_step_account *account)
{
    v->base = *base;
    v->since = at;
    memcpy(v->had_ns, account->part_ns, sizeof(v->had_ns));
    v->had_unmet_ns = account->unmet_ns;
}

/* Returns the path that ends at the worker at `at`. `account` is the worker's account at that time. */
static mrd_critical_path
path_to(mrd_step_path *p, uint32_t worker, mrd_ev_ns at, const mrd_step_account *account)
{
    const path *v = &p->workers[worker].path;
    mrd_critical_path c = v->base;
    mrd_ev_ns since = v->since;
    uint64_t known = 0, all;

    if (since.ns == INT64_MIN) {
        since = account->any ? account->first : at;
        c.begin = since;
    }
    all = mrd_ev_after(at, since) ? (uint64_t) mrd_ev_diff(at, since) : 0;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        c.part_ns[k] += account->part_ns[k] - v->had_ns[k];
        known += account->part_ns[k] - v->had_ns[k];
    }
    c.unmet_ns += account->unmet_ns - v->had_unmet_ns;
    c.part_ns[MRD_REPORT_IDLE] += all > known ? all - known : 0; /* before its first device span */
    share_add(&c, worker, all);
    return c;
}

/* Adds the waits for the last worker of a collective. A repeated call for the same collective
 * replaces the waits, because a part began later still. */
static void
waits_add(mrd_step_path *p, const mrd_gathered *c)
{
    mrd_ev_ns at = c->parts[c->n - 1].begin;

    if (p->met_late != MRD_NO_WORKER && p->met_id == c->id)
        p->workers[p->met_late].caused_ns -= p->met_ns;
    p->met_id = c->id;
    p->met_late = c->parts[c->n - 1].core;
    p->met_ns = 0;
    for (size_t i = 0; i + 1 < c->n && !c->is_tie; i++) {
        mrd_ev_ns from = c->parts[i].begin;

        if (p->end.ns != INT64_MAX)
            from = mrd_ev_max(from, p->begin);
        p->met_ns += (uint64_t) mrd_ev_diff(at, from);
    }
    p->workers[p->met_late].caused_ns += p->met_ns;
}

void
mrd_step_path_meet(mrd_step_path *p, const mrd_gathered *c)
{
    const mrd_gather_part *last = &c->parts[c->n - 1];
    mrd_step_account account;
    mrd_critical_path from;

    waits_add(p, c);
    p->account(p->self, last->core, last->begin, &account);
    from = path_to(p, last->core, last->begin, &account);
    path_from(&p->workers[last->core].path, &from, last->begin, &account);
    from.changes++;
    for (size_t i = 0; i + 1 < c->n; i++) {
        const mrd_gather_part *part = &c->parts[i];

        if (!mrd_ev_before(part->begin, last->begin) || mrd_ev_before(part->end, last->begin))
            continue; /* did not wait, or left before by its clock */
        p->account(p->self, part->core, last->begin, &account);
        path_from(&p->workers[part->core].path, &from, last->begin, &account);
    }
}

/* ---- Steps ---- */

mrd_ev_ns
mrd_step_path_end(const mrd_step_path *p)
{
    return p->end;
}

void
mrd_step_path_begin(mrd_step_path *p, mrd_proc_id process, mrd_ev_ns begin, mrd_ev_ns end)
{
    const mrd_critical_path none = { .begin = begin };

    if (p->end.ns != INT64_MAX || (p->chosen && process != p->totals.process) ||
        !mrd_ev_after(end, begin) || end.ns == INT64_MAX)
        return;
    p->chosen = true;
    p->totals.process = process;
    p->begin = begin;
    p->end = end;
    p->met_late = MRD_NO_WORKER;
    for (uint32_t i = 0; i < p->n; i++) {
        mrd_step_account account;

        p->account(p->self, i, begin, &account);
        path_from(&p->workers[i].path, &none, begin, &account);
        memcpy(p->workers[i].at_begin, account.part_ns, sizeof(account.part_ns));
        p->workers[i].caused_ns = 0;
    }
}

/* Returns the worker at which the path ends. Workers of the steps' process come first, then all
 * workers. Of several, the longest working device decides. */
static uint32_t
ends_at(mrd_step_path *p, mrd_ev_ns at)
{
    mrd_ev_ns longest = { INT64_MIN };
    uint32_t best = MRD_NO_WORKER;

    for (unsigned all = p->chosen ? 0 : 1; all < 2 && best == MRD_NO_WORKER; all++) {
        for (uint32_t i = 0; i < p->n; i++) {
            mrd_step_account account;

            if (all == 0 && p->workers[i].process != p->totals.process)
                continue;
            p->account(p->self, i, at, &account);
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
block_of(mrd_step_path *p, uint64_t step)
{
    if (step / p->totals.width == MRD_PATH_BLOCKS) {
        for (size_t i = 0; i < MRD_PATH_BLOCKS / 2; i++) {
            mrd_step_block both = p->blocks[2 * i];

            block_add(&both, &p->blocks[2 * i + 1]);
            p->blocks[i] = both;
        }
        memset(&p->blocks[MRD_PATH_BLOCKS / 2], 0, sizeof(p->blocks) / 2);
        p->totals.width *= 2;
    }
    p->totals.blocks = (size_t) (step / p->totals.width) + 1;
    return &p->blocks[step / p->totals.width];
}

/* Adds a complete path to the totals. */
static void
path_over(mrd_step_path *p, mrd_ev_ns at, mrd_step_block *block)
{
    uint32_t worker = p->has_paths ? ends_at(p, at) : MRD_NO_WORKER;
    mrd_step_account account;
    mrd_critical_path c = { .begin = p->begin };

    if (worker != MRD_NO_WORKER) {
        p->account(p->self, worker, at, &account);
        c = path_to(p, worker, at, &account);
    } else if (!p->chosen) {
        return;
    }
    c.ns = mrd_ev_after(at, c.begin) ? (uint64_t) mrd_ev_diff(at, c.begin) : 0;
    if (worker == MRD_NO_WORKER)
        c.part_ns[MRD_REPORT_IDLE] = c.rest_ns = c.ns;
    p->any = p->any || worker != MRD_NO_WORKER;
    p->totals.path_of_all_ns += c.ns;
    p->totals.unmet_ns += c.unmet_ns;
    p->totals.changes += c.changes;
    for (unsigned k = 0; k < MRD_REPORT_PARTS; k++) {
        p->totals.path_ns[k] += c.part_ns[k];
        if (block != NULL)
            block->path_ns[k] += c.part_ns[k];
    }
    for (uint32_t i = 0; i < c.shares; i++)
        p->workers[c.share[i].worker].pub.path_ns += c.share[i].ns;
    if (c.ns > p->totals.slowest.ns) {
        p->totals.slowest = c;
        p->totals.slowest_number = p->totals.steps;
    }
}

/* Finds the late worker of the step, and counts whether it changed. */
static void
late_over(mrd_step_path *p)
{
    uint32_t late = MRD_NO_WORKER;

    for (uint32_t i = 0; i < p->n; i++) {
        p->workers[i].pub.caused_ns += p->workers[i].caused_ns;
        if (p->workers[i].caused_ns > 0 &&
            (late == MRD_NO_WORKER || p->workers[i].caused_ns > p->workers[late].caused_ns))
            late = i;
    }
    if (late == MRD_NO_WORKER)
        return;
    p->totals.changed += p->last_late != MRD_NO_WORKER && p->last_late != late;
    p->totals.late_steps++;
    p->workers[late].pub.late++;
    p->last_late = late;
}

void
mrd_step_path_over(mrd_step_path *p)
{
    mrd_step_block *block;

    if (p->end.ns == INT64_MAX)
        return;
    block = block_of(p, p->totals.steps);
    block->steps++;
    block->ns += (uint64_t) mrd_ev_diff(p->end, p->begin);
    for (uint32_t i = 0; i < p->n; i++) {
        mrd_step_account account;

        p->account(p->self, i, p->end, &account);
        for (unsigned k = 0; k < MRD_REPORT_PARTS; k++)
            block->part_ns[k] += account.part_ns[k] - p->workers[i].at_begin[k];
    }
    path_over(p, p->end, block);
    late_over(p);
    p->totals.steps++;
    p->end = (mrd_ev_ns){ INT64_MAX };
    p->met_late = MRD_NO_WORKER;
}

void
mrd_step_path_finish(mrd_step_path *p)
{
    mrd_ev_ns last = { INT64_MIN };

    if (p->chosen) {
        mrd_step_path_over(p);
        if (!p->any) { /* no device did anything before the end of the last step */
            p->totals.path_of_all_ns = p->totals.slowest.ns = 0;
            memset(p->totals.path_ns, 0, sizeof(p->totals.path_ns));
            for (size_t i = 0; i < p->totals.blocks; i++)
                memset(p->blocks[i].path_ns, 0, sizeof(p->blocks[i].path_ns));
        }
        return;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        mrd_step_account account;

        p->account(p->self, i, (mrd_ev_ns){ INT64_MIN }, &account);
        if (account.any)
            last = mrd_ev_max(last, account.device_end);
    }
    path_over(p, last, NULL);
}

void
mrd_step_path_renumber(mrd_step_path *p, const uint32_t *place)
{
    mrd_critical_path *slowest = &p->totals.slowest;

    for (size_t i = 0; i < p->n; i++)
        p->workers[place[i]].pub = p->workers[i].pub;
    for (uint32_t i = 0; i < slowest->shares; i++)
        slowest->share[i].worker = place[slowest->share[i].worker];
}

/* ---- Results ---- */

const mrd_step_totals *
mrd_step_path_totals(const mrd_step_path *p)
{
    return &p->totals;
}

const mrd_step_block *
mrd_step_path_blocks(const mrd_step_path *p, size_t *ret_n)
{
    *ret_n = p->totals.blocks;
    return p->blocks;
}

const mrd_step_worker *
mrd_step_path_worker(const mrd_step_path *p, uint32_t worker)
{
    return &p->workers[worker].pub;
}
