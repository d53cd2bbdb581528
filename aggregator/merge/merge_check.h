/*
 * aggregator/merge/merge_check.h - checks the clocks by the causality of collectives: no
 * participant leaves an all-reduce before the last one has entered. If aligned times show the
 * opposite, a clock is wrong. Runs during a merge. The alignment does not use the result. Internal
 * to aggregator/.
 *
 * Participants are cores of processes. Only finished synchronizing operations are checked
 * (trace/analysis/collectives.h), with times converted to their node's RAW clock. The runtime maps
 * the times of a core's own clock to RAW with an error of up to MRD_REPORT_MAPPING for each started
 * second of the core's longest execution. Such a participant may have begun earlier and ended later
 * by this error, so only a contradiction larger than this error is reported.
 *
 * Memory   at most MERGE_CHECK_MAX observations of 56 bytes, and the same again during the
 *          matching. Later observations are not checked, and the message says so.
 * Threads  belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_CHECK_H
#define MRD_AGGREGATOR_MERGE_MERGE_CHECK_H

#include "timesync/collective/collective.h"
#include "trace/model/catalog.h"

#define MERGE_CHECK_MAX (256u << 10)

typedef struct merge_check merge_check;

/* Which events concern the check. */
typedef struct {
    /* `names`: for each name id, whether it is the name of a collective or an execution. `lines`:
     * for each track id, whether it is a device in a framework's trace, where collectives may have
     * any name. */
    bool *names, *lines;
    size_t n_names, n_lines;
} merge_check_filter;

/* Creates a check. The catalog must contain all names already. NULL if out of memory. */
merge_check *mrd_merge_check_new(const mrd_catalog *cat);
void mrd_merge_check_free(merge_check *check); /* NULL is fine */
/* Returns true if the check needs this event; then call mrd_merge_check_see. Most events are not
 * needed. */
static inline bool
merge_check_wants(const merge_check *check, const mrd_event *ev)
{
    /* The first member of the check. */
    const merge_check_filter *filter = (const merge_check_filter *) (const void *) check;

    return ev->kind == MRD_LOSS || (ev->name < filter->n_names && filter->names[ev->name]) ||
           (ev->track < filter->n_lines && filter->lines[ev->track]);
}
/* Adds an event with its local RAW time raw_ns. `table` aligns the node's clock and must outlive
 * the check. `doubt` is how much earlier the event may have begun, and how much later it may have
 * ended. If memory runs out, nothing is checked. */
void mrd_merge_check_see(merge_check *check, const mrd_event *ev, int64_t raw_ns, mrd_dur_ns doubt,
                         const mrd_align *table);
/*
 * Matches the observations of different nodes and checks their times. Returns false if nothing
 * could be checked. `message` is then the reason, or empty if no collective had participants on two
 * nodes.
 */
bool mrd_merge_check_run(merge_check *check, mrd_coll_check *ret_check, char message[MRD_WHY_MAX]);

#endif
