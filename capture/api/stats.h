/*
 * capture/api/stats.h - aggregate statistics per name (docs/dev/seeds.md, rows C-11, C-16 ... C-19).
 * Internal.
 *
 * Durations are kept in ticks and converted to nanoseconds when they are printed. A counter's mean
 * is weighted by time: the sum of each value x the time it was held, from the first sample to the
 * printing.
 */
#ifndef MRD_CAPTURE_API_STATS_H
#define MRD_CAPTURE_API_STATS_H

#include "base/clock.h"
#include "capture/api/record.h"
#include "capture/api/stats_print.h"

/* Bits of mrd_extra: the work of the API in addition to recording, which is statistics and periodic
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

/* The values of a counter object, protected by its own lock. */
typedef struct {
    _Atomic uint32_t lock;
    uint64_t count;
    mrd_local_ns newest, began;  /* RAW */
    double last, min, max, area; /* `area` is the sum of value x nanoseconds held */
    uint64_t generation;         /* number of the last reset that was applied to this counter */
} mrd_stat_counter;
void mrd_stats_sample(mrd_stat_counter *counter, double value);

/* Registers a counter for printing. Remove it before its memory is freed. */
typedef struct mrd_stat_series {
    mrd_stat_counter stat;
    uint32_t domain, name;
    bool bytes; /* the unit is "bytes", so it is printed in the memory section */
    struct mrd_stat_series *next;
} mrd_stat_series;
void mrd_stats_enlist(mrd_stat_series *stat_series);
void mrd_stats_delist(mrd_stat_series *stat_series);

/* Returns the statistics as a text that the caller frees, or NULL if out of memory. */
char *mrd_stats_print(bool json, mrd_stat_sort sort, bool ascending);
void mrd_stats_reset(void);

#endif
