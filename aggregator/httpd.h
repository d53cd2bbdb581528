/*
 * aggregator/httpd.h - the HTTP server below the aggregator's API: routing by a table, roles, JSON
 * and problem replies, files with ranges and ETags, streams produced by a worker in bounded memory.
 * libmicrohttpd lives in httpd*.c only. What the paths mean is aggregator/http.h and docs/http.md.
 *
 * Threads  one server thread runs the handlers: they must not block for long. A stream's producer
 *          runs in a thread of its own and may. Everything of a request belongs to the server
 *          thread. Another thread ends connections whose request does not come or whose reply is
 *          hardly read (idle_seconds).
 *
 * Limits   MRD_HTTP_BODY_MAX for a body, 16 MiB for all, 32 KiB for a request's head, options for
 *          connections and streams; more is refused, never given memory.
 */
#ifndef MRD_AGGREGATOR_HTTPD_H
#define MRD_AGGREGATOR_HTTPD_H

#include "aggregator/rights.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/out.h"

#define MRD_HTTP_BODY_MAX (1u << 20)

typedef struct mrd_httpd mrd_httpd;
typedef struct mrd_http_request mrd_http_request;

typedef struct {
    const char *method; /* "GET" also answers HEAD */
    const char *path; /* "/api/v1/sessions/{id}/stop": {x} is one component, {x*} (last) the rest */
    mrd_action action; /* what the caller must be allowed to do */
    /* Replies through mrd_http_reply_*, or returns an error, which becomes problem+json with why's
     * text. */
    mrd_err (*handle)(void *self, mrd_http_request *req, mrd_why *why);
    const char *summary;      /* that of docs/openapi.json */
    const char *const *query; /* known query parameters, NULL-terminated; NULL: not looked at */
} mrd_http_route;

typedef struct {
    const char *address;    /* "127.0.0.1", "::1", "0.0.0.0" */
    uint16_t port;          /* 0: any free one, see mrd_httpd_port */
    const char *cert, *key; /* PEM files: TLS; NULL: plain */
    /*
     * Who holds the token, "" none; handed the handlers' self. NULL: everybody may do everything
     * (loopback, --insecure). Must not block. Errors, with a text for the caller: AUTH; AGAIN: it is not
     * known now (503); BUSY: somebody is being asked and mrd_httpd_wake will be called: the request
     * is held for so long, at most hold_seconds (then 503), and it is asked again. peer: a hash of
     * the client's address, of IPv6 of its network.
     */
    mrd_err (*identify)(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller,
                        mrd_why *why);
    const char *names;     /* without identify: hosts that requests may ask for, by commas, besides
                                 addresses and localhost; NULL: none. Borrowed */
    unsigned hold_seconds; /* 0: 10 */
    unsigned max_connections; /* 0: 512 */
    unsigned max_streams;     /* merges at one time; 0: 8 */
    unsigned idle_seconds;    /* for a request's head, twice that for its body; a reader must take
                                 1 KiB/s over it; 0: 30 */
} mrd_httpd_options;

/* Borrows routes and self until stop. Errors: INVALID (address, PEM), BUSY (port in use), NOMEM. */
mrd_err mrd_httpd_start(const mrd_httpd_options *options, const mrd_http_route *routes, size_t n,
                        void *self, mrd_httpd **ret_httpd, mrd_why *why);
void mrd_httpd_stop(mrd_httpd *httpd); /* cancels streams; NULL is fine */
uint16_t mrd_httpd_port(const mrd_httpd *httpd);
/* Reads certificate and key again; running transfers go on. Errors leave the old ones in place. */
mrd_err mrd_httpd_reload(mrd_httpd *httpd, mrd_why *why);
/* Somebody was identified, or an answer was made: all requests that wait look again. Any thread, until
 * stop. */
void mrd_httpd_wake(mrd_httpd *httpd);
/* True when one of the two is not what was last read with success. */
bool mrd_httpd_changed(mrd_httpd *httpd);
/* The next message about a TLS connection that failed; false when there is none. */
bool mrd_httpd_next_error(mrd_httpd *httpd, mrd_why *ret_why);

typedef struct {
    uint64_t requests, errors, unauthorised, streams, cancelled, slow_clients, bytes;
    unsigned connections, streams_now;
} mrd_httpd_counts;
void mrd_httpd_count(mrd_httpd *httpd, mrd_httpd_counts *ret_counts); /* any thread */

/* ---- Of a request; all views borrow until the reply ---- */

mrd_str mrd_http_param(const mrd_http_request *req,
                       const char *name); /* {name} of the route, decoded */
const char *mrd_http_query(mrd_http_request *req, const char *name); /* decoded, NULL when absent */
/* Each comma separated word of a query parameter. Errors: NOMEM. */
mrd_err mrd_http_query_list(mrd_http_request *req, const char *name, mrd_strlist *list,
                            mrd_why *why);
const char *mrd_http_header(mrd_http_request *req, const char *name);
const mrd_caller *mrd_http_caller(const mrd_http_request *req);
mrd_action mrd_http_action(const mrd_http_request *req); /* of its route */
/* Whether the caller may do to that session what the route does. */
bool mrd_http_may(const mrd_http_request *req, const mrd_ownership *session);
/* The body as a JSON object; an empty body is an empty object. Errors: SYNTAX, TYPE. */
mrd_err mrd_http_json(const mrd_http_request *req, mrd_json **ret_doc, mrd_why *why);

/* ---- Waiting: for a handler whose answer another thread makes ---- */

/* How often mrd_httpd_wake was called. Read it before looking whether the answer is there. */
uint64_t mrd_http_wakes(const mrd_http_request *req);
/* Suspends the request until there are more wakes than these; then its handler is called again. The
 * handler returns MRD_OK without a reply. Returns false when the server stops, or when the request has
 * waited for at_most since its first wait (0: no limit). */
bool mrd_http_wait(mrd_http_request *req, uint64_t wakes, mrd_dur_ns at_most);
bool mrd_http_has_waited(const mrd_http_request *req);

/* ---- Replies: exactly one per request, unless it waits ---- */

mrd_err mrd_http_reply_json(mrd_http_request *req, unsigned status, mrd_json *doc); /* takes doc */
mrd_err mrd_http_reply_text(mrd_http_request *req, unsigned status, const char *type,
                            mrd_buf *body); /* takes the bytes */
/* A route: "ok", as long as requests are answered; self is not used. */
mrd_err mrd_http_reply_alive(void *self, mrd_http_request *req, mrd_why *why);
/* Bytes that outlive the server (embedded pages). */
mrd_err mrd_http_reply_static(mrd_http_request *req, const char *type, const char *etag,
                              mrd_bytes body);
/*
 * A file: Content-Length, ETag (from its identity, size, time and encoding), single ranges (several
 * are ignored), If-None-Match, If-Match, If-Range; If-Modified-Since is not used. download names
 * the attachment, NULL shows it inline. gzip or zstd on the fly when the client accepts it, asks
 * for no range, and the type is worth it. Errors: NOTFOUND, IO.
 */
mrd_err mrd_http_reply_file(mrd_http_request *req, const char *path, const char *type,
                            const char *download, mrd_why *why);
/*
 * Whatever produce writes into its mrd_out, as it comes (chunked), compressed when the client
 * accepts that. When the client leaves, writing
 * fails with CANCELLED and produce should return soon. done (may be NULL) frees self in every case.
 * Errors: BUSY when max_streams run already.
 */
mrd_err mrd_http_reply_stream(mrd_http_request *req, const char *type, const char *download,
                              mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why),
                              void (*done)(void *self), void *self, mrd_why *why);
/* Asked by a producer in its own thread that has had nothing to write for a while: false when the
 * client has left. */
bool mrd_http_stream_wanted(void);
/* Adds a header to the reply that follows. */
void mrd_http_set_header(mrd_http_request *req, const char *name, const char *value);

#endif
