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
mrd_stat_report_add(mrd_stat_report *r, const mrd_stat_entry *e)
{
    void *p = r->v;

    for (size_t i = 0; i < r->n; i++) {
        mrd_stat_entry *have = &r->v[i];

        if (have->domain != e->domain || have->name != e->name || have->instant != e->instant)
            continue;
        have->count += e->count;
        have->total += e->total;
        have->min = e->min < have->min ? e->min : have->min;
        have->max = e->max > have->max ? e->max : have->max;
        return;
    }
    if (!grow(&p, &r->cap, r->n, sizeof(*e))) {
        r->failed = true;
        return;
    }
    r->v = p;
    r->v[r->n++] = *e;
}

void
mrd_stat_report_counter(mrd_stat_report *r, const mrd_stat_line *line)
{
    void *p = r->counter;

    if (!grow(&p, &r->counter_cap, r->counters, sizeof(*line))) {
        r->failed = true;
        return;
    }
    r->counter = p;
    r->counter[r->counters++] = *line;
}

void
mrd_stat_report_scope(mrd_stat_report *r, const mrd_memory_scope *scope)
{
    void *p = r->scope;

    if (!grow(&p, &r->scope_cap, r->scopes, sizeof(*scope))) {
        r->failed = true;
        return;
    }
    r->scope = p;
    r->scope[r->scopes++] = *scope;
}

void
mrd_stat_report_scale(mrd_stat_report *r)
{
    mrd_ring_cal now;

    mrd_ring_cal_read(mrd_proc_clock, &now);
    for (size_t i = 0; i < r->n; i++) {
        r->v[i].total = (uint64_t) mrd_proc_ticks_ns((int64_t) r->v[i].total, &now);
        r->v[i].min = (uint64_t) mrd_proc_ticks_ns((int64_t) r->v[i].min, &now);
        r->v[i].max = (uint64_t) mrd_proc_ticks_ns((int64_t) r->v[i].max, &now);
    }
}

void
mrd_stat_report_fini(mrd_stat_report *r)
{
    free(r->v);
    free(r->counter);
    free(r->scope);
    memset(r, 0, sizeof(*r));
}

/* ---- order ----------------------------------------------------------------------------------- */

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
sort_key(const mrd_stat_entry *e, mrd_stat_sort sort)
{
    switch (sort) {
    case MRD_SORT_AVG:
        return e->total / e->count;
    case MRD_SORT_MIN:
        return e->min;
    case MRD_SORT_MAX:
        return e->max;
    case MRD_SORT_COUNT:
        return e->count;
    case MRD_SORT_TOTAL:
        break;
    }
    return e->total;
}

static _Thread_local mrd_stat_sort order_by; /* because qsort passes no context */
static _Thread_local bool order_up;

/* Category first, then the key, then the name: a total order. */
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
counter_key(const mrd_stat_line *l)
{
    switch (order_by) {
    case MRD_SORT_MIN:
        return l->min;
    case MRD_SORT_MAX:
        return l->max;
    case MRD_SORT_COUNT:
        return (double) l->count;
    case MRD_SORT_TOTAL:
    case MRD_SORT_AVG:
        break;
    }
    return l->mean;
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

/* By place, then the peak, then the name: a total order. */
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
mrd_stat_report_sort(mrd_stat_report *r, mrd_stat_sort sort, bool ascending)
{
    order_by = sort;
    order_up = ascending;
    if (r->n > 0)
        qsort(r->v, r->n, sizeof(*r->v), compare);
    if (r->counters > 0)
        qsort(r->counter, r->counters, sizeof(*r->counter), compare_counters);
    if (r->scopes > 0)
        qsort(r->scope, r->scopes, sizeof(*r->scope), compare_scopes);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* ns as milliseconds with four decimals. */
static const char *
ms(uint64_t ns, char text[32])
{
    uint64_t tenths_us = (ns + 50) / 100;

    snprintf(text, 32, "%" PRIu64 ".%04" PRIu64, tenths_us / 10000, tenths_us % 10000);
    return text;
}

static uint64_t
mean(const mrd_stat_entry *e)
{
    return (e->total + e->count / 2) / e->count;
}

static void
table_head(mrd_text *t, const char *title, const char *columns)
{
    mrd_text_fmt(t, "%s\n=================\n%s", title, columns);
}

static void
table_times(mrd_text *t, const mrd_stat_report *r, size_t from, size_t to)
{
    table_head(t, category(r->v[from].domain),
               "Name                          Total Count       Time (ms)   Min Time (ms)   "
               "Max Time (ms)   Avg Time (ms)\n"
               "----                          -----------       ---------   -------------   "
               "-------------   -------------\n");
    for (size_t i = from; i < to; i++) {
        const mrd_stat_entry *e = &r->v[i];
        char total[32], low[32], high[32], avg[32];

        mrd_text_fmt(t, "%-25s %15" PRIu64 " %15s %15s %15s %15s\n", text_of(e->name, "(unnamed)"),
                     e->count, ms(e->total, total), ms(e->min, low), ms(e->max, high),
                     ms(mean(e), avg));
    }
    mrd_text_fmt(t, "\n");
}

static void
table_counters(mrd_text *t, const mrd_stat_report *r, bool bytes)
{
    double scale = bytes ? 1024 : 1;
    bool any = false;

    for (size_t i = 0; i < r->counters; i++) {
        const mrd_stat_line *l = &r->counter[i];

        if (l->bytes != bytes)
            continue;
        if (!any)
            table_head(t, bytes ? "Memory" : "Counters",
                       bytes ? "Name                          Total Count  Last Use (kB)   Min Use "
                               "(kB)    Max Use (kB)    Avg Use (kB)\n"
                             : "Name                          Total Count           Last           "
                               " Min             Max             Avg\n");
        any = true;
        mrd_text_fmt(t, "%-25s %15" PRIu64 " %15.4f %15.4f %15.4f %15.4f\n",
                     text_of(l->name, "(unnamed)"), l->count, l->last / scale, l->min / scale,
                     l->max / scale, l->mean / scale);
    }
    if (any)
        mrd_text_fmt(t, "\n");
}

static const char *
place_text(const mrd_memory_scope *s)
{
    return s->place == MRD_MEMORY_HOST ? "host" : "device";
}

#define SCOPE_TEXT (2 * MRD_RING_TEXT_MAX + 2)

/* Writes "domain/name" as in the counters of the profile, but not cut. `text` has SCOPE_TEXT bytes.
 * Returns NULL if out of memory. */
static const char *
scope_text(const mrd_memory_scope *s, char *text)
{
    if (text == NULL)
        return "";
    snprintf(text, SCOPE_TEXT, "%s%s%s", text_of(s->domain, ""), s->domain == 0 ? "" : "/",
             s->name == 0 ? "(no scope)" : text_of(s->name, "(unnamed)"));
    return text;
}

static void
table_scopes(mrd_text *t, const mrd_stat_report *r)
{
    char *name = r->scopes > 0 ? malloc(SCOPE_TEXT) : NULL;

    if (r->scopes > 0)
        table_head(
            t, "Memory by scope",
            "Name                      Place      Allocations    Current (kB)       Peak (kB) "
            " Allocated (kB)      Freed (kB)\n");
    for (size_t i = 0; i < r->scopes; i++) {
        const mrd_memory_scope *s = &r->scope[i];

        mrd_text_fmt(t, "%-25s %-6s %15" PRIu64 " %15.4f %15.4f %15.4f %15.4f\n",
                     scope_text(s, name), place_text(s), s->count, (double) s->current / 1024,
                     (double) s->peak / 1024, (double) s->allocated / 1024,
                     (double) s->freed / 1024);
    }
    t->failed = t->failed || (r->scopes > 0 && name == NULL);
    free(name);
    if (r->scopes > 0)
        mrd_text_fmt(t, "\n");
    if (r->untracked > 0)
        mrd_text_fmt(t, "%" PRIu64 " allocations are in no scope's account\n\n", r->untracked);
}

char *
mrd_stat_report_table(const mrd_stat_report *r)
{
    mrd_text t = { 0 };

    mrd_text_fmt(&t,
                 "\nProfile Statistics\n"
                 "\tTimes are in milliseconds. The average of a counter is weighted by time.\n\n");
    for (size_t i = 0, j; i < r->n; i = j) {
        for (j = i; j < r->n && r->v[j].domain == r->v[i].domain; j++)
            ;
        table_times(&t, r, i, j);
    }
    table_counters(&t, r, false);
    table_counters(&t, r, true);
    table_scopes(&t, r);
    if (r->missed > 0)
        mrd_text_fmt(&t, "%" PRIu64 " event%s not in these statistics\n", r->missed,
                     r->missed == 1 ? " is" : "s are");
    return r->failed ? (free(t.p), NULL) : mrd_text_take(&t);
}

static void
json_times(mrd_text *t, const mrd_stat_report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const mrd_stat_entry *e = &r->v[i];
        bool first = i == 0 || r->v[i - 1].domain != e->domain;
        char total[32], low[32], high[32], avg[32];

        if (first) {
            mrd_text_fmt(t, i == 0 ? "" : "},");
            mrd_text_json(t, category(e->domain));
            mrd_text_fmt(t, ":{");
        }
        mrd_text_fmt(t, first ? "" : ",");
        mrd_text_json(t, text_of(e->name, "(unnamed)"));
        mrd_text_fmt(t, ":{\"Count\":%" PRIu64 ",\"Total\":%s,\"Min\":%s,\"Max\":%s,\"Avg\":%s}",
                     e->count, ms(e->total, total), ms(e->min, low), ms(e->max, high),
                     ms(mean(e), avg));
    }
    mrd_text_fmt(t, r->n > 0 ? "}" : "");
}

/* JSON has no infinities and no NaN. */
static double
finite_or_0(double v)
{
    return isfinite(v) ? v : 0;
}

static void
json_counters(mrd_text *t, const mrd_stat_report *r, bool bytes)
{
    const mrd_stat_line *before = NULL;
    double scale = bytes ? 1024 : 1;

    for (size_t i = 0; i < r->counters; i++) {
        const mrd_stat_line *l = &r->counter[i];
        bool first = before == NULL || before->domain != l->domain;

        if (l->bytes != bytes)
            continue;
        if (first) {
            mrd_text_fmt(t, before == NULL ? "" : "},");
            mrd_text_json(t, category(l->domain));
            mrd_text_fmt(t, ":{");
        }
        mrd_text_fmt(t, first ? "" : ",");
        mrd_text_json(t, text_of(l->name, "(unnamed)"));
        mrd_text_fmt(
            t, ":{\"Count\":%" PRIu64 ",\"Last\":%.4f,\"Min\":%.4f,\"Max\":%.4f,\"Avg\":%.4f}",
            l->count, finite_or_0(l->last / scale), finite_or_0(l->min / scale),
            finite_or_0(l->max / scale), finite_or_0(l->mean / scale));
        before = l;
    }
    mrd_text_fmt(t, before != NULL ? "}" : "");
}

static void
json_scopes(mrd_text *t, const mrd_stat_report *r)
{
    char *name = r->scopes > 0 ? malloc(SCOPE_TEXT) : NULL;

    for (size_t i = 0; i < r->scopes; i++) {
        const mrd_memory_scope *s = &r->scope[i];

        mrd_text_fmt(t, i == 0 ? "{\"Name\":" : ",{\"Name\":");
        mrd_text_json(t, scope_text(s, name));
        mrd_text_fmt(t,
                     ",\"Place\":\"%s\",\"Count\":%" PRIu64 ",\"Current\":%" PRIu64
                     ",\"Peak\":%" PRIu64 ",\"Allocated\":%" PRIu64 ",\"Freed\":%" PRIu64 "}",
                     place_text(s), s->count, s->current, s->peak, s->allocated, s->freed);
    }
    t->failed = t->failed || (r->scopes > 0 && name == NULL);
    free(name);
}

char *
mrd_stat_report_json(const mrd_stat_report *r)
{
    mrd_text t = { 0 };

    mrd_text_fmt(&t, "{\"Time\":{");
    json_times(&t, r);
    mrd_text_fmt(&t, "},\"Counter\":{");
    json_counters(&t, r, false);
    mrd_text_fmt(&t, "},\"Memory\":{");
    json_counters(&t, r, true);
    mrd_text_fmt(&t, "},\"Scopes\":[");
    json_scopes(&t, r);
    mrd_text_fmt(&t,
                 "],\"Untracked\":%" PRIu64 ",\"Missed\":%" PRIu64
                 ",\"Unit\":{\"Time\":\"ms\",\"Memory\":\"kB\",\"Scopes\":\"bytes\"}}",
                 r->untracked, r->missed);
    return r->failed ? (free(t.p), NULL) : mrd_text_take(&t);
}
