/*
 * aggregator/merge/merge_check.h - checks the clocks by the causality of collectives: no participant
 * leaves an all-reduce before the last one has entered, so no alignment may show that. Runs during
 * a merge. The alignment does not use the result. Internal to aggregator/.
 *
 * Participants are cores of processes. Only finished synchronizing operations are checked
 * (trace/analysis/collectives.h), with times converted to their node's RAW clock. The runtime maps
 * times of a core's own clock with an error of up to MRD_REPORT_MAPPING for each started second of
 * the core's longest execution. Such a participant may have begun earlier and ended later by this
 * error, so only a larger contradiction counts against the node's clock.
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
    bool *names, /* by mrd_sid: collectives and executions of the runtime */
        *lines; /* by mrd_track_id: devices in a framework's trace. Their collectives have any name. */
    size_t n_names, n_lines;
} merge_check_filter;

/* The catalog must hold all names. Returns NULL when out of memory. */
merge_check *mrd_merge_check_new(const mrd_catalog *cat);
void mrd_merge_check_free(merge_check *check); /* NULL is fine */
/* Returns true if mrd_merge_check_see has to get this event. Most events do not concern the check. */
static inline bool
merge_check_wants(const merge_check *check, const mrd_event *ev)
{
    /* The first member of the check. */
    const merge_check_filter *filter = (const merge_check_filter *) (const void *) check;

    return ev->kind == MRD_LOSS || (ev->name < filter->n_names && filter->names[ev->name]) ||
           (ev->track < filter->n_lines && filter->lines[ev->track]);
}
/* Adds an event with local RAW time raw_ns, of a clock with this table (which outlives the check).
 * The event may have begun earlier and ended later by `doubt`. If out of memory, nothing is
 * checked. */
void mrd_merge_check_see(merge_check *check, const mrd_event *ev, int64_t raw_ns, mrd_dur_ns doubt,
                         const mrd_align *table);
/*
 * Matches and checks the observations. Returns false if nothing could be checked. `message` then
 * has the reason, or is empty if there were no collectives of two nodes.
 */
bool mrd_merge_check_run(merge_check *check, mrd_coll_check *ret_check, char message[MRD_WHY_MAX]);

#endif
