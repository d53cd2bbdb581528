/*
 * aggregator/node_clock.h - the clocks of one node in a recorded session: probes, breaks and
 * readings out of its journal, the tables solved from them (offline, both directions), and what the
 * held-out probes say about those tables.
 *
 * CLOCK_MONOTONIC_RAW starts again with every boot, so a node that rebooted inside a session has
 * several clocks, each with a table, segments and a bound of its own. Inside one boot a restart of
 * the agent changes nothing: its clock ran on. Another aggregator (or its reboot) is another incarnation
 * with a timeline of its own: it begins a segment, whose session times are that incarnation's until
 * aggregator/timeline.h links them to those of before. Tables are kept as solved, each segment on
 * the timeline of its incarnation.
 *
 * A session keeps its tables as <session>/clocks/<instance_id>.align (docs/timesync.md section 8),
 * those of further boots as <instance_id>@<boot key>.align, written by the merge. They can always
 * be recomputed from the journal.
 *
 * Memory   all probes of one node and session: 64 bytes each, a pair per second.
 * Threads  stateless; a mrd_node_clock belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_NODE_CLOCK_H
#define MRD_AGGREGATOR_NODE_CLOCK_H

#include "aggregator/core/host_reading.h"
#include "aggregator/journal.h"
#include "proto/wire.h"
#include "timesync/align.h"
#include "timesync/epoch.h"
#include "timesync/probe.h"

#define MRD_CLOCKS_DIR "clocks" /* below a session's directory */

/* Probes that one incarnation of the aggregator answered. */
typedef struct {
    char id[64];              /* its timeline */
    size_t first;             /* probe */
    mrd_local_ns from, to;    /* local ns of the first and the last */
    mrd_sess_ns began, ended; /* the same in session time as that incarnation has it */
} mrd_clock_incarnation;

/* What a incarnation of the aggregator read of its own clocks. */
typedef struct {
    char id[64];
    mrd_dur_ns session_offset_ns; /* session time = its RAW + this */
    mrd_host_reading r;
} mrd_server_reading;

/* What readings of absolute time at both ends say about a clock. */
typedef struct {
    size_t pairs;         /* of readings that could be compared */
    size_t contradicting; /* that exclude what the packets say: none of them is used. Must be 0 */
    mrd_dur_ns worst;     /* by how much at most */
} mrd_absolute_use;

/* How long the machine had slept since it booted, within the millisecond before that time. */
typedef struct {
    mrd_local_ns raw;
    mrd_dur_ns asleep; /* BOOTTIME - MONOTONIC */
} mrd_clock_look;

/* The clock of one boot. */
typedef struct {
    uint32_t boot;    /* mrd_boot_key; 0: the agent did not say */
    mrd_align *align; /* NULL: nothing is known */
    mrd_probe *probes;
    size_t n_probes, cap_probes;
    mrd_epoch_break *breaks; /* ascending */
    size_t n_breaks, cap_breaks;
    uint64_t breaks_beyond;     /* more than may be: the clock is not aligned */
    mrd_host_reading *readings; /* in the order of the journal */
    size_t n_readings, cap_readings;
    mrd_clock_look *looks; /* ascending */
    size_t n_looks, cap_looks;
    uint64_t absurd; /* readings and breaks that cannot be: left out */
    mrd_clock_incarnation
        *incarnations; /* in their order; none where frames do not name their timeline */
    size_t n_incarnations, cap_incarnations;
    uint64_t checked;        /* held-out packets compared with the table */
    uint64_t reversed;       /* of these: impossible by the estimate */
    mrd_dur_ns reversed_max; /* by how much at most */
    uint64_t violations;     /* of these: impossible by the bound; must be 0 */
    mrd_absolute_use absolute[MRD_ABSOLUTES];
    mrd_why why; /* why there is no table from probes, when there is none */
} mrd_boot_clock;

typedef struct {
    mrd_boot_clock *v; /* in the order of the journal; at least one */
    size_t n;
    mrd_server_reading *server; /* in the order of the journal */
    size_t n_server, cap_server;
} mrd_node_clock;

/*
 * Reads the probes in the journal and solves them, per boot. Too few is no error: align stays NULL
 * and why says what was missing. Frames that cannot be read are passed over. Errors: NOMEM.
 */
mrd_err mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                             mrd_node_clock *ret_clock, mrd_why *why);
/*
 * The same for a node of a session's directory, but with the tables that lie beside the journal
 * where there are some. Errors: NOMEM, IO (journal), those of mrd_align_load for a table that is
 * there and cannot be read.
 */
mrd_err mrd_node_clock_load(const char *session_dir, const char *instance_id,
                            mrd_node_clock *ret_clock, mrd_why *why);
void mrd_node_clock_fini(mrd_node_clock *clock);
/* The clock of a boot, added when new; borrowed until the next call. NULL without memory. */
mrd_boot_clock *mrd_node_clock_of(mrd_node_clock *clock, uint32_t boot);
/* Pairs of readings of absolute time that exclude what the packets say; ret_pairs: of how many. */
size_t mrd_boot_clock_disagreements(const mrd_boot_clock *clock, size_t *ret_pairs);
/* Where the table of clock i lies; NULL without memory; free it. */
char *mrd_node_clock_path(const char *session_dir, const char *instance_id,
                          const mrd_node_clock *clock, size_t i);

/* The largest distance of estimate and bound over all bins; -1 when there is none or a bin knows
 * none. */
mrd_dur_ns mrd_align_widest(const mrd_align *align);
/* The same of one segment. */
mrd_dur_ns mrd_align_segment_widest(const mrd_align *align, size_t segment);
/* The least believed quality, and the worst stamp source, of all bins. */
void mrd_align_worst(const mrd_align *align, unsigned *ret_quality, unsigned *ret_source);

#endif
