/* agent/link/transport.h - the interface through which the agent sends to the aggregator. There are
 * two implementations: transport.c over proto/link.h, and tests/fake/link.c for tests. Each member
 * does the same as the function with its name in proto/link.h. */
#ifndef MRD_AGENT_LINK_TRANSPORT_H
#define MRD_AGENT_LINK_TRANSPORT_H

#include "proto/link.h"

typedef struct mrd_transport mrd_transport;
struct mrd_transport {
    mrd_err (*submit)(mrd_transport *t, uint64_t tag, mrd_bytes frame);
    mrd_err (*submit_urgent)(mrd_transport *t, uint64_t tag, mrd_bytes frame);
    mrd_err (*answer)(mrd_transport *t, uint64_t tag, mrd_bytes frame);
    unsigned (*free_slots)(mrd_transport *t);
    bool (*next)(mrd_transport *t, int timeout_ms, mrd_link_event *ret_event);
    void (*done)(mrd_transport *t, mrd_link_event *event);
    int (*fd)(mrd_transport *t);
    void (*close)(mrd_transport *t); /* closes the connection and frees the transport */
    /* `reload` reads the certificate files again. It is NULL if the connection does not use TLS. */
    mrd_err (*reload)(mrd_transport *t, mrd_why *why);
    bool (*changed)(mrd_transport *t);
    bool (*next_error)(mrd_transport *t, mrd_why *ret_why);
};

/* Opens a transport over proto/link.h. The process must not call fork() afterwards. */
mrd_err mrd_transport_link(const mrd_link_options *options, mrd_transport **ret_transport,
                           mrd_why *why);

/* Like mrd_transport_link, for a node that may not have a certificate yet. The transport connects
 * only when `changed` has found the certificate's files and `reload` has read them. Borrows the
 * texts. */
mrd_err mrd_transport_link_later(const mrd_link_options *options, mrd_transport **ret_transport,
                                 mrd_why *why);

#endif
