#include "agent/link/transport.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct {
    /* must be the first member, because pointers to pub are cast to this struct */
    mrd_transport pub;
    mrd_link *link; /* NULL means that the connection is not open yet */
    mrd_link_options later;
} over_link;

static mrd_link *
link_of(mrd_transport *transport)
{
    return ((over_link *) transport)->link;
}

static bool
has_certificate(const mrd_link_options *options)
{
    return access(options->tls.cert_file, F_OK) == 0 && access(options->tls.key_file, F_OK) == 0;
}

static mrd_err
submit(mrd_transport *transport, uint64_t tag, mrd_bytes frame)
{
    return link_of(transport) == NULL ? MRD_AGAIN : mrd_link_submit(link_of(transport), tag, frame);
}

static mrd_err
submit_urgent(mrd_transport *transport, uint64_t tag, mrd_bytes frame)
{
    return link_of(transport) == NULL ? MRD_AGAIN
                                      : mrd_link_submit_urgent(link_of(transport), tag, frame);
}

static mrd_err
answer(mrd_transport *transport, uint64_t tag, mrd_bytes frame)
{
    return link_of(transport) == NULL ? MRD_INVALID
                                      : mrd_link_answer(link_of(transport), tag, frame);
}

static unsigned
free_slots(mrd_transport *transport)
{
    return link_of(transport) == NULL ? 0 : mrd_link_free_slots(link_of(transport));
}

static bool
next(mrd_transport *transport, int timeout_ms, mrd_link_event *ret_event)
{
    return link_of(transport) != NULL && mrd_link_next(link_of(transport), timeout_ms, ret_event);
}

static void
done(mrd_transport *transport, mrd_link_event *event)
{
    (void) transport;
    mrd_link_event_done(event);
}

static int
fd(mrd_transport *transport)
{
    return link_of(transport) == NULL ? -1 : mrd_link_fd(link_of(transport));
}

static void
close_link(mrd_transport *transport)
{
    mrd_link_close(link_of(transport));
    free(transport);
}

static mrd_err
reload(mrd_transport *transport, mrd_why *why)
{
    over_link *o = (over_link *) transport;

    return o->link == NULL ? mrd_link_open(&o->later, &o->link, why)
                           : mrd_link_reload(o->link, why);
}

static bool
changed(mrd_transport *transport)
{
    const over_link *o = (over_link *) transport;

    return o->link == NULL ? has_certificate(&o->later) : mrd_link_changed(o->link);
}

static bool
next_error(mrd_transport *transport, mrd_why *ret_why)
{
    return link_of(transport) != NULL && mrd_link_next_error(link_of(transport), ret_why);
}

static mrd_err
open_it(const mrd_link_options *options, bool later, mrd_transport **ret_transport, mrd_why *why)
{
    over_link *o = calloc(1, sizeof(*o));
    mrd_err err = MRD_OK;

    if (o == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "connection to the aggregator");
    o->later = *options;
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
    if (!later || has_certificate(options))
        err = mrd_link_open(options, &o->link, why);
    if (err != MRD_OK) {
        free(o);
        return err;
    }
    *ret_transport = &o->pub;
    return MRD_OK;
}

mrd_err
mrd_transport_link(const mrd_link_options *options, mrd_transport **ret_transport, mrd_why *why)
{
    return open_it(options, false, ret_transport, why);
}

mrd_err
mrd_transport_link_later(const mrd_link_options *options, mrd_transport **ret_transport,
                         mrd_why *why)
{
    return open_it(options, true, ret_transport, why);
}
