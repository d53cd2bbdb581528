/*
 * aggregator/merge/merge_marks.h - makes loss events for a node as a whole. They report events that
 * were lost after the batches with them were closed, so that no stored event records the loss. The
 * causes of these losses are spool-full, refused, recorder-window, spool-damaged and a recorder's
 * memory. The agent determined the times of the losses. Internal to aggregator/.
 *
 * A pause of the session is also stored as such an event, with the name "paused" and a count of 0.
 *
 * A flight recorder drops old events that no trigger requested. Such drops are reported only for
 * times that lie between two stored batches and that no batch covers. At other times, nobody
 * requested the node's events.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_MARKS_H
#define MRD_AGGREGATOR_MERGE_MERGE_MARKS_H

#include "aggregator/merge/merge.h"
#include "trace/model/source.h"

/* Arguments of mrd_merge_marks_open, which opens a source of the loss events in time order. `boot`
 * selects the boot of the events' RAW clock, and `clock` is the catalog row of this clock. `sealed`
 * has the RAW time at which each batch was closed, or INT64_MAX if unknown. It is needed for
 * batches with another clock than RAW. *ret_source is NULL if there are no loss events. Errors:
 * NOMEM. */
typedef struct {
    const merge_node *node;
    const mrd_journal_index *index;
    const int64_t *sealed;
    uint32_t boot, clock;
} mrd_merge_marks_of;

mrd_err mrd_merge_marks_open(const mrd_merge_marks_of *of, mrd_catalog *cat,
                             mrd_source **ret_source, size_t *ret_n, mrd_why *why);

#endif
