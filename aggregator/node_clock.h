/*
 * aggregator/node_clock.h - the clock of one node in a recorded session: probes and breaks out of
 * its journal, the table solved from them (offline, both directions), and what the held-out probes
 * say about that table.
 *
 * A session keeps its tables as <session>/clocks/<instance_id>.align (docs/timesync.md section 8),
 * written by the merge. They can always be recomputed from the journal.
 *
 * Memory   all probes of one node and session: 64 bytes each, a pair per second.
 * Threads  stateless; a mrd_node_clock belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_NODE_CLOCK_H
#define MRD_AGGREGATOR_NODE_CLOCK_H

#include "aggregator/journal.h"
#include "proto/wire.h"
#include "timesync/align.h"
#include "timesync/epoch.h"
#include "timesync/probe.h"

#define MRD_CLOCKS_DIR "clocks" /* below a session's directory */

typedef struct {
    mrd_align *align; /* NULL: nothing is known */
    mrd_probe *probes;
    size_t n_probes, cap_probes;
    mrd_epoch_break *breaks; /* ascending */
    size_t n_breaks;
    uint64_t checked;        /* held-out packets compared with the table */
    uint64_t reversed;       /* of these: impossible by the estimate */
    mrd_dur_ns reversed_max; /* by how much at most */
    uint64_t violations;     /* of these: impossible by the bound; must be 0 */
    mrd_why why;             /* why there is no table from probes, when there is none */
} mrd_node_clock;

/* A break as it travels. Its cause is not checked. */
mrd_epoch_break mrd_clock_break_of(const Mrd__ClockBreak *b);

/*
 * Reads the probes in the journal and solves them. Too few is no error: align stays NULL and
 * ret_clock->why says what was missing. Frames that cannot be read are passed over. Errors: NOMEM.
 */
mrd_err mrd_node_clock_solve(const char *instance_id, const mrd_journal_index *index,
                             mrd_node_clock *ret_clock, mrd_why *why);
/*
 * The same for a node of a session's directory, but with the table that lies beside the journal
 * where there is one. Errors: NOMEM, IO (journal), those of mrd_align_load for a table that is
 * there and cannot be read.
 */
mrd_err mrd_node_clock_load(const char *session_dir, const char *instance_id,
                            mrd_node_clock *ret_clock, mrd_why *why);
void mrd_node_clock_fini(mrd_node_clock *clock);

/* The largest distance of estimate and bound over all bins; -1 when there is none or a bin knows
 * none. */
mrd_dur_ns mrd_align_widest(const mrd_align *align);
/* The least believed quality, and the worst stamp source, of all bins. */
void mrd_align_worst(const mrd_align *align, unsigned *ret_quality, unsigned *ret_source);

#endif
