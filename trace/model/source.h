/*
 * trace/model/source.h - something that yields events in mrd_event_order, one after the other: a stream
 * of the store, a batch decoder over a journal, a mapping or filter in front of another source.
 *
 * Sources that hold decoded events anyway hand them over as runs, or those of others as many, which
 * spares their readers a call for each. Who reads a source uses one of the three, no other.
 */
#ifndef MRD_TRACE_SOURCE_H
#define MRD_TRACE_SOURCE_H

#include "trace/model/event.h"

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
    /* The next *ret_n (at least 1) events, one behind the other. They may be changed, and are
     * borrowed until the next call. NULL: the source has next only. */
    mrd_step (*run)(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why);
    /* The next *ret_n (1 .. room) events, wherever they lie, borrowed until the next call. NULL:
     * the source has none. */
    mrd_step (*many)(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n,
                     mrd_why *why);
};

/* What is left of a run; a source with run makes its next of it. */
typedef struct {
    mrd_event *at;
    size_t n;
} mrd_run;

static inline mrd_step
mrd_run_next(mrd_source *self, mrd_run *left, const mrd_event **ret_event, mrd_why *why)
{
    if (left->n == 0) {
        mrd_step step = self->run(self, &left->at, &left->n, why);

        if (step != MRD_MORE) {
            left->n = 0;
            return step;
        }
    }
    left->n--;
    *ret_event = left->at++;
    return MRD_MORE;
}

#endif
