#include "capture/api/stats_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/api/names.h"
#include "capture/process.h"
#include "capture/text.h"

static bool
grow(void **p, size_t *cap, size_t n, size_t size)
{
    size_t want = *cap == 0 ? 64 : *cap * 2;
    void *more;

    if (n < *cap)
        return true;
    if ((more = realloc(*p, want * size)) == NULL)
        return false;
    *p = more;
    *cap = want;
    return true;
}

void
mrd_stat_report_add(mrd_stat_report *stats, const mrd_stat_entry *entry)
{
    void *p = stats->v;

    for (size_t i = 0; i < stats->n; i++) {
        mrd_stat_entry *have = &stats->v[i];

        if (have->domain != entry->domain || have->name != entry->name ||
            have->instant != entry->instant)
            continue;
        have->count += entry->count;
        have->total += entry->total;
        have->min = entry->min < have->min ? entry->min : have->min;
        have->max = entry->max > have->max ? entry->max : have->max;
        return;
    }
    if (!grow(&p, &stats->cap, stats->n, sizeof(*entry))) {
        stats->failed = true;
        return;
    }
    stats->v = p;
    stats->v[stats->n++] = *entry;
}

void
mrd_stat_report_counter(mrd_stat_report *stats, const mrd_stat_line *line)
{
    void *p = stats->counter;

    if (!grow(&p, &stats->counter_cap, stats->counters, sizeof(*line))) {
        stats->failed = true;
        return;
    }
    stats->counter = p;
    stats->counter[stats->counters++] = *line;
}

void
mrd_stat_report_scope(mrd_stat_report *stats, const mrd_memory_scope *scope)
{
    void *p = stats->scope;

    if (!grow(&p, &stats->scope_cap, stats->scopes, sizeof(*scope))) {
        stats->failed = true;
        return;
    }
    stats->scope = p;
    stats->scope[stats->scopes++] = *scope;
}

void
mrd_stat_report_scale(mrd_stat_report *stats)
{
    mrd_ring_cal now;

    mrd_ring_cal_read(mrd_proc_clock, &now);
    for (size_t i = 0; i < stats->n; i++) {
        stats->v[i].total = (uint64_t) mrd_proc_ticks_ns((int64_t) stats->v[i].total, &now);
        stats->v[i].min = (uint64_t) mrd_proc_ticks_ns((int64_t) stats->v[i].min, &now);
        stats->v[i].max = (uint64_t) mrd_proc_ticks_ns((int64_t) stats->v[i].max, &now);
    }
}

void
mrd_stat_report_fini(mrd_stat_report *stats)
{
    free(stats->v);
    free(stats->counter);
    free(stats->scope);
    memset(stats, 0, sizeof(*stats));
}

/* ---- sorting the lines ----------------------------------------------------------------------- */

static const char *
text_of(uint32_t id, const char *none)
{
    size_t len;
    const char *text = mrd_names_text(id, &len);

    return text == NULL ? none : text;
}

static const char *
category(uint32_t domain)
{
    return text_of(domain, "default");
}

static uint64_t
sort_key(const mrd_stat_entry *entry, mrd_stat_sort sort)
{
    switch (sort) {
    case MRD_SORT_AVG:
        return entry->total / entry->count;
    case MRD_SORT_MIN:
        return entry->min;
    case MRD_SORT_MAX:
        return entry->max;
    case MRD_SORT_COUNT:
        return entry->count;
    case MRD_SORT_TOTAL:
        break;
    }
    return entry->total;
}

/* sort key of compare(), a variable because qsort passes no context */
static _Thread_local mrd_stat_sort order_by;
static _Thread_local bool order_up;

/* Compares by category, then by the sort key, then by name, so that no two lines are equal. */
static int
compare(const void *pa, const void *pb)
{
    const mrd_stat_entry *a = pa, *b = pb;
    int c = strcmp(category(a->domain), category(b->domain));
    uint64_t ka = sort_key(a, order_by), kb = sort_key(b, order_by);

    if (c != 0)
        return c;
    if (ka != kb)
        return (ka < kb) == order_up ? -1 : 1;
    c = strcmp(text_of(a->name, ""), text_of(b->name, ""));
    return c != 0 ? c : (int) a->instant - (int) b->instant;
}

static double
counter_key(const mrd_stat_line *line)
{
    switch (order_by) {
    case MRD_SORT_MIN:
        return line->min;
    case MRD_SORT_MAX:
        return line->max;
    case MRD_SORT_COUNT:
        return (double) line->count;
    case MRD_SORT_TOTAL:
    case MRD_SORT_AVG:
        break;
    }
    return line->mean;
}

static int
compare_counters(const void *pa, const void *pb)
{
    const mrd_stat_line *a = pa, *b = pb;
    int c = strcmp(category(a->domain), category(b->domain));
    double ka = counter_key(a), kb = counter_key(b);

    if (c != 0)
        return c;
    if (ka < kb || ka > kb)
        return (ka < kb) == order_up ? -1 : 1;
    return strcmp(text_of(a->name, ""), text_of(b->name, ""));
}

/* Compares by place, then by peak, then by name, so that no two lines are equal. */
static int
compare_scopes(const void *pa, const void *pb)
{
    const mrd_memory_scope *a = pa, *b = pb;
    int c;

    if (a->place != b->place)
        return a->place > b->place ? -1 : 1; /* device first */
    if (a->peak != b->peak)
        return (a->peak < b->peak) == order_up ? -1 : 1;
    c = strcmp(text_of(a->name, ""), text_of(b->name, ""));
    return c != 0 ? c : strcmp(text_of(a->domain, ""), text_of(b->domain, ""));
}

void
mrd_stat_report_sort(mrd_stat_report *stats, mrd_stat_sort sort, bool ascending)
{
    order_by = sort;
    order_up = ascending;
    if (stats->n > 0)
        qsort(stats->v, stats->n, sizeof(*stats->v), compare);
    if (stats->counters > 0)
        qsort(stats->counter, stats->counters, sizeof(*stats->counter), compare_counters);
    if (stats->scopes > 0)
        qsort(stats->scope, stats->scopes, sizeof(*stats->scope), compare_scopes);
}

/* ---- printing a table as text ---------------------------------------------------------------- */

/* Writes nanoseconds as milliseconds with four decimals. */
static const char *
ms(uint64_t ns, char text[32])
{
    uint64_t tenths_us = (ns + 50) / 100;

    snprintf(text, 32, "%" PRIu64 ".%04" PRIu64, tenths_us / 10000, tenths_us % 10000);
    return text;
}

static uint64_t
mean(const mrd_stat_entry *entry)
{
    return (entry->total + entry->count / 2) / entry->count;
}

static void
table_head(mrd_text *text, const char *title, const char *columns)
{
    mrd_text_fmt(text, "%s\n=================\n%s", title, columns);
}

static void
table_times(mrd_text *text, const mrd_stat_report *stats, size_t from, size_t to)
{
    table_head(text, category(stats->v[from].domain),
               "Name                          Total Count       Time (ms)   Min Time (ms)   "
               "Max Time (ms)   Avg Time (ms)\n"
               "----                          -----------       ---------   -------------   "
               "-------------   -------------\n");
    for (size_t i = from; i < to; i++) {
        const mrd_stat_entry *entry = &stats->v[i];
        char total[32], low[32], high[32], avg[32];

        mrd_text_fmt(text, "%-25s %15" PRIu64 " %15s %15s %15s %15s\n",
                     text_of(entry->name, "(unnamed)"), entry->count, ms(entry->total, total),
                     ms(entry->min, low), ms(entry->max, high), ms(mean(entry), avg));
    }
    mrd_text_fmt(text, "\n");
}

static void
table_counters(mrd_text *text, const mrd_stat_report *stats, bool bytes)
{
    double scale = bytes ? 1024 : 1;
    bool any = false;

    for (size_t i = 0; i < stats->counters; i++) {
        const mrd_stat_line *line = &stats->counter[i];

        if (line->bytes != bytes)
            continue;
        if (!any)
            table_head(text, bytes ? "Memory" : "Counters",
                       bytes ? "Name                          Total Count  Last Use (kB)   Min Use "
                               "(kB)    Max Use (kB)    Avg Use (kB)\n"
                             : "Name                          Total Count           Last           "
                               " Min             Max             Avg\n");
        any = true;
        mrd_text_fmt(text, "%-25s %15" PRIu64 " %15.4f %15.4f %15.4f %15.4f\n",
                     text_of(line->name, "(unnamed)"), line->count, line->last / scale,
                     line->min / scale, line->max / scale, line->mean / scale);
    }
    if (any)
        mrd_text_fmt(text, "\n");
}

static const char *
place_text(const mrd_memory_scope *scope)
{
    return scope->place == MRD_MEMORY_HOST ? "host" : "device";
}

#define SCOPE_TEXT (2 * MRD_RING_TEXT_MAX + 2)

/* Writes "domain/name" of a scope. The counters of a profile use the same form, but shorten long
 * names. `text` has SCOPE_TEXT bytes. Returns "" if `text` is NULL. */
static const char *
scope_text(const mrd_memory_scope *scope, char *text)
{
    if (text == NULL)
        return "";
    snprintf(text, SCOPE_TEXT, "%s%s%s", text_of(scope->domain, ""), scope->domain == 0 ? "" : "/",
             scope->name == 0 ? "(no scope)" : text_of(scope->name, "(unnamed)"));
    return text;
}

static void
table_scopes(mrd_text *text, const mrd_stat_report *stats)
{
    char *name = stats->scopes > 0 ? malloc(SCOPE_TEXT) : NULL;

    if (stats->scopes > 0)
        table_head(
            text, "Memory by scope",
            "Name                      Place      Allocations    Current (kB)       Peak (kB) "
            " Allocated (kB)      Freed (kB)\n");
    for (size_t i = 0; i < stats->scopes; i++) {
        const mrd_memory_scope *scope = &stats->scope[i];

        mrd_text_fmt(text, "%-25s %-6s %15" PRIu64 " %15.4f %15.4f %15.4f %15.4f\n",
                     scope_text(scope, name), place_text(scope), scope->count,
                     (double) scope->current / 1024, (double) scope->peak / 1024,
                     (double) scope->allocated / 1024, (double) scope->freed / 1024);
    }
    text->failed = text->failed || (stats->scopes > 0 && name == NULL);
    free(name);
    if (stats->scopes > 0)
        mrd_text_fmt(text, "\n");
    if (stats->untracked > 0)
        mrd_text_fmt(text, "%" PRIu64 " allocations are in no scope's account\n\n",
                     stats->untracked);
}

char *
mrd_stat_report_table(const mrd_stat_report *stats)
{
    mrd_text text = { 0 };

    mrd_text_fmt(&text,
                 "\nProfile Statistics\n"
                 "\tTimes are in milliseconds. The average of a counter is weighted by time.\n\n");
    for (size_t i = 0, j; i < stats->n; i = j) {
        for (j = i; j < stats->n && stats->v[j].domain == stats->v[i].domain; j++)
            ;
        table_times(&text, stats, i, j);
    }
    table_counters(&text, stats, false);
    table_counters(&text, stats, true);
    table_scopes(&text, stats);
    if (stats->missed > 0)
        mrd_text_fmt(&text, "%" PRIu64 " event%s not in these statistics\n", stats->missed,
                     stats->missed == 1 ? " is" : "s are");
    return stats->failed ? (free(text.p), NULL) : mrd_text_take(&text);
}

static void
json_times(mrd_text *text, const mrd_stat_report *stats)
{
    for (size_t i = 0; i < stats->n; i++) {
        const mrd_stat_entry *entry = &stats->v[i];
        bool first = i == 0 || stats->v[i - 1].domain != entry->domain;
        char total[32], low[32], high[32], avg[32];

        if (first) {
            mrd_text_fmt(text, i == 0 ? "" : "},");
            mrd_text_json(text, category(entry->domain));
            mrd_text_fmt(text, ":{");
        }
        mrd_text_fmt(text, first ? "" : ",");
        mrd_text_json(text, text_of(entry->name, "(unnamed)"));
        mrd_text_fmt(text, ":{\"Count\":%" PRIu64 ",\"Total\":%s,\"Min\":%s,\"Max\":%s,\"Avg\":%s}",
                     entry->count, ms(entry->total, total), ms(entry->min, low),
                     ms(entry->max, high), ms(mean(entry), avg));
    }
    mrd_text_fmt(text, stats->n > 0 ? "}" : "");
}

/* Replaces infinities and NaN, which JSON does not have. */
static double
finite_or_0(double v)
{
    return isfinite(v) ? v : 0;
}

static void
json_counters(mrd_text *text, const mrd_stat_report *stats, bool bytes)
{
    const mrd_stat_line *before = NULL;
    double scale = bytes ? 1024 : 1;

    for (size_t i = 0; i < stats->counters; i++) {
        const mrd_stat_line *line = &stats->counter[i];
        bool first = before == NULL || before->domain != line->domain;

        if (line->bytes != bytes)
            continue;
        if (first) {
            mrd_text_fmt(text, before == NULL ? "" : "},");
            mrd_text_json(text, category(line->domain));
            mrd_text_fmt(text, ":{");
        }
        mrd_text_fmt(text, first ? "" : ",");
        mrd_text_json(text, text_of(line->name, "(unnamed)"));
        mrd_text_fmt(
            text, ":{\"Count\":%" PRIu64 ",\"Last\":%.4f,\"Min\":%.4f,\"Max\":%.4f,\"Avg\":%.4f}",
            line->count, finite_or_0(line->last / scale), finite_or_0(line->min / scale),
            finite_or_0(line->max / scale), finite_or_0(line->mean / scale));
        before = line;
    }
    mrd_text_fmt(text, before != NULL ? "}" : "");
}

static void
json_scopes(mrd_text *text, const mrd_stat_report *stats)
{
    char *name = stats->scopes > 0 ? malloc(SCOPE_TEXT) : NULL;

    for (size_t i = 0; i < stats->scopes; i++) {
        const mrd_memory_scope *scope = &stats->scope[i];

        mrd_text_fmt(text, i == 0 ? "{\"Name\":" : ",{\"Name\":");
        mrd_text_json(text, scope_text(scope, name));
        mrd_text_fmt(text,
                     ",\"Place\":\"%s\",\"Count\":%" PRIu64 ",\"Current\":%" PRIu64
                     ",\"Peak\":%" PRIu64 ",\"Allocated\":%" PRIu64 ",\"Freed\":%" PRIu64 "}",
                     place_text(scope), scope->count, scope->current, scope->peak, scope->allocated,
                     scope->freed);
    }
    text->failed = text->failed || (stats->scopes > 0 && name == NULL);
    free(name);
}

char *
mrd_stat_report_json(const mrd_stat_report *stats)
{
    mrd_text text = { 0 };

    mrd_text_fmt(&text, "{\"Time\":{");
    json_times(&text, stats);
    mrd_text_fmt(&text, "},\"Counter\":{");
    json_counters(&text, stats, false);
    mrd_text_fmt(&text, "},\"Memory\":{");
    json_counters(&text, stats, true);
    mrd_text_fmt(&text, "},\"Scopes\":[");
    json_scopes(&text, stats);
    mrd_text_fmt(&text,
                 "],\"Untracked\":%" PRIu64 ",\"Missed\":%" PRIu64
                 ",\"Unit\":{\"Time\":\"ms\",\"Memory\":\"kB\",\"Scopes\":\"bytes\"}}",
                 stats->untracked, stats->missed);
    return stats->failed ? (free(text.p), NULL) : mrd_text_take(&text);
}
