/*
 * trace/source.h - something that yields events in mrd_event_order, one after the other: a stream
 * of the store, a batch decoder over a journal, a mapping or filter in front of another source.
 */
#ifndef MRD_TRACE_SOURCE_H
#define MRD_TRACE_SOURCE_H

#include "trace/event.h"

typedef enum {
    MRD_MORE, /* *ret_event holds the next event, borrowed until the next call */
    MRD_END,
    MRD_BAD, /* why says so; the source ends here, others go on */
} mrd_step;

typedef struct mrd_source mrd_source;
struct mrd_source {
    mrd_step (*next)(mrd_source *self, const mrd_event **ret_event, mrd_why *why);
    void (*close)(mrd_source *self); /* frees the source */
    uint64_t
        key; /* stable tie-break between sources: equal inputs give equal keys in equal order */
};

#endif
