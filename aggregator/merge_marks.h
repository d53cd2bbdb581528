/*
 * aggregator/merge_marks.h - losses that no stored event tells of, because they were made when the
 * batches were sealed already (spool-full, refused, recorder-window, spool-damaged, a recorder's
 * memory): loss records of the node as a whole, at the times its agent says. Inside aggregator/ only.
 *
 * Pauses of the session are such records, too, of no event and named MRD_LOSS_PAUSED.
 *
 * What a flight recorder let go is marked only where it lies between stored batches of the node and
 * none covers it: before, between and behind windows nobody wanted anything.
 */
#ifndef MRD_AGGREGATOR_MERGE_MARKS_H
#define MRD_AGGREGATOR_MERGE_MARKS_H

#include "aggregator/merge.h"
#include "trace/model/source.h"

/* Events in order of time, in the node's RAW clock of that boot, whose row in the catalog is
 * `clock`. sealed: per entry of the journal, for batches in another clock: when it was closed in
 * RAW, INT64_MAX not said. NULL in *ret_source: nothing to mark. Errors:
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
