/*
 * trace/store/merge.h - k sorted sources into one sorted sequence: a tournament tree with cached keys,
 * constant while one source stays ahead. Ties: mrd_event_order, then source key.
 *
 * Memory: one event, or one run, per source. A source that steps back in time is BAD from there on:
 * it is closed, counted and named, the others go on.
 */
#ifndef MRD_TRACE_MERGE_H
#define MRD_TRACE_MERGE_H

#include "trace/model/source.h"

/*
 * A source over `n` sources, which it owns from here on (also on failure). bad is called for each
 * source that ends badly (may be NULL). Errors: NOMEM.
 */
mrd_err mrd_merge_open(mrd_source **sources, size_t n,
                       void (*bad)(void *self, uint64_t key, const mrd_why *why), void *self,
                       mrd_source **ret_source, mrd_why *why);

/*
 * A source that maps times: `map` gets events, in runs where inner has runs, with their local times
 * and sets session time and bound in place. It must be monotone per source; events that it puts at
 * one time stay in the order of the source. It keeps durations, unless the local clock was set
 * inside one. Owns `inner`.
 */
mrd_err mrd_map_open(mrd_source *inner, void (*map)(void *self, mrd_event *events, size_t n),
                     void *self, mrd_source **ret_source, mrd_why *why);

#endif
