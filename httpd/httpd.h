/*
 * httpd/httpd.h - the HTTP server below the aggregator's API. It has routing by a table,
 * roles, JSON and problem replies, files with ranges and ETags, and streams that a worker
 * produces in bounded memory. Only httpd*.c use libmicrohttpd. aggregator/api/http.h and
 * docs/reference/http.md describe the paths.
 *
 * Threads  one server thread runs the handlers, which must not block for long. The producer of a
 *          stream runs in a thread of its own and may block. All data of a request belongs to the
 *          server thread. Another thread closes connections if the request does not arrive or the
 *          reply is read too slowly (idle_seconds).
 *
 * Limits   MRD_HTTP_BODY_MAX for a body, 16 MiB for all bodies, 32 KiB for a request's head, and
 *          options for connections and streams. A request beyond a limit is refused.
 */
#ifndef MRD_HTTPD_HTTPD_H
#define MRD_HTTPD_HTTPD_H

#include "aggregator/access/rights.h"
#include "base/clock.h"
#include "base/conf/json.h"
#include "base/sys/out.h"

#define MRD_HTTP_BODY_MAX (1u << 20)

typedef struct mrd_httpd mrd_httpd;
typedef struct mrd_http_request mrd_http_request;

typedef struct {
    const char *method; /* "GET" also answers HEAD */
    /* for example "/api/v1/sessions/{id}/stop"; {x} is one component, {x*} is the rest of the
     * path */
    const char *path;
    mrd_action action; /* the right that the caller needs */
    /* Replies with one of mrd_http_reply_*, or returns an error. The server then replies with a
     * problem+json that contains why's text. */
    mrd_err (*handle)(void *self, mrd_http_request *req, mrd_why *why);
    const char *summary; /* as in docs/reference/openapi.json */
    /* names of the allowed query parameters, ended by NULL; if this is NULL, parameters are not
     * checked */
    const char *const *query;
} mrd_http_route;

typedef struct {
    const char *address;    /* "127.0.0.1", "::1", "0.0.0.0" */
    uint16_t port;          /* 0: any free port, see mrd_httpd_port */
    const char *cert, *key; /* paths of PEM files for TLS; NULL means plain HTTP */
    /*
     * Identifies the holder of a token, which is "" if the request has none. It is called with the
     * handlers' `self` and must not block. If it is NULL, all callers have all rights (loopback,
     * --insecure). Errors, with a text for the caller: AUTH, AGAIN (cannot be decided now, 503),
     * BUSY (another server is being asked, and mrd_httpd_wake will be called). After BUSY, the
     * request is held until the wake and its caller identified again. After hold_seconds it is
     * refused with 503. `peer` is a hash of the client's address, for IPv6 of its network.
     */
    mrd_err (*identify)(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller,
                        mrd_why *why);
    /* host names that requests may use besides addresses and localhost, separated by commas, if
     * `identify` is NULL. NULL means none. Borrowed */
    const char *names;
    unsigned hold_seconds;    /* 0: 10 */
    unsigned max_connections; /* 0: 512 */
    unsigned max_streams;     /* concurrent streams. 0 means 8 */
    /* time limit in seconds for a request's head; a body may take twice this time. The reader of a
     * reply must take 1 KiB/s on average over this time. 0 means 30 */
    unsigned idle_seconds;
} mrd_httpd_options;

/* Starts the server. Borrows routes and self until mrd_httpd_stop. Errors: INVALID (address, PEM),
 * BUSY (the port is in use), NOMEM. */
mrd_err mrd_httpd_start(const mrd_httpd_options *options, const mrd_http_route *routes, size_t n,
                        void *self, mrd_httpd **ret_httpd, mrd_why *why);
void mrd_httpd_stop(mrd_httpd *httpd); /* cancels streams; NULL is fine */
uint16_t mrd_httpd_port(const mrd_httpd *httpd);
/* Reads certificate and key again. Running transfers continue. On errors the previous certificate
 * stays in use. */
mrd_err mrd_httpd_reload(mrd_httpd *httpd, mrd_why *why);
/* Makes all waiting requests check again whether they can continue. Call it after a caller was
 * identified or an answer was made. Any thread, until stop. */
void mrd_httpd_wake(mrd_httpd *httpd);
/* Returns true if the file of the certificate or the key differs from the version last read without
 * error. */
bool mrd_httpd_changed(mrd_httpd *httpd);
/* Gets the next message about a failed TLS connection. Returns false if there is none. */
bool mrd_httpd_next_error(mrd_httpd *httpd, mrd_why *ret_why);

typedef struct {
    uint64_t requests, errors, unauthorised, streams, cancelled, slow_clients, bytes;
    unsigned connections, streams_now;
} mrd_httpd_counts;
void mrd_httpd_count(mrd_httpd *httpd, mrd_httpd_counts *ret_counts); /* any thread */

/* ---- The request; all returned texts are valid until the reply ---- */

mrd_str mrd_http_param(const mrd_http_request *req,
                       const char *name); /* {name} of the route, decoded */
const char *mrd_http_query(mrd_http_request *req, const char *name); /* decoded, NULL if absent */
/* Gets the comma-separated words of a query parameter. Errors: NOMEM. */
mrd_err mrd_http_query_list(mrd_http_request *req, const char *name, mrd_strlist *list,
                            mrd_why *why);
const char *mrd_http_header(mrd_http_request *req, const char *name);
const mrd_caller *mrd_http_caller(const mrd_http_request *req);
mrd_action mrd_http_action(const mrd_http_request *req); /* of its route */
/* Returns true if the caller may do the route's action on that session. */
bool mrd_http_may(const mrd_http_request *req, const mrd_ownership *session);
/* Parses the body as a JSON object. An empty body is an empty object. Errors: SYNTAX, TYPE. */
mrd_err mrd_http_json(const mrd_http_request *req, mrd_json **ret_doc, mrd_why *why);

/* ---- Waiting for an answer that another thread makes ---- */

/* Returns how often mrd_httpd_wake was called. Read it before you check whether the answer
 * exists. */
uint64_t mrd_http_wakes(const mrd_http_request *req);
/* Suspends the request until mrd_http_wakes exceeds `wakes`. Then its handler is called again. The
 * calling handler returns MRD_OK without a reply. Returns false when the server stops, or when the
 * request has waited for at_most since its first wait (0: no limit). */
bool mrd_http_wait(mrd_http_request *req, uint64_t wakes, mrd_dur_ns at_most);
bool mrd_http_has_waited(const mrd_http_request *req);

/* ---- Replies: a handler makes exactly one, unless its request waits ---- */

mrd_err mrd_http_reply_json(mrd_http_request *req, unsigned status, mrd_json *doc); /* takes doc */
mrd_err mrd_http_reply_text(mrd_http_request *req, unsigned status, const char *type,
                            mrd_buf *body); /* takes the bytes */
/* A handler that always replies "ok", which shows that the server works. It does not use self. */
mrd_err mrd_http_reply_alive(void *self, mrd_http_request *req, mrd_why *why);
/* Replies with bytes that outlive the server, for example an embedded page. */
mrd_err mrd_http_reply_static(mrd_http_request *req, const char *type, const char *etag,
                              mrd_bytes body);
/*
 * Replies with a file. Supports ETag (made from the file's identity, size, time and encoding),
 * If-None-Match, If-Match, If-Range and single ranges. Several ranges in one request and
 * If-Modified-Since are ignored. `download` is the file name of an attachment; NULL shows the file
 * inline. Compresses with gzip or zstd if the client accepts it, requests no range, and the type of
 * the file compresses well. Errors: NOTFOUND, IO.
 */
mrd_err mrd_http_reply_file(mrd_http_request *req, const char *path, const char *type,
                            const char *download, mrd_why *why);
/*
 * Replies with the bytes that `produce` writes to its mrd_out. They are sent while they are being
 * produced (chunked), and compressed if the client accepts it. When the client disconnects, writing
 * fails with CANCELLED, and `produce` should return soon. `done` (may be NULL) frees self in every
 * case. Errors: BUSY if max_streams are running.
 */
mrd_err mrd_http_reply_stream(mrd_http_request *req, const char *type, const char *download,
                              mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why),
                              void (*done)(void *self), void *self, mrd_why *why);
/* Called by a producer that had nothing to write for a while, on its own thread. Returns false if
 * the client disconnected. */
bool mrd_http_stream_wanted(void);
/* Adds a header to the following reply. */
void mrd_http_set_header(mrd_http_request *req, const char *name, const char *value);

#endif
