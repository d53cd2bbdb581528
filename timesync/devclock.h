/*
 * timesync/devclock.h - a device's clock against its node's clock: the same solver, one table per
 * device clock and reset.
 *
 *   hard   the host submits before the device starts, the device ends before the host sees
 *          completion: inequalities, always true, as wide as launch and completion take
 *   soft   sync points (cpu and device read "nearly together", no stated bracket): measurements for
 *          the estimate with weights 1/|residual|, never inequalities. One that the host read
 *          before and after becomes hard: give it as a bracket
 *
 * The table (align.h) maps device ns to node RAW: what it calls session is the node's clock. The
 * device clock's rate is fitted, |rate| <= 200 ppm. Without a single bracket there is an estimate
 * but no bound.
 *
 * Units    device times in ns of the device's counter (mrd_ticks_ns), host times in node RAW ns.
 * Threads  stateless, but for a mrd_ticks.
 * Source   docs/timesync.md section 9.
 */
#ifndef MRD_TIMESYNC_DEVCLOCK_H
#define MRD_TIMESYNC_DEVCLOCK_H

#include "timesync/align.h"
#include "timesync/follow.h"

#define MRD_DEVCLOCK_RATE_MAX 200000.0 /* ppb */
#define MRD_DEVCLOCK_W        10.0     /* ppb/s: how a device's rate may change */
#define MRD_DEVCLOCK_SIGMA    150.0    /* ns: residuals of sync points below count alike */

/* One execution: submit <= start and end <= complete; 0 where unknown (that side gives nothing). */
typedef struct {
    int64_t submit, complete; /* node RAW */
    int64_t start, end;       /* device ns */
} mrd_dev_bracket;

typedef struct {
    int64_t cpu; /* node RAW */
    int64_t dev; /* device ns */
} mrd_dev_sync;

typedef struct {
    size_t brackets, syncs;
    mrd_bound_counts bound;
    size_t outliers;          /* sync points more than 5 us off the estimate */
    mrd_dur_ns sync_residual; /* median, absolute */
    double rate;              /* ppb, in the middle */
    double w;
    bool bounded;
} mrd_devclock_report;

/*
 * The table of one device clock between two resets, from executions and sync points in any order.
 * Errors: EMPTY (nothing, or brackets of one side only and fewer than 2 sync points), NOMEM, LIMIT,
 * CLOCK when the rate would exceed the limit.
 */
mrd_err mrd_devclock_solve(const char *name, uint64_t clock_id, const mrd_dev_bracket *brackets,
                           size_t n_brackets, const mrd_dev_sync *syncs, size_t n_syncs,
                           mrd_align **ret_align, mrd_devclock_report *ret_report, mrd_why *why);

/*
 * Device ns to session time through both tables. ret_dev: the bound on the node's clock, kept
 * beside the composed one because they differ by a hundredfold. False when either table is empty.
 */
bool mrd_devclock_map(const mrd_align *device, mrd_align_cursor *device_cursor,
                      const mrd_align *node, mrd_align_cursor *node_cursor, int64_t dev_ns,
                      mrd_sess_ns *ret_at, mrd_align_bound *ret_bound, mrd_align_bound *ret_dev);

/* ---- ticks ---- */

/* Unwraps a counter of `bits` and scales it. */
typedef struct {
    unsigned bits;      /* 1 to 64 */
    double ns_per_tick; /* 1 when the counter is in ns */
    uint64_t last, high;
    bool started;
} mrd_ticks;

/* Device ns of the next reading. A reading that is less than half a turn behind is taken as
 * disorder (older), not as a wrap. */
int64_t mrd_ticks_ns(mrd_ticks *ticks, mrd_dev_ticks reading);
/*
 * The length of a tick from pairs of readings: 1.0 when it is nanoseconds within 500 ppm, else the
 * slope. Errors: AGAIN with fewer than 2 pairs or less than 10 ms between them; CLOCK when they are
 * not on a line.
 */
mrd_err mrd_ticks_length(const mrd_dev_sync *pairs, size_t n, double *ret_ns_per_tick);
/*
 * True when the device's clock was reset between two readings: it went back, or the two elapsed
 * times differ by more than 500 ppm and 1 ms.
 */
bool mrd_devclock_reset(const mrd_dev_sync *before, const mrd_dev_sync *after);

/* ---- which clock is a stamp of? ---- */

typedef enum {
    MRD_HOST_RAW,
    MRD_HOST_MONOTONIC,
    MRD_HOST_REALTIME,
    MRD_HOST_CLOCKS
} mrd_host_clock;

/* Our own readings around the call that produced the stamp. */
typedef struct {
    int64_t before[MRD_HOST_CLOCKS], after[MRD_HOST_CLOCKS];
} mrd_host_reading;

#define MRD_HOST_CLOCK_SLACK (1 * MRD_MS)

/* The clock whose bracket is nearest. Errors: CLOCK when it fits none within MRD_HOST_CLOCK_SLACK
 * (do not use the stamp). */
mrd_err mrd_host_clock_identify(const mrd_host_reading *reading, int64_t stamp,
                                mrd_host_clock *ret_clock, mrd_why *why);
const char *mrd_host_clock_text(mrd_host_clock clock);

#endif
