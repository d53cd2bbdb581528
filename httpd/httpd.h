/*
 * httpd/httpd.h - the HTTP server below the aggregator's API.
 *
 * It provides a table of routes, roles, JSON and problem replies, files with ranges and ETags, and
 * streams. A stream is a reply that a separate thread produces in bounded memory. Only
 * httpd*.c use libmicrohttpd. aggregator/api/http.h and docs/reference/http.md describe the paths.
 *
 * Threads  one server thread runs the handlers, which must not block for long. The producer of a
 *          stream runs in a thread of its own and may block. All data of a request belongs to the
 *          server thread. Another thread closes a connection if its request arrives too slowly or
 *          its reply is read too slowly (idle_seconds).
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
    const char *method; /* a "GET" route also answers HEAD */
    /* for example "/api/v1/sessions/{id}/stop"; {x} is one component, {x*} is the rest of the
     * path */
    const char *path;
    mrd_action action; /* the action for which the caller needs a right */
    /* Sends one of the replies mrd_http_reply_*, or returns an error. For an error, the server
     * replies with a problem+json that contains the text of *why. */
    mrd_err (*handle)(void *self, mrd_http_request *req, mrd_why *why);
    const char *summary; /* one line for docs/reference/openapi.json */
    /* names of the allowed query parameters, ended by NULL; if `query` is NULL, all are allowed */
    const char *const *query;
} mrd_http_route;

typedef struct {
    const char *address; /* numeric address to listen on, such as "127.0.0.1", "::1" or "0.0.0.0" */
    uint16_t port;       /* 0 means any free port (mrd_httpd_port) */
    const char *cert, *key; /* paths of PEM files for TLS, or NULL for plain HTTP */
    /*
     * Identifies the caller by its token, which is "" if the request has none. `self` is the same
     * as for handlers, and the function must not block. `peer` is a hash of the client's address,
     * or of its network for IPv6. If `identify` is NULL, all callers have all rights (loopback,
     * --insecure).
     * Errors have a text for the caller:
     *
     * AUTH    The token is not valid.
     * AGAIN   This cannot be decided now. The request is refused with 503.
     * BUSY    Another server has to be asked. The request waits until mrd_httpd_wake, and the
     *         server then calls this again. After hold_seconds it refuses the request with 503.
     */
    mrd_err (*identify)(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller,
                        mrd_why *why);
    /* Host names that requests may use in addition to addresses and localhost, separated by commas.
     * NULL means none. They are used only if `identify` is NULL. Borrowed. */
    const char *names;
    /* maximum time that a request waits for `identify`, in seconds; 0 means 10 */
    unsigned hold_seconds;
    unsigned max_connections; /* 0 means 512 */
    unsigned max_streams;     /* maximum number of concurrent streams; 0 means 8 */
    /* Time limit in seconds for the head of a request. A body may take twice this time. A client
     * that reads a reply must on average read at least 1 KiB/s over this time. 0 means 30. */
    unsigned idle_seconds;
} mrd_httpd_options;

/* Starts the server. `routes` and `self` are borrowed until mrd_httpd_stop. Errors: INVALID
 * (address, PEM), BUSY (the port is in use), NOMEM. */
mrd_err mrd_httpd_start(const mrd_httpd_options *options, const mrd_http_route *routes, size_t n,
                        void *self, mrd_httpd **ret_httpd, mrd_why *why);
void mrd_httpd_stop(mrd_httpd *httpd); /* cancels streams; ignores NULL */
uint16_t mrd_httpd_port(const mrd_httpd *httpd);
/* Reads certificate and key again for new connections. Running transfers continue. After an error
 * the previous certificate stays in use. */
mrd_err mrd_httpd_reload(mrd_httpd *httpd, mrd_why *why);
/* Makes all waiting requests check again whether they can continue. Call it after a caller was
 * identified or an awaited answer became available. Any thread may call it until mrd_httpd_stop. */
void mrd_httpd_wake(mrd_httpd *httpd);
/* Returns true if the file of the certificate or of the key has changed since both were last read
 * successfully. */
bool mrd_httpd_changed(mrd_httpd *httpd);
/* Takes the next message about a failed TLS connection. Returns false if there is none. */
bool mrd_httpd_next_error(mrd_httpd *httpd, mrd_why *ret_why);

typedef struct {
    uint64_t requests, errors, unauthorised, streams, cancelled, slow_clients, bytes;
    unsigned connections, streams_now;
} mrd_httpd_counts;
/* may be called by any thread */
void mrd_httpd_count(mrd_httpd *httpd, mrd_httpd_counts *ret_counts);

/* ---- The request (all returned texts are valid until the reply) ---- */

mrd_str mrd_http_param(const mrd_http_request *req,
                       const char *name); /* value of {name} in the route, decoded */
/* decoded value; NULL if the parameter is absent */
const char *mrd_http_query(mrd_http_request *req, const char *name);
/* Stores the words of a query parameter, which are separated by commas. Errors: NOMEM. */
mrd_err mrd_http_query_list(mrd_http_request *req, const char *name, mrd_strlist *list,
                            mrd_why *why);
const char *mrd_http_header(mrd_http_request *req, const char *name);
const mrd_caller *mrd_http_caller(const mrd_http_request *req);
mrd_action mrd_http_action(const mrd_http_request *req); /* the action of the request's route */
/* Returns true if the caller may perform the action of the request's route on this session. */
bool mrd_http_may(const mrd_http_request *req, const mrd_ownership *session);
/* Parses the body as a JSON object. An empty body is an empty object. Errors: SYNTAX, TYPE. */
mrd_err mrd_http_json(const mrd_http_request *req, mrd_json **ret_doc, mrd_why *why);

/* ---- Waiting for an answer that another thread computes ---- */

/* Returns the number of calls of mrd_httpd_wake. Read it before you check whether the answer
 * exists, so that mrd_http_wait detects a wake in between. */
uint64_t mrd_http_wakes(const mrd_http_request *req);
/* Suspends the request until mrd_http_wakes exceeds `wakes`. The server then calls its handler
 * again. The handler that calls this must return MRD_OK without a reply. Returns false if the
 * server is stopping, or if the request has waited for `at_most` in total (0 means no limit). */
bool mrd_http_wait(mrd_http_request *req, uint64_t wakes, mrd_dur_ns at_most);
bool mrd_http_has_waited(const mrd_http_request *req);

/* ---- Replies (a handler sends exactly one, unless its request waits) ---- */

/* takes ownership of doc */
mrd_err mrd_http_reply_json(mrd_http_request *req, unsigned status, mrd_json *doc);
mrd_err mrd_http_reply_text(mrd_http_request *req, unsigned status, const char *type,
                            mrd_buf *body); /* takes the bytes out of the buffer */
/* A handler that always replies "ok", to show that the server responds. It does not use `self`. */
mrd_err mrd_http_reply_alive(void *self, mrd_http_request *req, mrd_why *why);
/* Replies with `body`, which must exist until the server has stopped, for example an embedded
 * page. */
mrd_err mrd_http_reply_static(mrd_http_request *req, const char *type, const char *etag,
                              mrd_bytes body);
/*
 * Replies with a file. `download` is the name under which a browser saves it, or NULL to show it.
 *
 * The reply has Last-Modified, and an ETag made from the file's identity, size, time and encoding.
 * It honours If-None-Match, If-Match, If-Range and a single range, and ignores several ranges and
 * If-Modified-Since. It is compressed if the client accepts gzip or zstd, requests no range, and
 * the type of the file compresses well. Errors: NOTFOUND, IO.
 */
mrd_err mrd_http_reply_file(mrd_http_request *req, const char *path, const char *type,
                            const char *download, mrd_why *why);
/*
 * Replies with the bytes that `produce` writes to `out`. `produce` runs in a thread of its own.
 * The bytes are sent while they are produced (chunked), and compressed if the client accepts it.
 * After the client has disconnected, writing fails with CANCELLED, and `produce` should return
 * soon. `done`, which may be NULL, frees `self` in every case, even after an error. Errors: BUSY
 * if max_streams are running.
 */
mrd_err mrd_http_reply_stream(mrd_http_request *req, const char *type, const char *download,
                              mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why),
                              void (*done)(void *self), void *self, mrd_why *why);
/* Returns false if the client of the stream that this thread produces has disconnected. A producer
 * calls it when it had nothing to write for a while. */
bool mrd_http_stream_wanted(void);
/* Adds a header to the reply that is sent next. */
void mrd_http_set_header(mrd_http_request *req, const char *name, const char *value);

#endif
