/*
 * aggregator/merge/merge_once.h - removes duplicate records of spans. A span in flight at a trigger
 * or a stop is stored as unfinished, and stored again when it ends. This source keeps the complete
 * record, or the first one if none is complete. Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_ONCE_H
#define MRD_AGGREGATOR_MERGE_MERGE_ONCE_H

#include "trace/model/source.h"

/* Opens a source without duplicates over the merged events of `inner`. Takes ownership of `inner`,
 * also on errors. Two records are of one span if start, track and name are equal. Needs memory for
 * the events that begin at the same time on one track. Errors: NOMEM. */
mrd_err mrd_merge_once_open(mrd_source *inner, mrd_source **ret_source, mrd_why *why);

#endif
