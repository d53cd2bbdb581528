/*
 * capture/api/stats_print.h - prints statistics as a table or JSON; equal numbers give equal bytes.
 * Internal.
 *
 * Durations are summed in ticks and converted to nanoseconds once, at the end. Milliseconds are
 * printed with four decimals by integer arithmetic (rounded half up).
 */
#ifndef MRD_CAPTURE_API_STATS_PRINT_H
#define MRD_CAPTURE_API_STATS_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/api/memory.h"

typedef enum {
    MRD_SORT_TOTAL,
    MRD_SORT_AVG,
    MRD_SORT_MIN,
    MRD_SORT_MAX,
    MRD_SORT_COUNT
} mrd_stat_sort;

/* The statistics of the spans (or instants) with one name. Times are in ticks until they are
 * converted to ns. */
typedef struct {
    uint32_t domain, name;
    bool instant;
    uint64_t count; /* 0 if the slot is empty */
    uint64_t total, min, max;
} mrd_stat_entry;

typedef struct {
    uint32_t domain, name;
    bool bytes;
    uint64_t count;
    double last, min, max, mean;
} mrd_stat_line;

typedef struct {
    mrd_stat_entry *v;
    size_t n, cap;
    mrd_stat_line *counter;
    size_t counters, counter_cap;
    mrd_memory_scope *scope; /* the memory that each scope holds */
    size_t scopes, scope_cap;
    uint64_t untracked; /* allocations that are in no scope */
    /* events that are not in the statistics, because memory ran out or because a signal handler
     * recorded them */
    uint64_t missed;
    bool failed; /* out of memory, so that the report is incomplete */
} mrd_stat_report;

/* Adds an entry. Entries with an equal key are summed. */
void mrd_stat_report_add(mrd_stat_report *stats, const mrd_stat_entry *entry);
void mrd_stat_report_counter(mrd_stat_report *stats, const mrd_stat_line *line);
void mrd_stat_report_scope(mrd_stat_report *stats, const mrd_memory_scope *scope);
/* Converts all times from ticks to nanoseconds. */
void mrd_stat_report_scale(mrd_stat_report *stats);
void mrd_stat_report_sort(mrd_stat_report *stats, mrd_stat_sort sort, bool ascending);
/* These functions return the report as a text that the caller frees, or NULL if out of memory. */
char *mrd_stat_report_table(const mrd_stat_report *stats);
char *mrd_stat_report_json(const mrd_stat_report *stats);
void mrd_stat_report_fini(mrd_stat_report *stats);

#endif
