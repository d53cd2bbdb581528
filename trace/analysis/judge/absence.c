#include "trace/analysis/judge/absence.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

/* Maximum number of collectives that are kept until mrd_absence_worst. */
#define KEPT_MOST 4096
/* Maximum number of launches that wait for their kernel. Further launches count as unrecorded. */
#define LAUNCHES_MOST 1000000

/* A collective that was not left, or was left late. */
typedef struct {
    mrd_gathered c;
    mrd_gather_part *parts; /* owned; c.parts points to it */
    size_t cap;
    uint64_t usual_ns;
    bool is_proven;
} candidate;

/* State of a worker. Times are INT64_MIN before the first event. */
typedef struct {
    mrd_ev_ns device; /* latest end of a device span, or begin of an open one */
    mrd_ev_ns lost;   /* latest end of a time in which events were lost */
    /* the worker's latest collective that no participant has left; `until` is INT64_MIN if there is
     * none */
    uint64_t id;
    mrd_ev_ns until;
} worker_seen;

typedef struct {
    mrd_ev_ns last;      /* latest event */
    bool has_launches;   /* the trace connects launches with kernels, by numbers */
    uint64_t unrecorded; /* launches without a recorded kernel */
} process_seen;

struct mrd_absence {
    const mrd_catalog *cat;
    const mrd_workers *who;
    const mrd_gather *gather;
    worker_seen *workers;
    process_seen *processes;
    mrd_map launches;    /* has the numbers of launches without a recorded kernel */
    uint64_t unrecorded; /* number of entries in `launches` */
    candidate *kept;
    size_t n_kept, cap_kept;
};

mrd_absence *
mrd_absence_new(const mrd_catalog *cat, const mrd_workers *who, const mrd_gather *gather)
{
    mrd_absence *a = calloc(1, sizeof(*a));
    size_t workers = who == NULL ? 0 : mrd_workers_count(who), processes;
    mrd_ev_ns never = { INT64_MIN };

    if (a == NULL)
        return NULL;
    processes = mrd_catalog_processes(cat);
    a->cat = cat;
    a->who = who;
    a->gather = gather;
    a->workers = calloc(workers + 1, sizeof(*a->workers));
    a->processes = calloc(processes + 1, sizeof(*a->processes));
    if (a->workers == NULL || a->processes == NULL) {
        mrd_absence_free(a);
        return NULL;
    }
    for (size_t i = 0; i < workers; i++)
        a->workers[i] = (worker_seen){ .device = never, .lost = never, .until = never };
    for (size_t i = 0; i < processes; i++)
        a->processes[i] = (process_seen){ .last = never };
    return a;
}

void
mrd_absence_free(mrd_absence *a)
{
    if (a == NULL)
        return;
    for (size_t i = 0; i < a->n_kept; i++)
        free(a->kept[i].parts);
    free(a->kept);
    mrd_map_fini(&a->launches);
    free(a->workers);
    free(a->processes);
    free(a);
}

static mrd_ev_ns
end_of(const mrd_event *ev)
{
    return ev->kind == MRD_SPAN && ev->dur_ns >= 0 ? mrd_event_end(ev) : ev->ts;
}

mrd_err
mrd_absence_event(mrd_absence *a, const mrd_event *ev, const uint64_t *number)
{
    process_seen *p = &a->processes[mrd_catalog_borrow_track(a->cat, ev->track)->process];
    mrd_map_key key = { number == NULL ? 0 : *number, 0, 0 };

    if ((ev->flags & MRD_EV_MISTIMED) == 0)
        p->last = mrd_ev_max(p->last, end_of(ev));
    if (number == NULL || !mrd_str_has(mrd_catalog_text(a->cat, ev->name), "Launch") ||
        mrd_map_get(&a->launches, key) != MRD_MAP_NONE)
        return MRD_OK;
    p->has_launches = true;
    p->unrecorded++;
    return a->unrecorded++ < LAUNCHES_MOST ? mrd_map_put(&a->launches, key, 0) : MRD_OK;
}

void
mrd_absence_device(mrd_absence *a, uint32_t worker, const mrd_event *ev, const uint64_t *number)
{
    worker_seen *w = &a->workers[worker];
    mrd_map_key key = { number == NULL ? 0 : *number, 0, 0 };

    w->device = mrd_ev_max(w->device, end_of(ev));
    if (number == NULL || mrd_map_get(&a->launches, key) == MRD_MAP_NONE)
        return;
    mrd_map_remove(&a->launches, key);
    a->unrecorded--;
    a->processes[mrd_workers_at(a->who, worker)->process].unrecorded--;
}

void
mrd_absence_lost(mrd_absence *a, uint32_t worker, const mrd_event *ev)
{
    a->workers[worker].lost = mrd_ev_max(a->workers[worker].lost, mrd_event_end(ev));
}

static int
part_order(const void *x, const void *y)
{
    const mrd_gather_part *a = x, *b = y;

    return (a->begin.ns > b->begin.ns) - (a->begin.ns < b->begin.ns);
}

/* Returns the kept collective to which the parts of `c` belong, or NULL. The gatherer may have
 * split one collective in two, because members in another operation began between its parts. */
static candidate *
find_kept(const mrd_absence *a, const mrd_gathered *c)
{
    for (size_t i = a->n_kept; i > 0; i--) {
        candidate *k = &a->kept[i - 1];

        if (k->c.group == c->group && k->c.op == c->op && k->c.size == c->size &&
            (k->c.n_open > 0) == (c->n_open > 0) &&
            !mrd_ev_after(c->parts[0].begin, k->parts[0].end))
            return k;
    }
    return NULL;
}

static mrd_err
keep(mrd_absence *a, const mrd_gathered *c, uint64_t usual_ns, bool is_proven)
{
    candidate *to = find_kept(a, c);

    if (to == NULL && a->n_kept == KEPT_MOST)
        return MRD_OK;
    if (to == NULL) {
        if (!MRD_VEC_ROOM(a->kept, a->n_kept, a->cap_kept, 1))
            return MRD_NOMEM;
        to = &a->kept[a->n_kept++];
        *to = (candidate){ .c = *c, .usual_ns = usual_ns, .is_proven = is_proven };
        to->c.n = to->c.n_open = 0;
    } else {
        to->is_proven = false;
    }
    if (!MRD_VEC_ROOM(to->parts, to->c.n, to->cap, c->n))
        return MRD_NOMEM;
    memcpy(to->parts + to->c.n, c->parts, c->n * sizeof(*c->parts));
    to->c.n += c->n;
    to->c.n_open += c->n_open;
    to->c.parts = to->parts;
    qsort(to->parts, to->c.n, sizeof(*to->parts), part_order);
    return MRD_OK;
}

mrd_err
mrd_absence_note(mrd_absence *a, const mrd_gathered *c, uint64_t usual_ns, bool is_proven)
{
    uint32_t members, takers = mrd_gather_takers(a->gather, c->group, &members);
    bool is_open = c->n_open > 0;
    uint64_t spent = 0;

    /* the collective took place if a part of it has ended */
    if (!c->is_left || (is_open ? c->n_open < c->n : c->n >= takers))
        return MRD_OK;
    for (size_t i = 0; i < c->n; i++) {
        worker_seen *w = &a->workers[c->parts[i].core];

        w->id = c->id;
        w->until.ns = is_open ? INT64_MAX : c->parts[i].end.ns;
        spent += (uint64_t) mrd_ev_diff(c->parts[i].end, c->parts[i].begin);
    }
    if (usual_ns == 0 || (!is_open && spent / c->n / MRD_REPORT_ABSENT < usual_ns))
        return MRD_OK;
    return keep(a, c, usual_ns, is_proven);
}

/* ---- The result ---- */

static const process_seen *
process_of(const mrd_absence *a, uint32_t worker)
{
    return &a->processes[mrd_workers_at(a->who, worker)->process];
}

static bool
takes_part(const candidate *k, uint32_t worker)
{
    for (size_t i = 0; i < k->c.n; i++)
        if (k->c.parts[i].core == worker)
            return true;
    return false;
}

/* Returns true if events of the worker are lost that may be its part of a collective. */
static bool
may_lack(const mrd_absence *a, const candidate *k, uint32_t worker)
{
    uint32_t number = (uint32_t) k->c.id & INT32_MAX,
             joined = mrd_gather_joined(a->gather, k->c.group, worker);
    mrd_proc_id process = mrd_workers_at(a->who, worker)->process;

    return joined + 1 < number || mrd_ev_after(a->workers[worker].lost, k->c.parts[0].begin) ||
           (mrd_catalog_borrow_process(a->cat, process)->flags & MRD_PROC_CUT) != 0;
}

/* Returns true if the recording shows that the worker did something else until `least`, instead of
 * taking part. A recorder may store a kernel only when the kernel ends. So if the parts in the
 * recording have ended, the worker's part may merely be unfinished, unless the launches show that
 * it was never launched. */
static bool
is_elsewhere(const mrd_absence *a, const candidate *k, uint32_t worker, mrd_ev_ns least)
{
    const process_seen *p = process_of(a, worker);

    return p->unrecorded == 0 && ((!mrd_ev_before(a->workers[worker].device, least) &&
                                   (k->c.n_open > 0 || p->has_launches)) ||
                                  (!mrd_ev_before(p->last, least) && p->has_launches));
}

/* Appends a worker. Workers that are certain come first. */
static void
add_absent(mrd_report_absence *to, mrd_absent one)
{
    size_t at = to->workers < MRD_REPORT_ABSENTS ? to->workers : MRD_REPORT_ABSENTS;

    to->workers++;
    while (at > 0 && to->absents[at - 1].kind > one.kind) {
        if (at < MRD_REPORT_ABSENTS)
            to->absents[at] = to->absents[at - 1];
        at--;
    }
    if (at < MRD_REPORT_ABSENTS)
        to->absents[at] = one;
}

/* Finds the last participant of a collective that all members entered. The others must have waited
 * for it in at least a third of the recording since `first`. They must also have waited longer than
 * all members are inside since then. */
static void
judge_late(const mrd_absence *a, const candidate *k, mrd_ev_ns first, mrd_ev_ns until,
           mrd_report_absence *ret)
{
    const mrd_gather_part *last = &k->c.parts[k->c.n - 1];
    uint64_t later, after;

    if (k->c.n < 2 || k->c.absent > 0 || !k->is_proven)
        return;
    later = (uint64_t) mrd_ev_diff(last->begin, last[-1].begin);
    after = (uint64_t) mrd_ev_diff(mrd_ev_max(until, last->begin), last->begin);
    if (later / MRD_REPORT_ABSENT < k->usual_ns || later <= after ||
        later < (uint64_t) mrd_ev_diff(mrd_ev_max(until, last->begin), first) / 3)
        return;
    add_absent(ret, (mrd_absent){ .worker = last->core,
                                  .kind = MRD_ABSENT_LATE,
                                  .seen = process_of(a, last->core)->last,
                                  .later_ns = later });
    ret->parts = k->c.n - 1;
    for (size_t i = 0; i + 1 < k->c.n; i++)
        ret->spent_ns += (uint64_t) mrd_ev_diff(last->begin, k->c.parts[i].begin);
}

/* Finds the members that are not in a collective. */
static void
judge_absent(const mrd_absence *a, const candidate *k, uint32_t takers, mrd_ev_ns until,
             mrd_report_absence *ret)
{
    mrd_ev_ns begin = k->c.parts[0].begin, least = begin;

    if (__builtin_add_overflow(begin.ns, MRD_REPORT_ABSENT * k->usual_ns, &least.ns))
        return;
    for (uint32_t i = 0; i < mrd_workers_count(a->who); i++) {
        const worker_seen *w = &a->workers[i];
        mrd_absent one = { .worker = i, .seen = process_of(a, i)->last };
        bool is_inside = mrd_ev_after(w->until, least);

        if (mrd_gather_joined(a->gather, k->c.group, i) == 0 || takes_part(k, i))
            continue;
        if (is_inside && ((uint32_t) (w->id >> 32) != k->c.group || k->c.n <= takers / 2))
            continue;
        one.kind = may_lack(a, k, i)              ? MRD_ABSENT_UNSEEN
                   : is_inside                    ? MRD_ABSENT_OTHER
                   : is_elsewhere(a, k, i, least) ? MRD_ABSENT_NEVER
                                                  : MRD_ABSENT_UNSEEN;
        until = mrd_ev_max(until, one.seen);
        ret->is_split = ret->is_split || (one.kind == MRD_ABSENT_OTHER && ret->is_open);
        add_absent(ret, one);
    }
    for (size_t i = 0; i < k->c.n; i++) {
        const mrd_gather_part *p = &k->c.parts[i];

        ret->spent_ns +=
            (uint64_t) mrd_ev_diff(ret->is_open ? mrd_ev_max(until, p->begin) : p->end, p->begin);
    }
    /* If members are in different operations, none of them ever leaves. So the time spent need not
     * be long compared with the usual time. */
    if (!ret->is_split && ret->spent_ns / k->c.n / MRD_REPORT_ABSENT < k->usual_ns)
        ret->workers = 0;
}

mrd_report_absence
mrd_absence_worst(const mrd_absence *a, mrd_ev_ns first)
{
    mrd_report_absence worst = { 0 };

    for (size_t i = 0; i < a->n_kept; i++) {
        const candidate *k = &a->kept[i];
        mrd_report_absence one = { .name = k->c.name,
                                   .parts = k->c.n,
                                   .begin = k->c.parts[0].begin,
                                   .is_open = k->c.n_open > 0 };
        uint32_t members, takers = mrd_gather_takers(a->gather, k->c.group, &members);
        mrd_ev_ns until = one.begin;

        for (size_t p = 0; p < k->c.n; p++)
            until = mrd_ev_max(until, process_of(a, k->c.parts[p].core)->last);
        /* several groups have this name, and the profile does not show their members */
        if (members > 0 && takers > members)
            continue;
        if (k->c.n < takers)
            judge_absent(a, k, takers, until, &one);
        else
            judge_late(a, k, first, until, &one);
        if (one.workers > 0 && (one.parts > worst.parts ||
                                (one.parts == worst.parts && one.spent_ns > worst.spent_ns)))
            worst = one;
    }
    return worst;
}
