/*
 * timesync/epoch.h - what ends an epoch: watching the node's own clocks, and a test for small
 * jumps.
 *
 * Nothing is ever interpolated across the end of an epoch. Breaks come from three places: from
 * readings of the node (here), from a contradiction of the packets (bound.h), and from whoever
 * resets a device clock. A jump smaller than the round trip contradicts nothing; the CUSUM test
 * notices it in the estimate and lowers the quality, it never breaks an epoch.
 *
 * Units    int64 ns.
 * Threads  plain state, one thread each.
 * Source   docs/timesync.md section 6; Page 1954 for CUSUM.
 */
#ifndef MRD_TIMESYNC_EPOCH_H
#define MRD_TIMESYNC_EPOCH_H

#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

#define MRD_EPOCH_SUSPEND_MIN (1 * MRD_MS) /* BOOTTIME - MONOTONIC may not grow by more */

/* Taken together every few seconds and after every wake-up; ids are hashes, 0 = not available. */
typedef struct {
    mrd_local_ns raw;
    int64_t monotonic, boottime;
    uint64_t boot_id;         /* of the node */
    uint64_t session_boot_id; /* of the aggregator, as its handshake told */
    uint64_t vm_marker;       /* VMClock disruption_marker */
    bool has_vm_marker;
} mrd_epoch_reading;

typedef struct {
    mrd_epoch_cause cause;
    mrd_local_ns after, before; /* it happened between these two of the node's times */
    bool keep_rate;             /* the oscillator went on: only time was lost */
    mrd_dur_ns lost;            /* how long the clock stood still; 0 unknown */
} mrd_epoch_break;

typedef struct {
    mrd_epoch_reading last;
    bool started;
} mrd_epoch_watch;

/*
 * Compares with the reading before. True, and *ret_break filled, when an epoch ended in between.
 * The gravest cause wins: reboot, aggregator moved, migration, suspend. An agent restart inside one
 * boot and an aggregator restart inside one boot end nothing: both clocks ran on.
 */
bool mrd_epoch_watch_add(mrd_epoch_watch *watch, const mrd_epoch_reading *reading,
                         mrd_epoch_break *ret_break);

/* Two-sided CUSUM of standardised surprises. */
#define MRD_CUSUM_DRIFT 0.5
#define MRD_CUSUM_LIMIT 5.0

typedef struct {
    double up, down;
} mrd_cusum;

/* surprise: (observed - predicted) / sigma. True when the sum passes the limit; it then starts
 * again. */
bool mrd_cusum_add(mrd_cusum *cusum, double surprise);

#endif
