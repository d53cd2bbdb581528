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
    _Atomic uint32_t lock; /* held while the thread or a printing thread uses the table */
    /* Set while the thread itself uses the table. A signal handler that interrupts the thread then
     * leaves the table alone. */
    uint32_t busy;
    uint32_t slots, used;
    /* events that were not counted, because memory ran out or a signal handler found `busy` set */
    uint64_t missed;
    mrd_stat_entry *slot;
} stat_table;

uint32_t mrd_extra;
static mrd_stat_series *series;
/* events that were not counted, because their threads have no table */
static _Atomic uint64_t unplaced;
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
slot_of(const stat_table *table, uint32_t domain, uint32_t name, bool instant)
{
    uint64_t key = ((uint64_t) domain << 32 | name) * 2 + instant;
    uint32_t i = (uint32_t) ((key * 0x9e3779b97f4a7c15ull) >> 40) & (table->slots - 1);

    while (table->slot[i].count != 0 &&
           (table->slot[i].domain != domain || table->slot[i].name != name ||
            table->slot[i].instant != instant))
        i = (i + 1) & (table->slots - 1);
    return i;
}

static bool
table_grow(stat_table *table)
{
    stat_table next = { .slots = table->slots == 0 ? SLOTS_FIRST : table->slots * 2 };

    if (table->slots >= SLOTS_MAX)
        return table->used + 1 < table->slots;
    next.slot = mrd_proc_map(next.slots * sizeof(*next.slot), true);
    if (next.slot == NULL)
        return false;
    for (uint32_t i = 0; i < table->slots; i++) {
        const mrd_stat_entry *entry = &table->slot[i];

        if (entry->count != 0)
            next.slot[slot_of(&next, entry->domain, entry->name, entry->instant)] = *entry;
    }
    if (table->slot != NULL)
        munmap(table->slot, table->slots * sizeof(*table->slot));
    table->slot = next.slot;
    table->slots = next.slots;
    return true;
}

static void
table_add(stat_table *table, uint32_t domain, uint32_t name, uint64_t ticks)
{
    bool instant = ticks == UINT64_MAX;
    mrd_stat_entry *entry;

    if (table->used * 2 >= table->slots && !table_grow(table)) {
        table->missed++;
        return;
    }
    if (instant)
        ticks = 0;
    entry = &table->slot[slot_of(table, domain, name, instant)];
    if (entry->count++ == 0) {
        *entry = (mrd_stat_entry){ domain, name, instant, 1, 0, ticks, ticks };
        table->used++;
    }
    entry->total += ticks;
    entry->min = ticks < entry->min ? ticks : entry->min;
    entry->max = ticks > entry->max ? ticks : entry->max;
}

void
mrd_stats_add(uint32_t domain, uint32_t name, uint64_t ticks)
{
    mrd_thread *thread = mrd_thread_get();
    stat_table *table;

    if (thread != NULL && thread->stats == NULL)
        thread->stats = mrd_proc_map(sizeof(*table), true);
    if (thread == NULL || (table = thread->stats) == NULL) {
        atomic_fetch_add_explicit(&unplaced, 1, memory_order_relaxed);
        return;
    }
    if (table->busy) {
        table->missed++;
        return;
    }
    table->busy = 1;
    mrd_ring_fence();
    mrd_lock_word(&table->lock);
    table_add(table, domain, name, ticks);
    mrd_unlock_word(&table->lock);
    mrd_ring_fence();
    table->busy = 0;
}

/* ---- statistics of counters ------------------------------------------------------------------ */

void
mrd_stats_sample(mrd_stat_counter *counter, double value)
{
    int64_t now = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);

    mrd_lock_word(&counter->lock);
    if (counter->generation != generation) {
        counter->generation = generation;
        counter->count = 0;
        counter->area = 0;
    }
    if (counter->count++ == 0) {
        counter->began = (mrd_local_ns){ now };
        counter->min = counter->max = value;
    } else {
        counter->area += counter->last * (double) (now - counter->newest.ns);
    }
    counter->last = value;
    counter->newest = (mrd_local_ns){ now };
    counter->min = value < counter->min ? value : counter->min;
    counter->max = value > counter->max ? value : counter->max;
    mrd_unlock_word(&counter->lock);
}

void
mrd_stats_enlist(mrd_stat_series *stat_series)
{
    if (!mrd_proc_lock())
        return;
    stat_series->next = series;
    series = stat_series;
    mrd_proc_unlock();
}

void
mrd_stats_delist(mrd_stat_series *stat_series)
{
    mrd_stat_series **link = &series;

    if (!mrd_proc_lock())
        return;
    while (*link != NULL && *link != stat_series)
        link = &(*link)->next;
    if (*link == stat_series)
        *link = stat_series->next;
    mrd_proc_unlock();
}

/* ---- collecting the statistics of all threads for printing ----------------------------------- */

/* Do not allocate memory under a lock that an annotation takes. An annotation in a signal handler
 * may have interrupted malloc, which would then deadlock. */

static void
table_lock(mrd_thread *thread, stat_table *table)
{
    if (thread == mrd_thread_seen()) {
        table->busy = 1;
        mrd_ring_fence();
    }
    mrd_lock_word(&table->lock);
}

static void
table_unlock(mrd_thread *thread, stat_table *table)
{
    mrd_unlock_word(&table->lock);
    if (thread == mrd_thread_seen()) {
        mrd_ring_fence();
        table->busy = 0;
    }
}

static void
collect(void *ctx, mrd_thread *thread)
{
    mrd_stat_report *report = ctx;
    stat_table *table = thread->stats;
    mrd_stat_entry *copy = NULL;
    uint32_t room = 0, count = 0;

    if (table == NULL)
        return;
    table_lock(thread, table);
    while (table->slots > room) {
        uint32_t want = table->slots;

        table_unlock(thread, table);
        if (copy != NULL)
            munmap(copy, room * sizeof(*copy));
        if ((copy = mrd_proc_map(want * sizeof(*copy), false)) == NULL) {
            report->failed = true;
            return;
        }
        room = want;
        table_lock(thread, table);
    }
    report->missed += table->missed;
    for (uint32_t i = 0; i < table->slots; i++)
        if (table->slot[i].count != 0)
            copy[count++] = table->slot[i];
    table_unlock(thread, table);
    for (uint32_t i = 0; i < count; i++)
        mrd_stat_report_add(report, &copy[i]);
    if (copy != NULL)
        munmap(copy, room * sizeof(*copy));
}

/* Computes the printed values of a counter. Returns false if the counter has no sample. */
static bool
line_of(mrd_stat_series *stat_series, int64_t now, mrd_stat_line *ret_line)
{
    mrd_stat_counter *counter = &stat_series->stat;
    bool has;

    *ret_line = (mrd_stat_line){ .domain = stat_series->domain,
                                 .name = stat_series->name,
                                 .bytes = stat_series->bytes };
    mrd_lock_word(&counter->lock);
    has = counter->count > 0 && counter->generation == generation;
    if (has) {
        double span = (double) (now - counter->began.ns);

        ret_line->count = counter->count;
        ret_line->last = counter->last;
        ret_line->min = counter->min;
        ret_line->max = counter->max;
        ret_line->mean =
            span <= 0
                ? counter->last
                : (counter->area + counter->last * (double) (now - counter->newest.ns)) / span;
    }
    mrd_unlock_word(&counter->lock);
    return has;
}

/* Fills up to `room` lines, one for each counter, and returns the number of all counters. */
static size_t
copy_series(mrd_stat_line *lines, size_t room)
{
    int64_t now = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
    mrd_stat_line line;
    size_t n = 0;

    if (!mrd_proc_lock())
        return 0;
    for (mrd_stat_series *stat_series = series; stat_series != NULL;
         stat_series = stat_series->next)
        if (line_of(stat_series, now, &line)) {
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
    /* allocate now, because mrd_memory_each calls copy_scope under a lock */
    scope_list *list = calloc(1, sizeof(*list));

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
    stat_table *table = thread->stats;

    (void) ctx;
    if (table == NULL)
        return;
    table_lock(thread, table);
    if (table->slot != NULL)
        memset(table->slot, 0, table->slots * sizeof(*table->slot));
    table->used = 0;
    table->missed = 0;
    table_unlock(thread, table);
}

void
mrd_stats_reset(void)
{
    mrd_thread_each(clear_table, NULL);
    atomic_store_explicit(&unplaced, 0, memory_order_relaxed);
    mrd_memory_reset();
    atomic_fetch_add(&generation, 1);
}
