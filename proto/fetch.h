/*
 * proto/fetch.h - sends one HTTP request, for example to a server that verifies identities, and
 * waits for the answer.
 *
 * Size and duration of the answer are limited, and redirections are not followed. The call blocks,
 * so it needs its own thread. Any thread may call these functions.
 */
#ifndef MRD_PROTO_FETCH_H
#define MRD_PROTO_FETCH_H

#include <stdatomic.h>

#include "base/buf.h"

typedef struct {
    const char *url;
    /* PEM file of certificate authorities, or NULL for the system's authorities */
    const char *ca_file;
    /* File with a bearer token, or NULL to send no token. It is read again for each request,
     * because the token may change. */
    const char *bearer_file;
    const char *json;           /* body of a POST; NULL for a GET */
    size_t max;                 /* maximum size of the answer's body in bytes */
    unsigned seconds;           /* maximum duration of the whole exchange in seconds */
    const atomic_bool *stopped; /* set it to cancel the request; may be NULL */
} mrd_fetch_request;

/*
 * Sends a request and appends the body of the answer to `to`, whatever its HTTP status. Errors:
 * NET, LIMIT (body longer than max), CANCELLED, NOMEM, and errors of reading the files. Error
 * messages contain neither the body nor the token.
 */
mrd_err mrd_fetch(const mrd_fetch_request *request, mrd_buf *to, unsigned *ret_status,
                  mrd_why *why);
/* Returns whether a connection to this URL is safe from interception by others in the network. This
 * is the case for https, and for http to this machine. */
bool mrd_fetch_url_safe(const char *url);

#endif
