/*
 * aggregator/merge/merge_marks.h - loss records of a node as a whole, for losses that no stored
 * event records because the batches were already closed. Their causes are spool-full, refused,
 * recorder-window, spool-damaged and a recorder's memory. The agent determined the times of the
 * losses. Internal to aggregator/.
 *
 * Pauses of the session are such records, too, with no events and the name "paused".
 *
 * Events that a flight recorder dropped are marked only between stored batches of the node, and
 * only where no batch covers the time. At other times no session wanted its events.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_MARKS_H
#define MRD_AGGREGATOR_MERGE_MERGE_MARKS_H

#include "aggregator/merge/merge.h"
#include "trace/model/source.h"

/* Opens a source of loss records in time order. `boot` names the boot of the RAW clock that they
 * use, and `clock` is the row of this clock in the catalog. `sealed` has the time when each batch
 * was closed, in RAW, for batches in another clock; INT64_MAX means unknown. *ret_source is NULL if
 * there are no records. Errors: NOMEM. */
typedef struct {
    const merge_node *node;
    const mrd_journal_index *index;
    const int64_t *sealed;
    uint32_t boot, clock;
} mrd_merge_marks_of;

mrd_err mrd_merge_marks_open(const mrd_merge_marks_of *of, mrd_catalog *cat,
                             mrd_source **ret_source, size_t *ret_n, mrd_why *why);

#endif
