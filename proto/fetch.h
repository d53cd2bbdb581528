/*
 * proto/fetch.h - one short exchange with a server that proves who somebody is: an answer of
 * bounded size in bounded time, redirections not followed. It blocks: for threads of their own.
 *
 * Threads: any.
 */
#ifndef MRD_PROTO_FETCH_H
#define MRD_PROTO_FETCH_H

#include <stdatomic.h>

#include "base/buf.h"

typedef struct {
    const char *url;
    const char *ca_file;        /* NULL: the system's authorities */
    const char *bearer_file;    /* read again each time, as it may change; NULL: none is sent */
    const char *json;           /* what is posted; NULL: GET */
    size_t max;                 /* bytes of an answer */
    unsigned seconds;           /* for all of it */
    const atomic_bool *stopped; /* ends it early; may be NULL */
} mrd_fetch_request;

/*
 * The answer is appended, whatever its status. Errors, which contain neither what is posted nor the
 * bearer's text: NET; LIMIT (longer than max); CANCELLED; those of the files; NOMEM.
 */
mrd_err mrd_fetch(const mrd_fetch_request *request, mrd_buf *to, unsigned *ret_status,
                  mrd_why *why);
/* Whether such a server's address is one that nobody on the way can answer for: https, or http to
 * this machine. */
bool mrd_fetch_url_safe(const char *url);

#endif
