/*
 * aggregator/clock/node_clock.h - the clocks of one node in a recorded session. Reads the probes,
 * breaks and clock readings in the node's journal, and computes tables that convert the node's
 * clocks to session time. Checks the tables with probes that were not used for the computation.
 *
 * CLOCK_MONOTONIC_RAW restarts at every boot. So a node that rebooted during a session has several
 * clocks. Each clock has its own table, segments and bounds. If only the agent restarts, the clock
 * continues.
 *
 * An incarnation of the aggregator is the time on one machine without a reboot. A move to another
 * machine or a reboot begins a new incarnation with a timeline of its own. Each incarnation begins
 * a new segment of the table. Saved tables have each segment on the timeline of its incarnation.
 * aggregator/clock/timeline.h converts the segments to one timeline.
 *
 * A merge saves the tables as <session>/clocks/<instance_id>.align (docs/reference/timesync.md
 * section 8). Tables of further boots are named <instance_id>@<boot key>.align. All tables can be
 * computed again from the journal.
 *
 * Memory   all probes of one node in a session: 64 bytes each, one pair per second.
 * Threads  any thread may call the functions. Only one thread at a time may use an mrd_node_clock.
 */
#ifndef MRD_AGGREGATOR_CLOCK_NODE_CLOCK_H
#define MRD_AGGREGATOR_CLOCK_NODE_CLOCK_H

#include "aggregator/core/node/host_reading.h"
#include "aggregator/journal/journal.h"
#include "proto/wire.h"
#include "timesync/align.h"
#include "timesync/epoch.h"
#include "timesync/probe.h"

#define MRD_CLOCKS_DIR "clocks" /* directory of clock tables, below a session's directory */

/* The probes that one incarnation of the aggregator answered. An incarnation ends when the
 * aggregator moves or its machine reboots. */
typedef struct {
    char id[64];              /* id of this incarnation's timeline */
    size_t first;             /* index in `probes` of the incarnation's first probe */
    mrd_local_ns from, to;    /* the node's clock at the first and the last probe */
    mrd_sess_ns began, ended; /* session times of this incarnation at its first and last probe */
} mrd_clock_incarnation;

/* A reading that the aggregator made of its own clocks. */
typedef struct {
    char id[64];
    /* session time = CLOCK_MONOTONIC_RAW of the aggregator + this offset */
    mrd_dur_ns session_offset_ns;
    mrd_host_reading r;
} mrd_server_reading;

/* Result of comparing a node's clock with pairs of absolute time readings. The node made one
 * reading of each pair and the aggregator the other. */
typedef struct {
    size_t pairs; /* number of pairs that were compared */
    /* number of pairs that contradict the probes. If it is not 0, no pair is used */
    size_t contradicting;
    mrd_dur_ns worst; /* largest contradiction of a pair in ns */
} mrd_absolute_use;

/* How long the machine had been suspended since its boot, in total, at one time. This total was
 * read at most 1 ms before the time `raw`. */
typedef struct {
    mrd_local_ns raw;
    mrd_dur_ns asleep; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
} mrd_clock_look;

/* A node's clock in one boot, and the recorded data about this clock. */
typedef struct {
    uint32_t boot; /* mrd_boot_key of the boot; 0 if the agent did not report the boot */
    /* table that converts the clock to session time; NULL if it could not be computed */
    mrd_align *align;
    mrd_probe *probes;
    size_t n_probes, cap_probes;
    mrd_epoch_break *breaks; /* breaks of the clock, such as suspends, sorted by time */
    size_t n_breaks, cap_breaks;
    /* number of breaks that were not stored because of the limit. If it is not 0, the clock is not
     * aligned. */
    uint64_t breaks_beyond;
    mrd_host_reading *readings; /* readings by the node, in the order of the journal */
    size_t n_readings, cap_readings;
    mrd_clock_look *looks; /* totals of suspended time, sorted by time */
    size_t n_looks, cap_looks;
    /* number of readings and breaks that were ignored because their values are impossible */
    uint64_t absurd;
    /* incarnations of the aggregator that answered its probes, sorted by time; empty if the frames
     * contain no timeline id */
    mrd_clock_incarnation *incarnations;
    size_t n_incarnations, cap_incarnations;
    /* number of packets that were not used to compute the table but only to check it */
    uint64_t checked;
    /* number of checked packets that seem to arrive before they were sent, by the estimate without
     * its bound */
    uint64_t reversed;
    mrd_dur_ns reversed_max; /* largest time by which a `reversed` packet seems to arrive early */
    /* number of checked packets that contradict even the estimate's error bound; must be 0 */
    uint64_t violations;
    mrd_absolute_use absolute[MRD_ABSOLUTES];
    mrd_why why; /* why no table could be computed from probes */
} mrd_boot_clock;

typedef struct {
    mrd_boot_clock *v; /* the node's clocks, in the order of the journal; at least one */
    size_t n;
    /* readings that the aggregator made of its own clocks, in the order of the journal */
    mrd_server_reading *server;
    size_t n_server, cap_server;
} mrd_node_clock;

/*
 * Reads the probes in the journal and computes a table for each boot. Too few probes are not an
 * error. In this case, `align` is NULL, and `why` says which data is missing. Unreadable frames are
 * skipped. Errors: NOMEM.
 */
mrd_err mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                             mrd_node_clock *ret_clock, mrd_why *why);
/*
 * Loads the clocks of a node from a session's directory. Reads the saved tables, or computes them
 * from the probes in the journal if none were saved. Errors: NOMEM, IO (journal), and errors of
 * mrd_align_load for a table that cannot be read.
 */
mrd_err mrd_node_clock_load(const char *session_dir, const char *instance_id,
                            mrd_node_clock *ret_clock, mrd_why *why);
void mrd_node_clock_fini(mrd_node_clock *clock);
/* Returns the clock of a boot, and adds one if there is none. The pointer is valid until the next
 * call. NULL if out of memory. */
mrd_boot_clock *mrd_node_clock_of(mrd_node_clock *clock, uint32_t boot);
/* Returns how many pairs of absolute time readings contradict the packets. *ret_pairs is the number
 * of all pairs. */
size_t mrd_boot_clock_disagreements(const mrd_boot_clock *clock, size_t *ret_pairs);
/* Returns the path of the saved table of clock `i`, which the caller frees. NULL if out of
 * memory. */
char *mrd_node_clock_path(const char *session_dir, const char *instance_id,
                          const mrd_node_clock *clock, size_t i);

/* Returns the largest error bound of the estimate over all bins (time intervals) of the table, in
 * ns. Returns -1 if the table has no bins or a bin has no bound. */
mrd_dur_ns mrd_align_widest(const mrd_align *align);
/* Returns the largest error bound over the bins of one segment of the table, in ns. Returns -1 if a
 * bin has no bound, or if there are no bins. */
mrd_dur_ns mrd_align_segment_widest(const mrd_align *align, size_t segment);
/* Gets the lowest quality and the worst source of time stamps over all bins of the table. */
void mrd_align_worst(const mrd_align *align, unsigned *ret_quality, unsigned *ret_source);

#endif
