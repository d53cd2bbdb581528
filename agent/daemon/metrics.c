#include "agent/daemon/metrics.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf/agent_waits.h"
#include "base/metrics.h"
#include "base/obj.h"
#include "base/sys/secret.h"

enum { HEAD_MAX = 8192, CLIENTS = 4 };

typedef struct {
    int fd; /* -1 means that the slot is free */
    mrd_local_ns since;
    size_t len;
    char head[HEAD_MAX + 1];
} client;

struct mrd_metrics {
    mrd_metrics_options o;
    int fd, poll_fd; /* poll_fd is an epoll descriptor for `fd` and all clients */
    client clients[CLIENTS];
};

/* ---- Answering one request ---- */

/* Returns the value of a header field, "" if the field is absent. */
static mrd_str
field(mrd_str head, const char *name)
{
    size_t n = strlen(name);
    const char *p = head.p, *end = head.p + head.len, *line;

    while ((line = memmem(p, (size_t) (end - p), "\r\n", 2)) != NULL) {
        mrd_str value;

        p = line + 2;
        if ((size_t) (end - p) <= n || strncasecmp(p, name, n) != 0 || p[n] != ':')
            continue;
        value.p = p + n + 1;
        value.len = 0;
        while (value.p < end && (*value.p == ' ' || *value.p == '\t'))
            value.p++;
        while (value.p + value.len < end && value.p[value.len] != '\r' &&
               value.p[value.len] != '\n')
            value.len++;
        return value;
    }
    return MRD_STR("");
}

static bool
token_right(mrd_str value, const char *token)
{
    size_t n = strlen(token);

    return value.len == 7 + n && strncasecmp(value.p, "Bearer ", 7) == 0 &&
           mrd_secret_equal(value.p + 7, token, n);
}

static void
reply(mrd_buf *to, const char *status, const char *type, const char *more, mrd_str body, bool bare)
{
    mrd_buf_fmt(to,
                "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: "
                "no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n%s\r\n",
                status, type, body.len, more);
    if (!bare)
        mrd_buf_str(to, body);
}

static void
problem(mrd_buf *to, const char *status, const char *code, const char *detail, const char *more)
{
    mrd_buf body = { 0 };

    mrd_buf_fmt(&body,
                "{\"type\":\"about:blank\",\"status\":%.3s,\"code\":\"%s\",\"title\":\"%s\","
                "\"detail\":\"%s\"}\n",
                status, code, status + 4, detail);
    reply(to, status, "application/problem+json", more,
          (mrd_str){ (const char *) body.p, body.len }, false);
    mrd_buf_fini(&body);
}

/* Answers /healthz and /readyz. If the agent has problems, /readyz fails with status 503. /healthz
 * only lists the problems, and succeeds while the agent's loop runs. */
static void
health(const mrd_metrics_options *options, bool wants_ready, bool bare, mrd_buf *to)
{
    char text[MRD_WHY_MAX] = "ok";
    bool ready = options->ready == NULL || options->ready(options->self, text);
    mrd_buf body = { 0 };

    mrd_buf_fmt(&body, "%s%s\n", ready || wants_ready ? "" : "ok, but ", text);
    reply(to, ready || !wants_ready ? "200 OK" : "503 Service Unavailable",
          "text/plain; charset=utf-8", "", (mrd_str){ (const char *) body.p, body.len }, bare);
    mrd_buf_fini(&body);
}

void
mrd_metrics_answer(const mrd_metrics_options *options, mrd_str head, mrd_buf *to)
{
    size_t method = 0, path;
    bool bare;
    char accept[1024];
    mrd_str value, target;
    mrd_buf body = { 0 };

    while (method < head.len && head.p[method] > ' ')
        method++;
    target.p = head.p + (method < head.len ? method + 1 : method);
    for (path = 0; target.p + path < head.p + head.len && target.p[path] > ' ' &&
                   target.p[path] != '?' && target.p[path] != 0x7f;
         path++)
        ;
    target.len = path;
    bare = mrd_str_is((mrd_str){ head.p, method }, "HEAD");
    if (!bare && !mrd_str_is((mrd_str){ head.p, method }, "GET")) {
        problem(to, "405 Method Not Allowed", "INVALID", "this port answers GET and HEAD",
                "Allow: GET, HEAD\r\n");
        return;
    }
    if (mrd_str_is(target, "/healthz") || mrd_str_is(target, "/readyz")) {
        health(options, mrd_str_is(target, "/readyz"), bare, to);
        return;
    }
    if (!mrd_str_is(target, "/metrics")) {
        problem(to, "404 Not Found", "NOTFOUND",
                "no such path: this port serves /metrics, /healthz and /readyz", "");
        return;
    }
    if (options->token != NULL && !token_right(field(head, "Authorization"), options->token)) {
        problem(to, "401 Unauthorized", "AUTH",
                "send the token of --metrics-token-file: Authorization: Bearer ...",
                "WWW-Authenticate: Bearer realm=\"meridian\"\r\n");
        return;
    }
    value = field(head, "Accept");
    snprintf(accept, sizeof(accept), MRD_STR_FMT, MRD_STR_ARG(value));
    options->write(options->self, mrd_metrics_text_wants_open(accept), &body);
    reply(to, "200 OK", mrd_metrics_text_type(mrd_metrics_text_wants_open(accept)),
          "Vary: Accept\r\n", (mrd_str){ (const char *) body.p, body.len }, bare);
    mrd_buf_fini(&body);
}

/* ---- Connections ---- */

static void
drop(client *peer)
{
    close(peer->fd);
    peer->fd = -1;
}

/* Sends the answer in one write. The answer is a few KiB long and normally fits into the socket's
 * buffer. A client that does not read its socket may get only a part. */
static void
answer(mrd_metrics *metrics, client *peer)
{
    mrd_buf to = { 0 };

    mrd_metrics_answer(&metrics->o, (mrd_str){ peer->head, peer->len }, &to);
    if (to.err == MRD_OK)
        (void) !send(peer->fd, to.p, to.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    mrd_buf_fini(&to);
    shutdown(peer->fd, SHUT_WR);
    drop(peer);
}

static void
take(mrd_metrics *metrics, client *peer, mrd_local_ns now)
{
    ssize_t n = recv(peer->fd, peer->head + peer->len, HEAD_MAX - peer->len, MSG_DONTWAIT);

    if (n > 0)
        peer->len += (size_t) n;
    peer->head[peer->len] = '\0';
    if (memmem(peer->head, peer->len, "\r\n\r\n", 4) != NULL)
        answer(metrics, peer);
    else if (n == 0 || peer->len == HEAD_MAX ||
             mrd_local_diff(now, peer->since) > MRD_WAIT_METRICS_HEAD ||
             (n < 0 && errno != EAGAIN && errno != EINTR))
        drop(peer);
}

/* Returns a slot for a new client. If no slot is free, closes the oldest connection and returns its
 * slot. */
static client *
place(mrd_metrics *metrics)
{
    client *oldest = &metrics->clients[0];

    for (size_t i = 0; i < CLIENTS; i++) {
        if (metrics->clients[i].fd < 0)
            return &metrics->clients[i];
        if (mrd_local_before(metrics->clients[i].since, oldest->since))
            oldest = &metrics->clients[i];
    }
    drop(oldest);
    return oldest;
}

static bool
watch(const mrd_metrics *metrics, int fd)
{
    struct epoll_event ev = { .events = EPOLLIN };

    return epoll_ctl(metrics->poll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void
mrd_metrics_step(mrd_metrics *metrics, mrd_local_ns now)
{
    if (metrics == NULL)
        return;
    for (int i = 0; i < CLIENTS; i++) {
        int fd = accept4(metrics->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        client *peer;

        if (fd < 0)
            break;
        peer = place(metrics);
        if (!watch(metrics, fd)) {
            close(fd);
            continue;
        }
        peer->fd = fd;
        peer->len = 0;
        peer->since = now;
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        if (metrics->clients[i].fd >= 0)
            take(metrics, &metrics->clients[i], now);
    }
}

int
mrd_metrics_fd(const mrd_metrics *metrics)
{
    return metrics == NULL ? -1 : metrics->poll_fd;
}

/* ---- Open and close ---- */

static mrd_err
listen_on(mrd_metrics *metrics, const struct addrinfo *at, mrd_why *why)
{
    int on = 1;

    metrics->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    metrics->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (metrics->fd < 0 || metrics->poll_fd < 0 ||
        setsockopt(metrics->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(metrics->fd, at->ai_addr, at->ai_addrlen) != 0 || listen(metrics->fd, 16) != 0 ||
        !watch(metrics, metrics->fd))
        return mrd_why_set(why, MRD_NET, errno, "cannot serve metrics on %s port %u",
                           metrics->o.address, metrics->o.port);
    return MRD_OK;
}

mrd_err
mrd_metrics_open(const mrd_metrics_options *options, mrd_metrics **ret_metrics, mrd_why *why)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                              .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    mrd_metrics *metrics = calloc(1, sizeof(*metrics));
    char port[8];
    mrd_err err;

    if (metrics == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "metrics");
    metrics->o = *options;
    metrics->fd = metrics->poll_fd = -1;
    if (metrics->o.address == NULL)
        metrics->o.address = "127.0.0.1";
    for (size_t i = 0; i < CLIENTS; i++)
        metrics->clients[i].fd = -1;
    snprintf(port, sizeof(port), "%u", options->port);
    if (getaddrinfo(metrics->o.address, port, &hints, &found) != 0)
        err =
            mrd_why_set(why, MRD_INVALID, 0,
                        "--metrics-address '%s' is not a numeric address such as 127.0.0.1 or ::1",
                        metrics->o.address);
    else
        err = listen_on(metrics, found, why);
    if (found != NULL)
        freeaddrinfo(found);
    if (err != MRD_OK)
        mrd_metrics_close(metrics);
    else
        *ret_metrics = metrics;
    return err;
}

void
mrd_metrics_close(mrd_metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (size_t i = 0; i < CLIENTS; i++) {
        if (metrics->clients[i].fd >= 0)
            close(metrics->clients[i].fd);
    }
    if (metrics->fd >= 0)
        close(metrics->fd);
    if (metrics->poll_fd >= 0)
        close(metrics->poll_fd);
    free(metrics);
}
