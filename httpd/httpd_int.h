/*
 * httpd/httpd_int.h - internals of the HTTP server: httpd.c (requests, routing, start and
 * stop), httpd_hold.c (requests that wait for another thread), httpd_reply.c (replies, files,
 * streams), httpd_watch.c (slow clients). Only these four use libmicrohttpd.
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
    /* state of the certificate and key files when they were read, to detect changes; used only by
     * the caller of mrd_httpd_reload */
    uint64_t stamp;
    const mrd_http_route *routes;
    size_t n_routes;
    void *self;
    struct MHD_Daemon *daemon;
    /* daemons that a reload replaced; they run until their transfers end */
    struct MHD_Daemon *old[HTTPD_OLD_MAX];
    int listen_fd;
    uint16_t port;
    /* guards the members below and the streams' queues; no other lock is taken under it */
    pthread_mutex_t lock;
    mrd_httpd_counts counts;
    size_t bodies; /* bytes of stored request bodies */
    http_stream *streams;
    http_client *clients;
    mrd_http_request *held; /* suspended */
    uint64_t wakes;         /* calls of mrd_httpd_wake */
    bool stopping;
    pthread_t watcher;
    pthread_cond_t watch; /* stopping */
    bool watching;
    mrd_error_list errors; /* with TLS; has its own lock */
};

/* A reason to refuse a request after its head. */
typedef struct {
    unsigned status;
    const char *code, *title, *detail;
    /* the end of the request's body is unknown, so the connection is closed after the answer */
    bool ends;
} http_refusal;

struct mrd_http_request {
    mrd_httpd *httpd;
    struct MHD_Connection *connection;
    const char *method;
    char *path;
    /* host and port of a target that is a full URL; NULL means that the Host field counts */
    char *authority;
    const mrd_http_route *route;
    http_params params;
    mrd_caller caller;
    char reason[MRD_WHY_MAX]; /* why the caller is not identified */
    mrd_buf body;
    const http_refusal *refusal; /* NULL: it is let in */
    mrd_buf allow;               /* methods of a path, for OPTIONS and 405 */
    size_t discarded;            /* bytes of a body that is not stored */
    bool replied;
    bool was_held; /* it was held and not checked since */
    /* the request is in the list of suspended requests; guarded by the server's lock, as are the
     * next two members */
    bool suspended;
    mrd_http_request *next, **link;
    mrd_local_ns wake_at; /* when the suspended request resumes if there is no wake */
    /* until when the request may wait for its caller's identification; 0 means that it has not
     * waited for it */
    mrd_local_ns hold_end;
    mrd_local_ns waits_since; /* first wait for an answer. 0 means none */
    http_stream *stream;      /* the request waits for the first bytes of this stream */
    struct {
        char *name, *value;
    } headers[HTTPD_HEADERS_MAX];
    size_t n_headers;
    enum MHD_Result queued;
};

/* ---- httpd_reply.c ---- */

#define HTTPD_PAGE_ORIGIN "https://ui.perfetto.dev" /* a page of this origin may read replies */

mrd_err mrd_httpd_reply_problem(mrd_http_request *req, unsigned status, const char *code,
                                const char *title, const char *detail);
mrd_err mrd_httpd_reply_error(mrd_http_request *req, mrd_err err, const mrd_why *why);
/* Frees the headers that were added for a reply that is not sent. */
void mrd_httpd_drop_headers(mrd_http_request *req);
mrd_err mrd_httpd_reply_empty(mrd_http_request *req, unsigned status);
/* Tells every producer of a stream to end, and resumes all suspended connections. Returns true
 * while a producer still runs. The caller holds the lock. */
bool mrd_httpd_streams_end(mrd_httpd *httpd);
/* Replies with the request's stream if its first bytes or its error exist. Otherwise the request
 * waits. */
mrd_err mrd_httpd_stream_begin(mrd_http_request *req);
/* Detaches the stream from its request, which ends. */
void mrd_httpd_stream_forget(mrd_http_request *req);
/* Ends the stream of a connection that waits for bytes. The caller holds the lock. */
void mrd_httpd_stream_abandon(mrd_httpd *httpd, struct MHD_Connection *connection);

/* ---- httpd_hold.c ---- */

/* Returns how often mrd_httpd_wake was called. Read it before you check the condition for which a
 * request would wait. */
uint64_t mrd_httpd_wakes(mrd_httpd *httpd);
/* Suspends a request while its caller is being identified, until the next wake or for hold_seconds.
 * Returns false when this time is over or the server stops. Only for the server thread. */
bool mrd_httpd_hold(mrd_http_request *req, uint64_t wakes);
/* Resumes suspended requests after their waiting time, or with `all` every one. The caller holds
 * the lock. */
void mrd_httpd_hold_end(mrd_httpd *httpd, bool all);
/* Removes a request that ends from the list of suspended requests. */
void mrd_httpd_hold_forget(mrd_http_request *req);

/* ---- httpd_watch.c ---- */

typedef enum { CLIENT_HEAD, CLIENT_BODY, CLIENT_REPLY } client_stage;

mrd_err mrd_httpd_watch_start(mrd_httpd *httpd, mrd_why *why);
void mrd_httpd_watch_stop(mrd_httpd *httpd);
/* Callback of libmicrohttpd for the begin and end of a connection. */
void mrd_httpd_watch_connection(void *httpd, struct MHD_Connection *connection, void **socket,
                                enum MHD_ConnectionNotificationCode code);
/* Notes the stage of the connection's current request. Each stage has its own time limit. */
void mrd_httpd_watch_stage(mrd_httpd *httpd, struct MHD_Connection *connection, client_stage stage);

#endif
