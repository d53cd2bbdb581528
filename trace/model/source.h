/*
 * trace/model/source.h - defines a source: a sequence of events in mrd_event_order. A source may be
 * a stream of the store, a batch decoder over a journal, or a mapping or filter over another
 * source.
 *
 * A source of decoded events can return arrays (`run`). A source over other sources can return
 * arrays of pointers (`many`). Both save a call for each event. A reader uses one of the three
 * functions and no other.
 */
#ifndef MRD_TRACE_SOURCE_H
#define MRD_TRACE_SOURCE_H

#include "trace/model/event.h"

typedef enum {
    MRD_MORE, /* *ret_event holds the next event, borrowed until the next call */
    MRD_END,
    MRD_BAD, /* `why` has the reason; this source ends, others continue */
} mrd_step;

typedef struct mrd_source mrd_source;
struct mrd_source {
    mrd_step (*next)(mrd_source *self, const mrd_event **ret_event, mrd_why *why);
    void (*close)(mrd_source *self); /* frees the source */
    uint64_t
        key; /* stable tie-break between sources: equal inputs give equal keys in equal order */
    /* Gets the next *ret_n (at least 1) events as one array. They may be changed, and are borrowed
     * until the next call. NULL if the source supports only next. */
    mrd_step (*run)(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why);
    /* Gets pointers to the next *ret_n (1 .. room) events, borrowed until the next call. NULL if
     * not supported. */
    mrd_step (*many)(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n,
                     mrd_why *why);
};

/* The unread rest of a run. A source that has `run` uses it to implement `next`. */
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
