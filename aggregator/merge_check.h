/*
 * aggregator/merge_check.h - a causality check of the clocks by collectives: nobody leaves an
 * all-reduce before the last has entered, so no alignment may say so. Gathered while a session is
 * merged; not an input of the alignment. Inside aggregator/ only.
 *
 * Participants are the cores of processes. Only finished operations that synchronise are looked at
 * (trace/analysis/collectives.h), their times brought to their node's RAW clock. Times of a core's
 * own clock are the runtime's mapping of them, which is off by up to MRD_REPORT_MAPPING for each
 * begun second of the core's longest execution: such a part may have begun earlier and ended later
 * by that much, and is no evidence against the node's clock within it.
 *
 * Memory   at most MERGE_CHECK_MAX observations of 56 bytes, and as much again while they are
 *          matched; what came later is not checked, and the message says so.
 * Threads  belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_MERGE_CHECK_H
#define MRD_AGGREGATOR_MERGE_CHECK_H

#include "timesync/collective.h"
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
void mrd_merge_check_free(merge_check *c); /* NULL is fine */
/* Returns true if mrd_merge_check_see has to get this event. Most events do not concern the check. */
static inline bool
merge_check_wants(const merge_check *c, const mrd_event *ev)
{
    /* The first member of the check. */
    const merge_check_filter *filter = (const merge_check_filter *) (const void *) c;

    return ev->kind == MRD_LOSS || (ev->name < filter->n_names && filter->names[ev->name]) ||
           (ev->track < filter->n_lines && filter->lines[ev->track]);
}
/* An event whose local RAW time is raw_ns, known to +-doubt, of a clock with this table (outlives the
 * check). It counts as begun so much earlier and ended so much later. Without memory
 * nothing is checked. */
void mrd_merge_check_see(merge_check *c, const mrd_event *ev, int64_t raw_ns, mrd_dur_ns doubt,
                         const mrd_align *table);
/*
 * Matches and checks what was seen. Returns false when nothing could be checked; `message` then
 * says why, or is empty when there were no collectives of two nodes.
 */
bool mrd_merge_check_run(merge_check *c, mrd_coll_check *ret_check, char message[MRD_WHY_MAX]);

#endif
