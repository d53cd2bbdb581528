/*
 * timesync/epoch.h - detects the end of an epoch, which is a time range in which a clock ran
 * without a break
 *
 * This module compares readings of a node's own clocks, and tests offsets for small jumps. Offsets
 * are never interpolated across the end of an epoch. A break is detected in one of three ways: by
 * readings of the node's clocks (here), by packets that contradict each other (bound.h), or by the
 * code that resets a device clock. A jump smaller than the round trip time causes no contradiction.
 * The CUSUM test (cumulative sum of prediction errors) detects such a jump in the estimate and
 * lowers the quality, but never ends an epoch.
 *
 * Units    int64 ns.
 * Threads  only one thread at a time may use a struct.
 * Source   docs/reference/timesync.md section 6; Page 1954 for CUSUM.
 */
#ifndef MRD_TIMESYNC_EPOCH_H
#define MRD_TIMESYNC_EPOCH_H

#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

/* The node was suspended if BOOTTIME - MONOTONIC grew by more than this between two readings. */
#define MRD_EPOCH_SUSPEND_MIN (1 * MRD_MS)

/* Clocks and identities of a node, read together every few seconds and after every wake-up. Ids are
 * hashes; 0 means that an id is not available. */
typedef struct {
    mrd_local_ns raw;
    int64_t monotonic, boottime;
    uint64_t boot_id; /* hash of the boot id of the node's system */
    /* hash of the boot id of the aggregator's machine, from its handshake */
    uint64_t session_boot_id;
    /* the hypervisor's VMClock disruption_marker, which changes when the VM is migrated */
    uint64_t vm_marker;
    bool has_vm_marker;
} mrd_epoch_reading;

typedef struct {
    mrd_epoch_cause cause;
    mrd_local_ns after, before; /* the break is between these two local times of the node */
    /* true if the oscillator kept its rate, and only an amount of time was lost */
    bool keep_rate;
    mrd_dur_ns lost; /* for how many ns the clock stood still; 0 means unknown */
} mrd_epoch_break;

typedef struct {
    mrd_epoch_reading last;
    bool started;
} mrd_epoch_watch;

/*
 * Compares a reading with the previous one. Returns true, and fills *ret_break, if an epoch ended
 * in between. If there are several causes, the most severe one is reported: reboot, aggregator
 * moved, migration, suspend. A restart of the agent or the aggregator within one boot does not end
 * an epoch, because both clocks continue.
 */
bool mrd_epoch_watch_add(mrd_epoch_watch *watch, const mrd_epoch_reading *reading,
                         mrd_epoch_break *ret_break);

/* A two-sided CUSUM test, which detects a lasting shift in prediction errors. The errors are
 * divided by their standard deviation, and so are DRIFT (the error that is ignored) and LIMIT (the
 * sum that raises an alarm). */
#define MRD_CUSUM_DRIFT 0.5
#define MRD_CUSUM_LIMIT 5.0

typedef struct {
    double up, down;
} mrd_cusum;

/* Adds one prediction error, (observed - predicted) / sigma. Returns true if a sum exceeds
 * MRD_CUSUM_LIMIT, and then restarts it at 0. */
bool mrd_cusum_add(mrd_cusum *cusum, double surprise);

#endif
