/*
 * httpd/httpd_int.h - internals of the HTTP server. Only these four files use libmicrohttpd:
 *
 * httpd.c         requests, routing, start and stop
 * httpd_hold.c    requests that wait for another thread
 * httpd_reply.c   replies, files, streams
 * httpd_watch.c   slow clients
 */
#ifndef MRD_HTTPD_HTTPD_INT_H
#define MRD_HTTPD_HTTPD_INT_H

#include <pthread.h>

#include <microhttpd.h>

#include "base/error_list.h"
#include "httpd/http_parse.h"
#include "httpd/httpd.h"

enum { HTTPD_HEADERS_MAX = 16, HTTPD_OLD_MAX = 4 };

typedef struct http_stream http_stream;
typedef struct http_client http_client;

struct mrd_httpd {
    uint32_t magic;
    mrd_httpd_options options;
    char *cert_path, *key_path;
    /* hash of the state of the certificate and key files when they were read, to detect changes;
     * only mrd_httpd_reload and mrd_httpd_changed use it */
    uint64_t stamp;
    const mrd_http_route *routes;
    size_t n_routes;
    void *self;
    struct MHD_Daemon *daemon;
    /* daemons that a reload replaced; each runs until its last transfer ends */
    struct MHD_Daemon *old[HTTPD_OLD_MAX];
    int listen_fd;
    uint16_t port;
    /* guards the members below and the streams' queues; no other lock is taken under it */
    pthread_mutex_t lock;
    mrd_httpd_counts counts;
    size_t bodies; /* bytes of stored request bodies */
    http_stream *streams;
    http_client *clients;
    mrd_http_request *held; /* list of suspended requests */
    uint64_t wakes;         /* number of calls of mrd_httpd_wake */
    bool stopping;
    pthread_t watcher;
    pthread_cond_t watch; /* signalled when the server is stopping */
    bool watching;
    mrd_error_list errors; /* errors of TLS connections; the list has its own lock */
};

/* How the server refuses a request after reading its head. */
typedef struct {
    unsigned status;
    const char *code, *title, *detail;
    /* close the connection after the answer, because the end of the request's body is unknown */
    bool ends;
} http_refusal;

struct mrd_http_request {
    mrd_httpd *httpd;
    struct MHD_Connection *connection;
    const char *method;
    char *path;
    /* host and port of a target that is a full URL; if NULL, the Host field has them */
    char *authority;
    const mrd_http_route *route;
    http_params params;
    mrd_caller caller;
    char reason[MRD_WHY_MAX]; /* why the caller could not be identified */
    mrd_buf body;
    const http_refusal *refusal; /* reason to refuse the request; NULL if it is accepted */
    mrd_buf allow;               /* methods of a path, for OPTIONS and 405 */
    size_t discarded;            /* bytes of the body that were received and not stored */
    bool replied;
    bool was_held; /* the request was suspended, and has not been checked again since */
    /* the request is in the list httpd.held; the lock guards this and the next two members */
    bool suspended;
    mrd_http_request *next, **link;
    /* time at which the request resumes if mrd_httpd_wake is not called earlier */
    mrd_local_ns wake_at;
    /* time until which the request may wait for the identification of its caller; 0 if the request
     * has not waited for that */
    mrd_local_ns hold_end;
    mrd_local_ns waits_since; /* when the request first waited for an answer; 0 means never */
    http_stream *stream; /* the request waits for the first bytes of this stream, if not NULL */
    struct {
        char *name, *value;
    } headers[HTTPD_HEADERS_MAX];
    size_t n_headers;
    enum MHD_Result queued;
};

/* ---- httpd_reply.c ---- */

#define HTTPD_PAGE_ORIGIN "https://ui.perfetto.dev" /* pages of this origin may read replies */

mrd_err mrd_httpd_reply_problem(mrd_http_request *req, unsigned status, const char *code,
                                const char *title, const char *detail);
mrd_err mrd_httpd_reply_error(mrd_http_request *req, mrd_err err, const mrd_why *why);
/* Frees the headers that mrd_http_set_header has added for a reply that will not be sent. */
void mrd_httpd_drop_headers(mrd_http_request *req);
mrd_err mrd_httpd_reply_empty(mrd_http_request *req, unsigned status);
/* Cancels all streams, so that their producers end, and resumes all suspended connections. Returns
 * true while a producer still runs. The caller holds the lock. */
bool mrd_httpd_streams_end(mrd_httpd *httpd);
/* Replies with the request's stream if the producer has written its first bytes or has returned.
 * Otherwise suspends the request until then. */
mrd_err mrd_httpd_stream_begin(mrd_http_request *req);
/* Detaches the stream from its request, which is about to be freed. */
void mrd_httpd_stream_forget(mrd_http_request *req);
/* Cancels the stream that the connection waits for. The caller holds the lock. */
void mrd_httpd_stream_abandon(mrd_httpd *httpd, struct MHD_Connection *connection);

/* ---- httpd_hold.c ---- */

/* Returns the number of calls of mrd_httpd_wake. Read it before you check the condition for which a
 * request would wait, so that no wake is missed. */
uint64_t mrd_httpd_wakes(mrd_httpd *httpd);
/* Suspends a request while its caller is being identified, until the next mrd_httpd_wake. Returns
 * false if it has waited for hold_seconds in total, or if the server is stopping. Only the server
 * thread may call it. */
bool mrd_httpd_hold(mrd_http_request *req, uint64_t wakes);
/* Resumes the suspended requests that have waited long enough, or with `all` every suspended
 * request. The caller holds the lock. */
void mrd_httpd_hold_end(mrd_httpd *httpd, bool all);
/* Removes a request that is about to be freed from the list of suspended requests. */
void mrd_httpd_hold_forget(mrd_http_request *req);

/* ---- httpd_watch.c ---- */

typedef enum { CLIENT_HEAD, CLIENT_BODY, CLIENT_REPLY } client_stage;

mrd_err mrd_httpd_watch_start(mrd_httpd *httpd, mrd_why *why);
void mrd_httpd_watch_stop(mrd_httpd *httpd);
/* Handles a new or closed connection. libmicrohttpd calls it. */
void mrd_httpd_watch_connection(void *httpd, struct MHD_Connection *connection, void **socket,
                                enum MHD_ConnectionNotificationCode code);
/* Sets the stage of the connection's current request. Each stage has a time limit of its own. */
void mrd_httpd_watch_stage(mrd_httpd *httpd, struct MHD_Connection *connection, client_stage stage);

#endif
