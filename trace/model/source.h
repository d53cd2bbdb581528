/*
 * trace/model/source.h - defines a source: a sequence of events in mrd_event_order. A source may
 * read a stream of the store, decode batches of a journal, or map or filter the events of another
 * source.
 *
 * next() returns one event. A source of decoded events may also return arrays of events: run(). A
 * source that reads other sources may also return arrays of pointers: many(). Both save a call for
 * each event. A reader must use only one of the three functions.
 */
#ifndef MRD_TRACE_SOURCE_H
#define MRD_TRACE_SOURCE_H

#include "trace/model/event.h"

typedef enum {
    MRD_MORE, /* *ret_event holds the next event, borrowed until the next call */
    MRD_END,
    MRD_BAD, /* an error, which `why` describes. This source ends, others continue. */
} mrd_step;

typedef struct mrd_source mrd_source;
struct mrd_source {
    mrd_step (*next)(mrd_source *self, const mrd_event **ret_event, mrd_why *why);
    void (*close)(mrd_source *self); /* frees the source */
    /* Orders equal events of different sources. It must be the same in each run with the same
     * inputs. */
    uint64_t key;
    /* Gets the next events as an array of *ret_n (at least 1). They are borrowed until the next
     * call, and the reader may change them. NULL if the source does not support this. */
    mrd_step (*run)(mrd_source *self, mrd_event **ret_events, size_t *ret_n, mrd_why *why);
    /* Gets pointers to the next *ret_n (1 .. room) events, which are borrowed until the next call.
     * NULL if the source does not support this. */
    mrd_step (*many)(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n,
                     mrd_why *why);
};

/* The events that run() has returned to next() and that next() has not returned yet. Sources with a
 * run() function implement next() with it. */
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
