/*
 * aggregator/clock/node_clock.h - the clocks of one node in a recorded session. Reads probes,
 * breaks and readings from its journal, solves tables from them (offline, in both directions), and
 * checks the tables with held-out probes
 *
 * CLOCK_MONOTONIC_RAW restarts with every boot. So a node that rebooted inside a session has
 * several clocks, each with a table, segments and bounds of its own. A restart of the agent within
 * a boot changes nothing, because the clock continues. An aggregator that moved, or that had a
 * reboot of its machine, is another incarnation with a timeline of its own. It begins a segment,
 * with session times that belong to that incarnation until aggregator/clock/timeline.h links the
 * incarnations. Tables are stored as solved, with each segment on the timeline of its incarnation.
 *
 * A session stores its tables as <session>/clocks/<instance_id>.align (docs/reference/timesync.md
 * section 8), and tables of further boots as <instance_id>@<boot key>.align. The merge writes them.
 * They can always be recomputed from the journal.
 *
 * Memory   all probes of one node and session: 64 bytes each, one pair per second.
 * Threads  stateless; an mrd_node_clock belongs to one thread.
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

/* The probes that one incarnation of the aggregator answered. */
typedef struct {
    char id[64];              /* id of this incarnation's timeline */
    size_t first;             /* index of its first probe in the clock's list of probes */
    mrd_local_ns from, to;    /* the node's clock at the first and the last probe */
    mrd_sess_ns began, ended; /* the same two times as session time of this incarnation */
} mrd_clock_incarnation;

/* A reading that an incarnation of the aggregator made of its own clocks. */
typedef struct {
    char id[64];
    /* session time = CLOCK_MONOTONIC_RAW of the aggregator + this offset */
    mrd_dur_ns session_offset_ns;
    mrd_host_reading r;
} mrd_server_reading;

/* Comparison of a node's clock with pairs of readings of absolute time, one by the node and one by
 * the aggregator. */
typedef struct {
    size_t pairs; /* pairs of readings that could be compared */
    /* pairs that contradict the probes; must be 0, otherwise no pair is used */
    size_t contradicting;
    mrd_dur_ns worst; /* largest contradiction in ns */
} mrd_absolute_use;

/* A reading of how long the machine had been suspended in total since its boot. It was read at most
 * a millisecond before `raw`. */
typedef struct {
    mrd_local_ns raw;
    mrd_dur_ns asleep; /* total suspended time: CLOCK_BOOTTIME - CLOCK_MONOTONIC */
} mrd_clock_look;

/* The clock of a node in one boot, with what was recorded about it. */
typedef struct {
    uint32_t boot;    /* mrd_boot_key of the boot. 0 means the agent did not report the boot */
    mrd_align *align; /* NULL if nothing was recorded about the clock */
    mrd_probe *probes;
    size_t n_probes, cap_probes;
    mrd_epoch_break *breaks; /* sorted by time */
    size_t n_breaks, cap_breaks;
    /* number of breaks beyond the limit; if not 0, the clock is not aligned */
    uint64_t breaks_beyond;
    mrd_host_reading *readings; /* readings by the node, in the order of the journal */
    size_t n_readings, cap_readings;
    mrd_clock_look *looks; /* sorted by time */
    size_t n_looks, cap_looks;
    uint64_t absurd; /* readings and breaks with impossible values, which are ignored */
    /* in order of time; empty if the frames do not name their timeline */
    mrd_clock_incarnation *incarnations;
    size_t n_incarnations, cap_incarnations;
    uint64_t checked;        /* held-out packets that were compared with the table */
    uint64_t reversed;       /* number of checked packets that are impossible by the estimate */
    mrd_dur_ns reversed_max; /* largest amount by which a packet contradicts the estimate */
    /* number of checked packets that are impossible even by the bound; must be 0 */
    uint64_t violations;
    mrd_absolute_use absolute[MRD_ABSOLUTES];
    mrd_why why; /* the reason if no table could be solved from probes */
} mrd_boot_clock;

typedef struct {
    mrd_boot_clock *v; /* clocks in the order of the journal; at least one */
    size_t n;
    mrd_server_reading *server; /* readings by the aggregator, in the order of the journal */
    size_t n_server, cap_server;
} mrd_node_clock;

/*
 * Reads the probes in the journal and solves them, per boot. Too few probes are no error: `align`
 * stays NULL and `why` says what is missing. Unreadable frames are skipped. Errors: NOMEM.
 */
mrd_err mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                             mrd_node_clock *ret_clock, mrd_why *why);
/*
 * Loads the clocks of a node from a session's directory. Uses the tables stored next to the
 * journal, and solves the probes in the journal if there are no tables. Errors: NOMEM, IO
 * (journal), and errors of mrd_align_load for a table that cannot be read.
 */
mrd_err mrd_node_clock_load(const char *session_dir, const char *instance_id,
                            mrd_node_clock *ret_clock, mrd_why *why);
void mrd_node_clock_fini(mrd_node_clock *clock);
/* Returns the clock of a boot, and adds one if there is none. The pointer is valid until the next
 * call. NULL if out of memory. */
mrd_boot_clock *mrd_node_clock_of(mrd_node_clock *clock, uint32_t boot);
/* Returns the number of pairs of readings of absolute time that contradict the packets; *ret_pairs
 * is the number of all pairs. */
size_t mrd_boot_clock_disagreements(const mrd_boot_clock *clock, size_t *ret_pairs);
/* Returns the path of the table of clock i, which the caller frees. NULL if out of memory. */
char *mrd_node_clock_path(const char *session_dir, const char *instance_id,
                          const mrd_node_clock *clock, size_t i);

/* Returns the largest bound of the estimate over all bins (time intervals) of the table. -1 if
 * there is no bin, or a bin has no bound. */
mrd_dur_ns mrd_align_widest(const mrd_align *align);
/* Like mrd_align_widest, for the bins of one segment. */
mrd_dur_ns mrd_align_segment_widest(const mrd_align *align, size_t segment);
/* Gets the lowest quality and the worst stamp source of all bins. */
void mrd_align_worst(const mrd_align *align, unsigned *ret_quality, unsigned *ret_source);

#endif
