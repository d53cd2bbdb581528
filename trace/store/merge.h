/*
 * trace/store/merge.h - merges k sorted sources into one, by a tournament tree with cached keys.
 * The cost of an event is constant while successive events come from one source. Equal times are
 * ordered by mrd_event_order, then by source key.
 *
 * Memory: one event of each source, or one run if the source returns runs (mrd_source.run). A
 * source with a decreasing time is BAD: it is closed and reported, and the others continue.
 */
#ifndef MRD_TRACE_MERGE_H
#define MRD_TRACE_MERGE_H

#include "trace/model/source.h"

/*
 * Opens a source over `n` sources, which it owns, also on failure. `bad` is called for each source
 * that ends with an error (may be NULL). Errors: NOMEM.
 */
mrd_err mrd_merge_open(mrd_source **sources, size_t n,
                       void (*bad)(void *self, uint64_t key, const mrd_why *why), void *self,
                       mrd_source **ret_source, mrd_why *why);

/*
 * Opens a source that converts local times to session times. `map` gets n events with local times,
 * and sets their session times and bounds in place. It gets several events at once only if `inner`
 * returns runs. The conversion must be monotone. Events with equal mapped times stay in order.
 * Durations stay, except if the local clock was set during the span. Owns `inner`.
 */
mrd_err mrd_map_open(mrd_source *inner, void (*map)(void *self, mrd_event *events, size_t n),
                     void *self, mrd_source **ret_source, mrd_why *why);

#endif
