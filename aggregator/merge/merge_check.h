/*
 * aggregator/merge/merge_check.h - checks the clocks' alignment with collective operations. No
 * participant can leave an all-reduce before the last participant has entered it. If the aligned
 * times show the opposite, a clock is wrong. The check runs during a merge and does not change the
 * alignment. Internal to aggregator/.
 *
 * A participant is a core of a process. Only finished synchronizing operations are checked
 * (trace/analysis/collectives.h). Their times are in the node's RAW clock.
 *
 * Some cores have a clock of their own, which the runtime converts to RAW. The conversion may be
 * wrong by MRD_REPORT_MAPPING for each started second of the core's longest execution. The check
 * allows for this error and reports only larger contradictions.
 *
 * Memory   at most MERGE_CHECK_MAX observations of 56 bytes, and as many again during the
 *          matching. Later observations are not checked, and the message says so.
 * Threads  only one thread at a time may use a check.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_CHECK_H
#define MRD_AGGREGATOR_MERGE_MERGE_CHECK_H

#include "timesync/collective/collective.h"
#include "trace/model/catalog.h"

#define MERGE_CHECK_MAX (256u << 10)

typedef struct merge_check merge_check;

/* Selects the events that the check needs, by name and by track. */
typedef struct {
    /* `names` is true for each name id of a collective or of an execution. `lines` is true for each
     * track id of a device in a framework's trace, where collectives may have any name. */
    bool *names, *lines;
    size_t n_names, n_lines;
} merge_check_filter;

/* Creates a check. The catalog must contain all names already. NULL if out of memory. */
merge_check *mrd_merge_check_new(const mrd_catalog *cat);
void mrd_merge_check_free(merge_check *check); /* ignores NULL */
/* Returns true if the caller must pass this event to mrd_merge_check_see. Most events are not
 * needed. */
static inline bool
merge_check_wants(const merge_check *check, const mrd_event *ev)
{
    /* the filter is the first member of merge_check */
    const merge_check_filter *filter = (const merge_check_filter *) (const void *) check;

    return ev->kind == MRD_LOSS || (ev->name < filter->n_names && filter->names[ev->name]) ||
           (ev->track < filter->n_lines && filter->lines[ev->track]);
}
/* Adds an event to the check, with its time `raw_ns` in the node's RAW clock. `table` aligns this
 * clock and must outlive the check. The true begin may be up to `doubt` ns earlier, and the true
 * end up to `doubt` ns later. If memory runs out, mrd_merge_check_run checks nothing. */
void mrd_merge_check_see(merge_check *check, const mrd_event *ev, int64_t raw_ns, mrd_dur_ns doubt,
                         const mrd_align *table);
/*
 * Matches the observations of different nodes and checks their times. Returns false if nothing
 * could be checked. In this case, `message` contains the reason. The message is empty if no
 * collective had participants on two nodes.
 */
bool mrd_merge_check_run(merge_check *check, mrd_coll_check *ret_check, char message[MRD_WHY_MAX]);

#endif
