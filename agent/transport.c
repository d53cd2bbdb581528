#include "agent/transport.h"

#include <stdlib.h>

typedef struct {
    mrd_transport pub; /* first */
    mrd_link *link;
} over_link;

static mrd_link *
link_of(mrd_transport *t)
{
    return ((over_link *) t)->link;
}

static mrd_err
submit(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_submit(link_of(t), tag, frame);
}

static mrd_err
submit_urgent(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_submit_urgent(link_of(t), tag, frame);
}

static mrd_err
answer(mrd_transport *t, uint64_t tag, mrd_bytes frame)
{
    return mrd_link_answer(link_of(t), tag, frame);
}

static unsigned
free_slots(mrd_transport *t)
{
    return mrd_link_free_slots(link_of(t));
}

static bool
next(mrd_transport *t, int timeout_ms, mrd_link_event *ret_event)
{
    return mrd_link_next(link_of(t), timeout_ms, ret_event);
}

static void
done(mrd_transport *t, mrd_link_event *event)
{
    (void) t;
    mrd_link_event_done(event);
}

static int
fd(mrd_transport *t)
{
    return mrd_link_fd(link_of(t));
}

static void
close_link(mrd_transport *t)
{
    mrd_link_close(link_of(t));
    free(t);
}

static mrd_err
reload(mrd_transport *t, mrd_why *why)
{
    return mrd_link_reload(link_of(t), why);
}

static bool
changed(mrd_transport *t)
{
    return mrd_link_changed(link_of(t));
}

static bool
next_error(mrd_transport *t, mrd_why *ret_why)
{
    return mrd_link_next_error(link_of(t), ret_why);
}

mrd_err
mrd_transport_link(const mrd_link_options *options, mrd_transport **ret_transport, mrd_why *why)
{
    over_link *o = calloc(1, sizeof(*o));
    mrd_err err;

    if (o == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "connection to the aggregator");
    o->pub = (mrd_transport){ .submit = submit,
                              .submit_urgent = submit_urgent,
                              .answer = answer,
                              .free_slots = free_slots,
                              .next = next,
                              .done = done,
                              .fd = fd,
                              .close = close_link,
                              .reload = reload,
                              .changed = changed,
                              .next_error = next_error };
    if ((err = mrd_link_open(options, &o->link, why)) != MRD_OK) {
        free(o);
        return err;
    }
    *ret_transport = &o->pub;
    return MRD_OK;
}
