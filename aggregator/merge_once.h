/*
 * aggregator/merge_once.h - a span that was in flight when a trigger or a stop was told is stored then, as
 * unfinished, and once more when it ends: shown is the one that is complete, or the first where none is.
 * Inside aggregator/ only.
 */
#ifndef MRD_AGGREGATOR_MERGE_ONCE_H
#define MRD_AGGREGATOR_MERGE_ONCE_H

#include "trace/model/source.h"

/* A source over merged events, which it owns (also on failure); `inner` has many. The two are one span
 * when start, track and name are the same. Memory: the events that begin at one moment on one track.
 * Errors: NOMEM. */
mrd_err mrd_merge_once_open(mrd_source *inner, mrd_source **ret_source, mrd_why *why);

#endif
