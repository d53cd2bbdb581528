#include "aggregator/merge/merge_once.h"

#include <stdlib.h>

#include "base/obj.h"
#include "trace/model/open.h"

#define AT_ONCE 64
/* maximum number of events with equal time and track that are searched for duplicates */
#define HELD_MAX 256

typedef struct {
    mrd_source base;
    mrd_source *inner;
    const mrd_event *got[AT_ONCE]; /* the latest events read from `inner`, which still owns them */
    size_t n, at;
    /* copies of an unfinished span and of the events after it that have the same time and track */
    mrd_open *held[HELD_MAX];
    size_t n_held, given; /* number of events in `held`, and number of these that were returned */
    bool decided;
    /* result of the latest read from `inner`; MRD_MORE if it may have further events */
    mrd_step end;
} once;

static bool
is_open(const mrd_event *ev)
{
    return ev->kind == MRD_SPAN && ev->dur_ns < 0;
}

static void
drop_held(once *o)
{
    for (size_t i = 0; i < o->n_held; i++)
        mrd_open_free(o->held[i]);
    o->n_held = o->given = 0;
    o->decided = false;
}

static mrd_err
hold(once *o, const mrd_event *ev)
{
    if ((o->held[o->n_held] = mrd_open_new(ev)) == NULL)
        return MRD_NOMEM;
    o->n_held++;
    return MRD_OK;
}

/* Returns true if held[i] is an unfinished span, and another event in `held` describes the same
 * span. The other event is kept, because it is finished or comes first. */
static bool
reported_again(const once *o, size_t i)
{
    const mrd_event *ev = &o->held[i]->ev;

    for (size_t k = 0; k < o->n_held && is_open(ev); k++) {
        const mrd_event *other = &o->held[k]->ev;

        if (k != i && other->kind == MRD_SPAN && other->name == ev->name &&
            (!is_open(other) || k < i))
            return true;
    }
    return false;
}

static void
decide(once *o)
{
    bool again[HELD_MAX];
    size_t kept = 0;

    for (size_t i = 0; i < o->n_held; i++)
        again[i] = reported_again(o, i);
    for (size_t i = 0; i < o->n_held; i++)
        if (again[i])
            mrd_open_free(o->held[i]);
        else
            o->held[kept++] = o->held[i];
    o->n_held = kept;
    o->decided = true;
}

/* Stores the next events of `held` in `ret_events`, at most `room`. Returns their number. */
static size_t
give_held(once *o, const mrd_event **ret_events, size_t room)
{
    size_t n = 0;

    while (n < room && o->given < o->n_held)
        ret_events[n++] = &o->held[o->given++]->ev;
    return n;
}

/* Stores the events before the next unfinished span in `ret_events`, at most `room`. Returns their
 * number. */
static size_t
give_plain(once *o, const mrd_event **ret_events, size_t room)
{
    size_t n = 0;

    while (n < room && o->at < o->n && !is_open(o->got[o->at]))
        ret_events[n++] = o->got[o->at++];
    return n;
}

static bool
belongs(const once *o, const mrd_event *ev)
{
    const mrd_event *first = &o->held[0]->ev;

    return o->n_held < HELD_MAX && ev->ts.ns == first->ts.ns && ev->track == first->track;
}

static mrd_step
once_many(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n, mrd_why *why)
{
    once *o = (once *) self;

    for (;;) {
        if (o->decided && o->given < o->n_held) {
            *ret_n = give_held(o, ret_events, room);
            return MRD_MORE;
        }
        if (o->decided)
            drop_held(o);
        if (o->at == o->n && o->end == MRD_MORE) {
            o->at = o->n = 0;
            o->end = o->inner->many(o->inner, o->got, AT_ONCE, &o->n, why);
            if (o->end != MRD_MORE)
                o->n = 0;
        }
        if (o->end != MRD_MORE && o->n_held == 0)
            return o->end;
        if (o->n_held == 0 && (*ret_n = give_plain(o, ret_events, room)) > 0)
            return MRD_MORE;
        if (o->end != MRD_MORE || (o->n_held > 0 && !belongs(o, o->got[o->at]))) {
            decide(o);
        } else if (hold(o, o->got[o->at++]) != MRD_OK) {
            mrd_why_set(why, MRD_NOMEM, 0, "merge");
            return MRD_BAD;
        }
    }
}

static mrd_step
once_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    size_t n;

    return once_many(self, ret_event, 1, &n, why);
}

static void
once_close(mrd_source *self)
{
    once *o = (once *) self;

    drop_held(o);
    o->inner->close(o->inner);
    free(o);
}

mrd_err
mrd_merge_once_open(mrd_source *inner, mrd_source **ret_source, mrd_why *why)
{
    once *o = calloc(1, sizeof(*o));

    if (o == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    }
    o->base = (mrd_source){ .next = once_next, .many = once_many, .close = once_close };
    o->base.key = inner->key;
    o->inner = inner;
    o->end = MRD_MORE;
    *ret_source = &o->base;
    return MRD_OK;
}
