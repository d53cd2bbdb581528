/*
 * aggregator/merge/merge_once.h - removes duplicate records of spans. A span that is running at a
 * trigger or a stop is stored as unfinished, and stored again when it ends. This source keeps the
 * complete record. If no record is complete, it keeps the first one. Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGE_ONCE_H
#define MRD_AGGREGATOR_MERGE_MERGE_ONCE_H

#include "trace/model/source.h"

/* Opens a source that returns the merged events of `inner` without duplicates. Takes ownership of
 * `inner`, also on errors. Two records describe the same span if start, track and name are equal.
 * The source holds the events that begin at the same time on one track in memory. Errors: NOMEM. */
mrd_err mrd_merge_once_open(mrd_source *inner, mrd_source **ret_source, mrd_why *why);

#endif
