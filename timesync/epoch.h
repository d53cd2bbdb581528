/*
 * timesync/epoch.h - detects the end of an epoch: watches the node's own clocks, and tests for
 * small jumps
 *
 * Nothing is ever interpolated across the end of an epoch. Breaks are found in readings of the node
 * (here), by contradicting packets (bound.h), and by the code that resets a device clock. A jump
 * smaller than the round trip contradicts nothing. The CUSUM test detects it in the estimate and
 * lowers the quality, but never ends an epoch.
 *
 * Units    int64 ns.
 * Threads  plain state, one thread each.
 * Source   docs/reference/timesync.md section 6; Page 1954 for CUSUM.
 */
#ifndef MRD_TIMESYNC_EPOCH_H
#define MRD_TIMESYNC_EPOCH_H

#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

/* more growth of BOOTTIME - MONOTONIC than this is a suspend */
#define MRD_EPOCH_SUSPEND_MIN (1 * MRD_MS)

/* The node's clocks and identities, read together every few seconds and after every wake-up. Ids
 * are hashes; 0 means that an id is not available. */
typedef struct {
    mrd_local_ns raw;
    int64_t monotonic, boottime;
    uint64_t boot_id;         /* boot of the node's system */
    uint64_t session_boot_id; /* boot of the aggregator's machine, from its handshake */
    /* the hypervisor's VMClock disruption_marker, which changes when the VM is migrated */
    uint64_t vm_marker;
    bool has_vm_marker;
} mrd_epoch_reading;

typedef struct {
    mrd_epoch_cause cause;
    mrd_local_ns after, before; /* local times of the node between which the break lies */
    bool keep_rate;             /* the oscillator kept running, and only time was lost */
    mrd_dur_ns lost;            /* how long the clock stood still; 0 means unknown */
} mrd_epoch_break;

typedef struct {
    mrd_epoch_reading last;
    bool started;
} mrd_epoch_watch;

/*
 * Compares a reading with the previous one. Returns true, and fills *ret_break, if an epoch ended
 * in between. The most severe cause counts: reboot, aggregator moved, migration, suspend. A restart
 * of the agent or the aggregator within a boot does not end an epoch, because both clocks
 * continued.
 */
bool mrd_epoch_watch_add(mrd_epoch_watch *watch, const mrd_epoch_reading *reading,
                         mrd_epoch_break *ret_break);

/* A two-sided CUSUM test, which detects a lasting shift in standardized prediction errors. */
#define MRD_CUSUM_DRIFT 0.5
#define MRD_CUSUM_LIMIT 5.0

typedef struct {
    double up, down;
} mrd_cusum;

/* Adds one prediction error, (observed - predicted) / sigma. Returns true if the sum passes the
 * limit. The sum then restarts at 0. */
bool mrd_cusum_add(mrd_cusum *cusum, double surprise);

#endif
