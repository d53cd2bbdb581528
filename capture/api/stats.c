#include "capture/api/stats.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/api/memory.h"
#include "capture/api/names.h"
#include "capture/api/stats_print.h"
#include "capture/api/thread.h"
#include "capture/lock.h"

#define SLOTS_FIRST 256u
#define SLOTS_MAX   (1u << 17)

typedef struct mrd_stat_table {
    _Atomic uint32_t lock; /* held by the thread, or by a thread that prints */
    uint32_t busy;         /* the thread is inside, so its signal handlers must not enter */
    uint32_t slots, used;
    uint64_t missed; /* out of memory, or in a signal handler */
    mrd_stat_entry *slot;
} stat_table;

uint32_t mrd_extra;
static mrd_stat_series *series;
static _Atomic uint64_t unplaced; /* missed, without a table to count them in */
static _Atomic uint64_t generation = 1;

void
mrd_extra_set(uint32_t bit, bool on)
{
    if (on)
        __atomic_fetch_or(&mrd_extra, bit, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&mrd_extra, ~bit, __ATOMIC_RELAXED);
}

static uint32_t
slot_of(const stat_table *t, uint32_t domain, uint32_t name, bool instant)
{
    uint64_t key = ((uint64_t) domain << 32 | name) * 2 + instant;
    uint32_t i = (uint32_t) ((key * 0x9e3779b97f4a7c15ull) >> 40) & (t->slots - 1);

    while (t->slot[i].count != 0 && (t->slot[i].domain != domain || t->slot[i].name != name ||
                                     t->slot[i].instant != instant))
        i = (i + 1) & (t->slots - 1);
    return i;
}

static bool
table_grow(stat_table *t)
{
    stat_table next = { .slots = t->slots == 0 ? SLOTS_FIRST : t->slots * 2 };

    if (t->slots >= SLOTS_MAX)
        return t->used + 1 < t->slots;
    next.slot = mrd_proc_map(next.slots * sizeof(*next.slot), true);
    if (next.slot == NULL)
        return false;
    for (uint32_t i = 0; i < t->slots; i++) {
        const mrd_stat_entry *e = &t->slot[i];

        if (e->count != 0)
            next.slot[slot_of(&next, e->domain, e->name, e->instant)] = *e;
    }
    if (t->slot != NULL)
        munmap(t->slot, t->slots * sizeof(*t->slot));
    t->slot = next.slot;
    t->slots = next.slots;
    return true;
}

static void
table_add(stat_table *t, uint32_t domain, uint32_t name, uint64_t ticks)
{
    bool instant = ticks == UINT64_MAX;
    mrd_stat_entry *e;

    if (t->used * 2 >= t->slots && !table_grow(t)) {
        t->missed++;
        return;
    }
    if (instant)
        ticks = 0;
    e = &t->slot[slot_of(t, domain, name, instant)];
    if (e->count++ == 0) {
        *e = (mrd_stat_entry){ domain, name, instant, 1, 0, ticks, ticks };
        t->used++;
    }
    e->total += ticks;
    e->min = ticks < e->min ? ticks : e->min;
    e->max = ticks > e->max ? ticks : e->max;
}

void
mrd_stats_add(uint32_t domain, uint32_t name, uint64_t ticks)
{
    mrd_thread *thread = mrd_thread_get();
    stat_table *t;

    if (thread != NULL && thread->stats == NULL)
        thread->stats = mrd_proc_map(sizeof(*t), true);
    if (thread == NULL || (t = thread->stats) == NULL) {
        atomic_fetch_add_explicit(&unplaced, 1, memory_order_relaxed);
        return;
    }
    if (t->busy) {
        t->missed++;
        return;
    }
    t->busy = 1;
    mrd_ring_fence();
    mrd_lock_word(&t->lock);
    table_add(t, domain, name, ticks);
    mrd_unlock_word(&t->lock);
    mrd_ring_fence();
    t->busy = 0;
}

/* ---- counters -------------------------------------------------------------------------------- */

void
mrd_stats_sample(mrd_stat_counter *c, double value)
{
    int64_t now = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);

    mrd_lock_word(&c->lock);
    if (c->generation != generation) {
        c->generation = generation;
        c->count = 0;
        c->area = 0;
    }
    if (c->count++ == 0) {
        c->began = (mrd_local_ns){ now };
        c->min = c->max = value;
    } else {
        c->area += c->last * (double) (now - c->newest.ns);
    }
    c->last = value;
    c->newest = (mrd_local_ns){ now };
    c->min = value < c->min ? value : c->min;
    c->max = value > c->max ? value : c->max;
    mrd_unlock_word(&c->lock);
}

void
mrd_stats_enlist(mrd_stat_series *s)
{
    if (!mrd_proc_lock())
        return;
    s->next = series;
    series = s;
    mrd_proc_unlock();
}

void
mrd_stats_delist(mrd_stat_series *s)
{
    mrd_stat_series **link = &series;

    if (!mrd_proc_lock())
        return;
    while (*link != NULL && *link != s)
        link = &(*link)->next;
    if (*link == s)
        *link = s->next;
    mrd_proc_unlock();
}

/* ---- printing -------------------------------------------------------------------------------- */

/* No memory is allocated under a lock that an annotation takes, because the annotation may be in a
 * signal handler that interrupted malloc. */

static void
table_lock(mrd_thread *thread, stat_table *t)
{
    if (thread == mrd_thread_seen()) {
        t->busy = 1;
        mrd_ring_fence();
    }
    mrd_lock_word(&t->lock);
}

static void
table_unlock(mrd_thread *thread, stat_table *t)
{
    mrd_unlock_word(&t->lock);
    if (thread == mrd_thread_seen()) {
        mrd_ring_fence();
        t->busy = 0;
    }
}

static void
collect(void *ctx, mrd_thread *thread)
{
    mrd_stat_report *report = ctx;
    stat_table *t = thread->stats;
    mrd_stat_entry *copy = NULL;
    uint32_t room = 0, n = 0;

    if (t == NULL)
        return;
    table_lock(thread, t);
    while (t->slots > room) {
        uint32_t want = t->slots;

        table_unlock(thread, t);
        if (copy != NULL)
            munmap(copy, room * sizeof(*copy));
        if ((copy = mrd_proc_map(want * sizeof(*copy), false)) == NULL) {
            report->failed = true;
            return;
        }
        room = want;
        table_lock(thread, t);
    }
    report->missed += t->missed;
    for (uint32_t i = 0; i < t->slots; i++)
        if (t->slot[i].count != 0)
            copy[n++] = t->slot[i];
    table_unlock(thread, t);
    for (uint32_t i = 0; i < n; i++)
        mrd_stat_report_add(report, &copy[i]);
    if (copy != NULL)
        munmap(copy, room * sizeof(*copy));
}

/* False: it has no sample. */
static bool
line_of(mrd_stat_series *s, int64_t now, mrd_stat_line *ret_line)
{
    mrd_stat_counter *c = &s->stat;
    bool has;

    *ret_line = (mrd_stat_line){ .domain = s->domain, .name = s->name, .bytes = s->bytes };
    mrd_lock_word(&c->lock);
    has = c->count > 0 && c->generation == generation;
    if (has) {
        double span = (double) (now - c->began.ns);

        ret_line->count = c->count;
        ret_line->last = c->last;
        ret_line->min = c->min;
        ret_line->max = c->max;
        ret_line->mean =
            span <= 0 ? c->last : (c->area + c->last * (double) (now - c->newest.ns)) / span;
    }
    mrd_unlock_word(&c->lock);
    return has;
}

/* Fills up to `room` lines; returns the number of all. */
static size_t
copy_series(mrd_stat_line *lines, size_t room)
{
    int64_t now = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
    mrd_stat_line line;
    size_t n = 0;

    if (!mrd_proc_lock())
        return 0;
    for (mrd_stat_series *s = series; s != NULL; s = s->next)
        if (line_of(s, now, &line)) {
            if (n < room)
                lines[n] = line;
            n++;
        }
    mrd_proc_unlock();
    return n;
}

static void
collect_series(mrd_stat_report *report)
{
    mrd_stat_line *lines = NULL;
    size_t room = 0, n;

    while ((n = copy_series(lines, room)) > room) {
        free(lines);
        if ((lines = malloc(n * sizeof(*lines))) == NULL) {
            report->failed = true;
            return;
        }
        room = n;
    }
    for (size_t i = 0; i < n; i++)
        mrd_stat_report_counter(report, &lines[i]);
    free(lines);
}

typedef struct {
    mrd_memory_scope v[MRD_MEMORY_SCOPES + 2];
    size_t n;
} scope_list;

static void
copy_scope(void *ctx, const mrd_memory_scope *scope)
{
    scope_list *list = ctx;

    if (list->n < sizeof(list->v) / sizeof(list->v[0]))
        list->v[list->n++] = *scope;
}

static void
collect_scopes(mrd_stat_report *report)
{
    scope_list *list = calloc(1, sizeof(*list)); /* outside the lock that copy_scope runs under */

    if (list == NULL) {
        report->failed = true;
        return;
    }
    mrd_memory_each(copy_scope, list);
    for (size_t i = 0; i < list->n; i++)
        mrd_stat_report_scope(report, &list->v[i]);
    free(list);
}

char *
mrd_stats_print(bool json, mrd_stat_sort sort, bool ascending)
{
    mrd_stat_report report = { 0 };
    char *text;

    mrd_thread_each(collect, &report);
    report.missed += atomic_load_explicit(&unplaced, memory_order_relaxed);
    mrd_stat_report_scale(&report);
    collect_series(&report);
    collect_scopes(&report);
    report.untracked = mrd_memory_untracked();
    mrd_stat_report_sort(&report, sort, ascending);
    text = json ? mrd_stat_report_json(&report) : mrd_stat_report_table(&report);
    mrd_stat_report_fini(&report);
    return text;
}

static void
clear_table(void *ctx, mrd_thread *thread)
{
    stat_table *t = thread->stats;

    (void) ctx;
    if (t == NULL)
        return;
    table_lock(thread, t);
    if (t->slot != NULL)
        memset(t->slot, 0, t->slots * sizeof(*t->slot));
    t->used = 0;
    t->missed = 0;
    table_unlock(thread, t);
}

void
mrd_stats_reset(void)
{
    mrd_thread_each(clear_table, NULL);
    atomic_store_explicit(&unplaced, 0, memory_order_relaxed);
    mrd_memory_reset();
    atomic_fetch_add(&generation, 1);
}
