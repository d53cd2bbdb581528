/*
 * httpd/httpd_watch.c - closes connections of slow clients.
 *
 * libmicrohttpd closes connections without any traffic. This module closes connections with very
 * little traffic, for example if a request arrives byte by byte or a reply is read too slowly. It
 * also detects clients that disconnected while their reply is being produced, which libmicrohttpd
 * does not check.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/obj.h"
#include "base/sys/threads.h"
#include "httpd/httpd_int.h"
#include "httpd/https.h"

#define PERIOD_NS (200 * MRD_MS)

enum {
    RATE_MIN = 1024, /* minimum speed in bytes per second at which a client must read a reply */
    /* time limits in seconds while more than three quarters of the connections are in use */
    PRESSED_HEAD = 1, /* for connections that send a request's head or are idle */
    PRESSED_REST = 5, /* for connections that send a body or read a reply */
    /* Values of tcpi_state. They are copied, because the C library's header cannot be used: its
     * struct tcp_info is too old. */
    STATE_CLOSE = 7,
    STATE_CLOSE_WAIT = 8
};

struct http_client {
    struct MHD_Connection *connection;
    int fd;
    void *tls; /* argument for mrd_https_closed, from mrd_https_started */
    client_stage stage;
    /* start of the stage; for a reply, start of the current measurement of its speed */
    mrd_local_ns since;
    uint64_t acked; /* bytes that the client had acknowledged at `since` */
    http_client *next, **link;
};

/* Returns the time limit of a stage in seconds. If few connections are free, the limit is shorter,
 * so that slow clients free connections for others. */
static int64_t
patience(const mrd_httpd *httpd, client_stage stage)
{
    int64_t pressed = stage == CLIENT_HEAD ? PRESSED_HEAD : PRESSED_REST;
    bool is_pressed = httpd->counts.connections > httpd->options.max_connections / 4 * 3;

    return is_pressed && pressed < httpd->options.idle_seconds ? pressed
                                                               : httpd->options.idle_seconds;
}

/* Returns true if the connection must be closed because its client is too slow. For a reply, only
 * bytes that the client's system has acknowledged count. Bytes in buffers of this machine do not
 * show that the client reads. */
static bool
dawdles(mrd_httpd *httpd, http_client *client, mrd_local_ns now)
{
    int64_t seconds = patience(httpd, client->stage), gone = mrd_local_diff(now, client->since);
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);

    if (client->stage == CLIENT_HEAD)
        return gone > seconds * MRD_SEC;
    if (client->stage == CLIENT_BODY)
        return gone > 2 * seconds * MRD_SEC;
    if (getsockopt(client->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    if (info.tcpi_state == STATE_CLOSE || info.tcpi_state == STATE_CLOSE_WAIT) {
        mrd_httpd_stream_abandon(httpd, client->connection);
        return false;
    }
    /* the client has read everything and waits for this server */
    if (info.tcpi_notsent_bytes == 0 && info.tcpi_unacked == 0) {
        client->since = now;
        client->acked = info.tcpi_bytes_acked;
        return false;
    }
    if (gone <= seconds * MRD_SEC)
        return false;
    if (info.tcpi_bytes_acked - client->acked < (uint64_t) seconds * RATE_MIN)
        return true;
    client->since = now;
    client->acked = info.tcpi_bytes_acked;
    return false;
}

static void *
watch_main(void *self)
{
    mrd_httpd *httpd = self;

    pthread_mutex_lock(&httpd->lock);
    while (!httpd->stopping) {
        struct timespec until;
        mrd_local_ns now = mrd_local_now();

        for (http_client *client = httpd->clients; client != NULL; client = client->next) {
            if (!dawdles(httpd, client, now))
                continue;
            httpd->counts.slow_clients++;
            /* prevents a second closing while the server thread handles the first one */
            client->since = now;
            /* client->fd is valid, because the socket cannot be closed while the lock is held */
            shutdown(client->fd, SHUT_RDWR);
        }
        mrd_httpd_hold_end(httpd, false);
        until = mrd_cond_deadline(PERIOD_NS);
        pthread_cond_timedwait(&httpd->watch, &httpd->lock, &until);
    }
    pthread_mutex_unlock(&httpd->lock);
    return NULL;
}

/* Returns the state for observing a TLS handshake, or NULL for a plain connection. */
static void *
tls_started(mrd_httpd *httpd, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *session;

    if (httpd->cert_path == NULL)
        return NULL;
    session = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return session == NULL || session->tls_session == NULL
               ? NULL
               : mrd_https_started(session->tls_session);
}

void
mrd_httpd_watch_connection(void *httpd, struct MHD_Connection *connection, void **socket,
                           enum MHD_ConnectionNotificationCode code)
{
    mrd_httpd *h = httpd;
    const union MHD_ConnectionInfo *info;
    http_client *client = *socket;

    pthread_mutex_lock(&h->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        h->counts.connections++;
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info != NULL && (client = calloc(1, sizeof(*client))) != NULL) {
            client->connection = connection;
            client->fd = info->connect_fd;
            client->tls = tls_started(h, connection);
            client->since = mrd_local_now();
            client->next = h->clients;
            client->link = &h->clients;
            if (client->next != NULL)
                client->next->link = &client->next;
            h->clients = client;
            *socket = client;
        }
    } else {
        h->counts.connections--;
        if (client != NULL) {
            *client->link = client->next;
            if (client->next != NULL)
                client->next->link = client->link;
            mrd_https_closed(client->tls, client->fd, &h->errors);
            free(client);
            *socket = NULL;
        }
    }
    pthread_mutex_unlock(&h->lock);
}

void
mrd_httpd_watch_stage(mrd_httpd *httpd, struct MHD_Connection *connection, client_stage stage)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    http_client *client = info == NULL ? NULL : info->socket_context;
    struct tcp_info tcp = { 0 };
    socklen_t len = sizeof(tcp);

    if (client == NULL)
        return;
    pthread_mutex_lock(&httpd->lock);
    if (stage == CLIENT_REPLY && getsockopt(client->fd, IPPROTO_TCP, TCP_INFO, &tcp, &len) == 0)
        client->acked = tcp.tcpi_bytes_acked;
    client->stage = stage;
    client->since = mrd_local_now();
    pthread_mutex_unlock(&httpd->lock);
}

mrd_err
mrd_httpd_watch_start(mrd_httpd *httpd, mrd_why *why)
{
    if (pthread_create(&httpd->watcher, NULL, watch_main, httpd) != 0)
        return mrd_why_set(why, MRD_NOMEM, errno, "HTTP server's second thread");
    httpd->watching = true;
    return MRD_OK;
}

void
mrd_httpd_watch_stop(mrd_httpd *httpd)
{
    if (!httpd->watching)
        return;
    pthread_mutex_lock(&httpd->lock);
    httpd->stopping = true;
    pthread_cond_signal(&httpd->watch);
    pthread_mutex_unlock(&httpd->lock);
    pthread_join(httpd->watcher, NULL);
    httpd->watching = false;
}
