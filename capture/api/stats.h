/*
 * capture/api/stats.h - sums up statistics per name (features C-11 and C-16 to C-19 of
 * docs/dev/seeds.md). Internal.
 *
 * Durations are kept in ticks and converted to nanoseconds when they are printed. The mean of a
 * counter is weighted by time: each value counts for the time until the next sample, and the last
 * value until the printing.
 */
#ifndef MRD_CAPTURE_API_STATS_H
#define MRD_CAPTURE_API_STATS_H

#include "base/clock.h"
#include "capture/api/record.h"
#include "capture/api/stats_print.h"

/* Bits of mrd_extra. They state what the API does in addition to recording: statistics and periodic
 * dumps. */
enum { MRD_EXTRA_STATS = 1, MRD_EXTRA_DUMPS = 2 };
extern uint32_t mrd_extra;
static inline uint32_t
mrd_extra_now(void)
{
    return __atomic_load_n(&mrd_extra, __ATOMIC_RELAXED);
}
void mrd_extra_set(uint32_t bit, bool on);

/* Adds one finished span or, if ticks is UINT64_MAX, one instant. */
void mrd_stats_add(uint32_t domain, uint32_t name, uint64_t ticks);

/* The values of a counter. `lock` protects them. */
typedef struct {
    _Atomic uint32_t lock;
    uint64_t count;
    mrd_local_ns newest, began; /* CLOCK_MONOTONIC_RAW */
    /* `area` is the sum of each value multiplied by the nanoseconds for which it lasted. */
    double last, min, max, area;
    uint64_t generation; /* number of the last mrd_stats_reset that this counter has applied */
} mrd_stat_counter;
void mrd_stats_sample(mrd_stat_counter *counter, double value);

/* A counter that is registered for printing. The owner must remove it before it frees the
 * memory. */
typedef struct mrd_stat_series {
    mrd_stat_counter stat;
    uint32_t domain, name;
    bool bytes; /* the unit is "bytes", so the counter is printed in the memory section */
    struct mrd_stat_series *next;
} mrd_stat_series;
void mrd_stats_enlist(mrd_stat_series *stat_series);
void mrd_stats_delist(mrd_stat_series *stat_series);

/* Returns the statistics as a text that the caller frees, or NULL if out of memory. */
char *mrd_stats_print(bool json, mrd_stat_sort sort, bool ascending);
void mrd_stats_reset(void);

#endif
