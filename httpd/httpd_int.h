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
    uint64_t stamp; /* of certificate and key when they were read; used by the caller of reload */
    const mrd_http_route *routes;
    size_t n_routes;
    void *self;
    struct MHD_Daemon *daemon;
    struct MHD_Daemon *old[HTTPD_OLD_MAX]; /* daemons before a reload, until their transfers end */
    int listen_fd;
    uint16_t port;
    pthread_mutex_t lock; /* guards the members below and the streams' queues; a leaf lock */
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

/* Why a request is refused by its head alone. */
typedef struct {
    unsigned status;
    const char *code, *title, *detail;
    bool ends; /* the end of its body is unknown, so the connection closes after the answer */
} http_refusal;

struct mrd_http_request {
    mrd_httpd *httpd;
    struct MHD_Connection *connection;
    const char *method;
    char *path;
    char *authority; /* of a target that is a full URL. NULL means use Host */
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
    /* is in the list of suspended requests; guarded by the server's lock, as are the next two */
    bool suspended;
    mrd_http_request *next, **link;
    mrd_local_ns wake_at; /* when a suspended request resumes without a wake */
    /* deadline of waiting for identification. 0 means it never waited for that */
    mrd_local_ns hold_end;
    mrd_local_ns waits_since; /* first wait for an answer. 0 means none */
    http_stream *stream;      /* it waits for the first bytes of this stream */
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
/* Removes and frees the headers of a reply that was not sent. */
void mrd_httpd_drop_headers(mrd_http_request *req);
mrd_err mrd_httpd_reply_empty(mrd_http_request *req, unsigned status);
/* Requests the end of every producer and resumes every suspended connection. Returns true while a
 * producer still runs. Lock held. */
bool mrd_httpd_streams_end(mrd_httpd *httpd);
/* Replies with the request's stream when its first bytes or its error exist. Otherwise the request
 * waits. */
mrd_err mrd_httpd_stream_begin(mrd_http_request *req);
/* The request ends, so its stream has no reader. */
void mrd_httpd_stream_forget(mrd_http_request *req);
/* Ends the stream of a connection that waits for its first or next bytes. Lock held. */
void mrd_httpd_stream_abandon(mrd_httpd *httpd, struct MHD_Connection *connection);

/* ---- httpd_hold.c ---- */

/* Returns how often mrd_httpd_wake was called. Read it before you check what a request would wait
 * for. */
uint64_t mrd_httpd_wakes(mrd_httpd *httpd);
/* Suspends a request while its sender is being identified, until the next wake or the end of
 * hold_seconds. Returns false when that time is over or the server stops. Server thread only. */
bool mrd_httpd_hold(mrd_http_request *req, uint64_t wakes);
/* Resumes requests without time left, or all. Lock held. */
void mrd_httpd_hold_end(mrd_httpd *httpd, bool all);
/* Removes a request that ends from the list. */
void mrd_httpd_hold_forget(mrd_http_request *req);

/* ---- httpd_watch.c ---- */

typedef enum { CLIENT_HEAD, CLIENT_BODY, CLIENT_REPLY } client_stage;

mrd_err mrd_httpd_watch_start(mrd_httpd *httpd, mrd_why *why);
void mrd_httpd_watch_stop(mrd_httpd *httpd);
/* Callback of the library when a connection begins or ends. */
void mrd_httpd_watch_connection(void *httpd, struct MHD_Connection *connection, void **socket,
                                enum MHD_ConnectionNotificationCode code);
/* The connection's exchange reached this stage. */
void mrd_httpd_watch_stage(mrd_httpd *httpd, struct MHD_Connection *connection, client_stage stage);

#endif
