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
    const char *path; /* "/api/v1/sessions/{id}/stop": {x} is one component, {x*} (last) the rest */
    mrd_action action; /* the right that the caller needs */
    /* Replies through mrd_http_reply_*, or returns an error, which becomes problem+json with why's
     * text. */
    mrd_err (*handle)(void *self, mrd_http_request *req, mrd_why *why);
    const char *summary;      /* as in docs/reference/openapi.json */
    const char *const *query; /* known query parameters, NULL-terminated. NULL means not checked */
} mrd_http_route;

typedef struct {
    const char *address;    /* "127.0.0.1", "::1", "0.0.0.0" */
    uint16_t port;          /* 0: any free port, see mrd_httpd_port */
    const char *cert, *key; /* PEM files for TLS. NULL means plain HTTP */
    /*
     * Identifies the holder of a token ("" if none); called with the handlers' `self`. NULL: all
     * callers have all rights (loopback, --insecure). Must not block. Errors, with a text for the
     * caller: AUTH, AGAIN (unknown at present, 503), BUSY (a server is being asked and
     * mrd_httpd_wake will be called). A BUSY request is held for at most hold_seconds (then 503),
     * and identified again after the wake. `peer` is a hash of the client's address, for IPv6 of
     * its network.
     */
    mrd_err (*identify)(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller,
                        mrd_why *why);
    /* without identify: host names that requests may use in addition to addresses and localhost,
     * separated by commas. NULL means none. Borrowed */
    const char *names;
    unsigned hold_seconds;    /* 0: 10 */
    unsigned max_connections; /* 0: 512 */
    unsigned max_streams;     /* concurrent streams. 0 means 8 */
    /* time limit for a request's head, and twice that for its body; a reader must take 1 KiB/s
     * over this time. 0 means 30 */
    unsigned idle_seconds;
} mrd_httpd_options;

/* Borrows routes and self until stop. Errors: INVALID (address, PEM), BUSY (port in use), NOMEM. */
mrd_err mrd_httpd_start(const mrd_httpd_options *options, const mrd_http_route *routes, size_t n,
                        void *self, mrd_httpd **ret_httpd, mrd_why *why);
void mrd_httpd_stop(mrd_httpd *httpd); /* cancels streams; NULL is fine */
uint16_t mrd_httpd_port(const mrd_httpd *httpd);
/* Reads certificate and key again. Running transfers continue. On errors the old files stay in use. */
mrd_err mrd_httpd_reload(mrd_httpd *httpd, mrd_why *why);
/* A caller was identified, or an answer was made: all waiting requests check again. Any thread,
 * until stop. */
void mrd_httpd_wake(mrd_httpd *httpd);
/* Returns true if certificate or key differs from what was last read without error. */
bool mrd_httpd_changed(mrd_httpd *httpd);
/* Gets the next message about a failed TLS connection. Returns false if there is none. */
bool mrd_httpd_next_error(mrd_httpd *httpd, mrd_why *ret_why);

typedef struct {
    uint64_t requests, errors, unauthorised, streams, cancelled, slow_clients, bytes;
    unsigned connections, streams_now;
} mrd_httpd_counts;
void mrd_httpd_count(mrd_httpd *httpd, mrd_httpd_counts *ret_counts); /* any thread */

/* ---- The request; all views borrow until the reply ---- */

mrd_str mrd_http_param(const mrd_http_request *req,
                       const char *name); /* {name} of the route, decoded */
const char *mrd_http_query(mrd_http_request *req, const char *name); /* decoded, NULL if absent */
/* Gets the comma-separated words of a query parameter. Errors: NOMEM. */
mrd_err mrd_http_query_list(mrd_http_request *req, const char *name, mrd_strlist *list,
                            mrd_why *why);
const char *mrd_http_header(mrd_http_request *req, const char *name);
const mrd_caller *mrd_http_caller(const mrd_http_request *req);
mrd_action mrd_http_action(const mrd_http_request *req); /* of its route */
/* Returns true if the route's action is allowed for the caller on that session. */
bool mrd_http_may(const mrd_http_request *req, const mrd_ownership *session);
/* Parses the body as a JSON object. An empty body is an empty object. Errors: SYNTAX, TYPE. */
mrd_err mrd_http_json(const mrd_http_request *req, mrd_json **ret_doc, mrd_why *why);

/* ---- Waiting, if another thread makes the answer ---- */

/* Returns how often mrd_httpd_wake was called. Read it before you check whether the answer exists. */
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
/* A handler that replies "ok" while requests are answered. Does not use self. */
mrd_err mrd_http_reply_alive(void *self, mrd_http_request *req, mrd_why *why);
/* Replies with bytes that outlive the server (embedded pages). */
mrd_err mrd_http_reply_static(mrd_http_request *req, const char *type, const char *etag,
                              mrd_bytes body);
/*
 * Replies with a file: Content-Length, ETag (from its identity, size, time and encoding), single
 * ranges (several are ignored), If-None-Match, If-Match, If-Range. If-Modified-Since is not used.
 * `download` names the attachment; NULL shows the file inline. Compresses with gzip or zstd if the
 * client accepts it, requests no range, and the type is worth it. Errors: NOTFOUND, IO.
 */
mrd_err mrd_http_reply_file(mrd_http_request *req, const char *path, const char *type,
                            const char *download, mrd_why *why);
/*
 * Replies with the bytes that `produce` writes to its mrd_out, as they come (chunked), compressed
 * if the client accepts it. When the client disconnects, writing fails with CANCELLED and `produce`
 * should return soon. `done` (may be NULL) frees self in every case. Errors: BUSY if max_streams
 * are running.
 */
mrd_err mrd_http_reply_stream(mrd_http_request *req, const char *type, const char *download,
                              mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why),
                              void (*done)(void *self), void *self, mrd_why *why);
/* For a producer, on its own thread, that had nothing to write for a while: returns false if the
 * client disconnected. */
bool mrd_http_stream_wanted(void);
/* Adds a header to the following reply. */
void mrd_http_set_header(mrd_http_request *req, const char *name, const char *value);

#endif
