#include "aggregator/httpd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>

#include "aggregator/encode.h"
#include "base/conf.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/secret.h"

#define HTTPD_MAGIC  0x48545450u
#define PAGE_ORIGIN  "https://ui.perfetto.dev"
#define STREAM_QUEUE (1u << 20) /* bytes between a producer and its client */

enum { MAX_PARAMS = 4, MAX_HEADERS = 16, MAX_OLD = 4 };

typedef struct http_stream http_stream;

struct mrd_httpd {
    uint32_t magic;
    mrd_httpd_options options;
    char *cert_path, *key_path;
    uint64_t stamp; /* of both, when they were read; the caller of reload's */
    const mrd_http_route *routes;
    size_t n_routes;
    void *self;
    struct MHD_Daemon *daemon;
    struct MHD_Daemon *old[MAX_OLD]; /* before a reload, until their transfers end */
    int listen_fd;
    uint16_t port;
    pthread_mutex_t lock; /* guards counts, streams and their queues; nothing is taken inside */
    mrd_httpd_counts counts;
    http_stream *streams;
    bool stopping;
};

struct mrd_http_request {
    mrd_httpd *httpd;
    struct MHD_Connection *connection;
    const char *method;
    char *path;
    const mrd_http_route *route;
    mrd_str params[MAX_PARAMS];
    const char *param_names[MAX_PARAMS]; /* point into the route's path */
    size_t param_lens[MAX_PARAMS], n_params;
    mrd_role role;
    mrd_buf body;
    bool too_big, replied;
    struct {
        char *name, *value;
    } headers[MAX_HEADERS];
    size_t n_headers;
    enum MHD_Result queued;
};

/* A reply that a thread of its own produces. Two owners, the producer and the response; the last
 * frees. */
struct http_stream {
    mrd_httpd *httpd;
    struct MHD_Connection *connection;
    pthread_t thread;
    pthread_cond_t room;
    mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why);
    void (*done)(void *self);
    void *self;
    uint8_t *queue;
    size_t head, len;
    bool waiting;   /* the connection is suspended for want of bytes */
    bool finished;  /* the producer has returned */
    bool cancelled; /* nobody reads any more */
    mrd_err err;
    int owners;
    http_stream *next, **link;
};

/* ---- Request parts ---- */

const char *
mrd_http_method(const mrd_http_request *req)
{
    return req->method;
}

const char *
mrd_http_path(const mrd_http_request *req)
{
    return req->path;
}

mrd_str
mrd_http_param(const mrd_http_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_params; i++) {
        if (strlen(name) == req->param_lens[i] &&
            memcmp(name, req->param_names[i], req->param_lens[i]) == 0)
            return req->params[i];
    }
    return MRD_STR("");
}

const char *
mrd_http_query(mrd_http_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_GET_ARGUMENT_KIND, name);
}

mrd_str
mrd_http_body(const mrd_http_request *req)
{
    return (mrd_str){ (const char *) req->body.p, req->body.len };
}

const char *
mrd_http_header(mrd_http_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_HEADER_KIND, name);
}

mrd_role
mrd_http_role(const mrd_http_request *req)
{
    return req->role;
}

mrd_err
mrd_http_json(const mrd_http_request *req, mrd_json **ret_doc, mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err;

    if (req->body.len == 0) {
        *ret_doc = mrd_json_new_object();
        return MRD_OK;
    }
    if ((err = mrd_json_parse(mrd_http_body(req), "request body", &doc, why)) != MRD_OK)
        return err;
    if (!mrd_json_is_object(doc)) {
        mrd_json_free(doc);
        return mrd_why_set(why, MRD_TYPE, 0, "the request body must be a JSON object");
    }
    *ret_doc = doc;
    return MRD_OK;
}

typedef struct {
    const char *const *known;
    const char *unknown;
} query_check;

static enum MHD_Result
check_query(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    query_check *check = cls;

    (void) kind;
    (void) value;
    for (const char *const *k = check->known; *k != NULL; k++) {
        if (strcmp(*k, key) == 0)
            return MHD_YES;
    }
    check->unknown = key;
    return MHD_NO;
}

mrd_err
mrd_http_known_query(mrd_http_request *req, const char *const *known, mrd_why *why)
{
    query_check check = { known, NULL };
    const char *near;
    size_t n = 0;

    MHD_get_connection_values(req->connection, MHD_GET_ARGUMENT_KIND, check_query, &check);
    if (check.unknown == NULL)
        return MRD_OK;
    while (known[n] != NULL)
        n++;
    near = mrd_conf_nearest(check.unknown, known, n);
    return mrd_why_set(why, MRD_INVALID, 0, "unknown query parameter '%.64s'%s%s%s", check.unknown,
                       near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
                       near == NULL ? "" : "?");
}

/* ---- Replies ---- */

void
mrd_http_set_header(mrd_http_request *req, const char *name, const char *value)
{
    if (req->n_headers == MAX_HEADERS)
        return;
    req->headers[req->n_headers].name = mrd_str_dup(mrd_str_of(name));
    req->headers[req->n_headers].value = mrd_str_dup(mrd_str_of(value));
    req->n_headers++;
}

/* Queues the response, which it owns, with the headers every reply has. */
static mrd_err
send_response(mrd_http_request *req, unsigned status, struct MHD_Response *response)
{
    const char *origin = mrd_http_header(req, "Origin");

    if (response == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < req->n_headers; i++) {
        if (req->headers[i].name != NULL && req->headers[i].value != NULL)
            MHD_add_response_header(response, req->headers[i].name, req->headers[i].value);
    }
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Vary", "Origin, Accept-Encoding");
    if (origin != NULL && strcmp(origin, PAGE_ORIGIN) == 0)
        MHD_add_response_header(response, "Access-Control-Allow-Origin", PAGE_ORIGIN);
    req->replied = true;
    req->queued = MHD_queue_response(req->connection, status, response);
    MHD_destroy_response(response);
    if (status >= 400) {
        pthread_mutex_lock(&req->httpd->lock);
        req->httpd->counts.errors++;
        req->httpd->counts.unauthorised += status == 401 || status == 403;
        pthread_mutex_unlock(&req->httpd->lock);
    }
    return req->queued == MHD_YES ? MRD_OK : MRD_IO;
}

mrd_err
mrd_http_reply_text(mrd_http_request *req, unsigned status, const char *type, mrd_buf *body)
{
    struct MHD_Response *response;
    mrd_err err = body->err;

    if (err == MRD_OK) {
        mrd_http_set_header(req, "Content-Type", type);
        if (mrd_http_header(req, "Cache-Control") == NULL)
            mrd_http_set_header(req, "Cache-Control", "no-store");
        response = MHD_create_response_from_buffer(
            body->len, body->p == NULL ? (void *) (uintptr_t) "" : body->p,
            body->p == NULL ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
        if (response != NULL)
            *body = (mrd_buf){ 0 };
        err = send_response(req, status, response);
    }
    mrd_buf_fini(body);
    return err;
}

mrd_err
mrd_http_reply_json(mrd_http_request *req, unsigned status, mrd_json *doc)
{
    mrd_buf body = { 0 };

    if (doc == NULL)
        return MRD_NOMEM;
    mrd_json_write(doc, false, &body);
    mrd_buf_byte(&body, '\n');
    mrd_json_free(doc);
    return mrd_http_reply_text(req, status, "application/json", &body);
}

mrd_err
mrd_http_reply_static(mrd_http_request *req, const char *type, const char *etag, mrd_bytes body)
{
    const char *known = mrd_http_header(req, "If-None-Match");
    struct MHD_Response *response;

    mrd_http_set_header(req, "Content-Type", type);
    mrd_http_set_header(req, "ETag", etag);
    mrd_http_set_header(req, "Cache-Control", "no-cache");
    if (known != NULL && strcmp(known, etag) == 0) {
        response =
            MHD_create_response_from_buffer(0, (void *) (uintptr_t) "", MHD_RESPMEM_PERSISTENT);
        return send_response(req, MHD_HTTP_NOT_MODIFIED, response);
    }
    response = MHD_create_response_from_buffer(body.len, (void *) (uintptr_t) body.p,
                                               MHD_RESPMEM_PERSISTENT);
    return send_response(req, MHD_HTTP_OK, response);
}

/* RFC 9457. */
static mrd_err
reply_problem(mrd_http_request *req, unsigned status, const char *code, const char *title,
              const char *detail)
{
    mrd_buf body = { 0 };

    mrd_buf_fmt(&body, "{\"type\":\"about:blank\",\"status\":%u,\"code\":\"%s\",\"title\":", status,
                code);
    mrd_json_quote(&body, mrd_str_of(title));
    mrd_buf_text(&body, ",\"detail\":");
    mrd_json_quote(&body, mrd_str_of(detail));
    mrd_buf_text(&body, "}\n");
    return mrd_http_reply_text(req, status, "application/problem+json", &body);
}

static mrd_err
reply_error(mrd_http_request *req, mrd_err err, const mrd_why *why)
{
    if (err == MRD_BUSY || err == MRD_AGAIN || err == MRD_FULL)
        mrd_http_set_header(req, "Retry-After", "2");
    return reply_problem(req, (unsigned) mrd_err_http(err), mrd_err_name(err), mrd_err_text(err),
                         why->text[0] != '\0' ? why->text : mrd_err_text(err));
}

/* ---- Streams ---- */

static void
stream_release(http_stream *s)
{
    mrd_httpd *h = s->httpd;
    bool last;

    pthread_mutex_lock(&h->lock);
    last = --s->owners == 0;
    if (last) {
        *s->link = s->next;
        if (s->next != NULL)
            s->next->link = s->link;
        h->counts.streams_now--;
    }
    pthread_mutex_unlock(&h->lock);
    if (!last)
        return;
    if (s->done != NULL)
        s->done(s->self);
    pthread_cond_destroy(&s->room);
    free(s->queue);
    free(s);
}

/* With the lock held: lets the server thread look again. */
static void
stream_wake(http_stream *s)
{
    if (!s->waiting)
        return;
    s->waiting = false;
    MHD_resume_connection(s->connection);
}

/* The producer's side of the queue; false when nobody reads any more. */
static bool
stream_push(void *self, const void *data, size_t len)
{
    http_stream *s = self;
    const uint8_t *p = data;

    pthread_mutex_lock(&s->httpd->lock);
    while (len > 0) {
        size_t tail, n;

        while (s->len == STREAM_QUEUE && !s->cancelled)
            pthread_cond_wait(&s->room, &s->httpd->lock);
        if (s->cancelled)
            break;
        tail = (s->head + s->len) & (STREAM_QUEUE - 1);
        n = STREAM_QUEUE - s->len;
        n = n < STREAM_QUEUE - tail ? n : STREAM_QUEUE - tail;
        n = n < len ? n : len;
        memcpy(s->queue + tail, p, n);
        s->len += n;
        p += n;
        len -= n;
        stream_wake(s);
    }
    pthread_mutex_unlock(&s->httpd->lock);
    return len == 0;
}

static void *
stream_main(void *self)
{
    http_stream *s = self;
    mrd_out *out = NULL;
    mrd_err err = mrd_out_func(stream_push, s, "HTTP reply", &out, NULL);

    if (err == MRD_OK) {
        err = s->produce(s->self, out, NULL);
        if (err == MRD_OK)
            err = mrd_out_commit(out, NULL);
        else
            mrd_out_abort(out);
    }
    pthread_mutex_lock(&s->httpd->lock);
    s->finished = true;
    s->err = err;
    s->httpd->counts.cancelled += err == MRD_CANCELLED;
    stream_wake(s);
    pthread_mutex_unlock(&s->httpd->lock);
    stream_release(s);
    return NULL;
}

/* The server's side: gives what there is, or suspends the connection. */
static ssize_t
stream_pull(void *self, uint64_t at, char *to, size_t max)
{
    http_stream *s = self;
    ssize_t n = 0;

    (void) at;
    pthread_mutex_lock(&s->httpd->lock);
    if (s->len > 0) {
        size_t run = STREAM_QUEUE - s->head;

        n = (ssize_t) (s->len < run ? s->len : run);
        n = (size_t) n < max ? n : (ssize_t) max;
        memcpy(to, s->queue + s->head, (size_t) n);
        s->head = (s->head + (size_t) n) & (STREAM_QUEUE - 1);
        s->len -= (size_t) n;
        s->httpd->counts.bytes += (uint64_t) n;
        pthread_cond_signal(&s->room);
    } else if (s->finished || s->cancelled) {
        /* An error after the head was sent can only be shown by breaking the transfer off. */
        n = s->finished && s->err == MRD_OK ? MHD_CONTENT_READER_END_OF_STREAM
                                            : MHD_CONTENT_READER_END_WITH_ERROR;
    } else {
        s->waiting = true;
        MHD_suspend_connection(s->connection);
    }
    pthread_mutex_unlock(&s->httpd->lock);
    return n;
}

static void
stream_gone(void *self)
{
    http_stream *s = self;

    pthread_mutex_lock(&s->httpd->lock);
    s->cancelled = true;
    s->waiting = false;
    pthread_cond_signal(&s->room);
    pthread_mutex_unlock(&s->httpd->lock);
    stream_release(s);
}

/* A stream registered with the server, its thread not yet started. */
static http_stream *
stream_new(mrd_http_request *req)
{
    mrd_httpd *h = req->httpd;
    http_stream *s = calloc(1, sizeof(*s));

    if (s == NULL || (s->queue = malloc(STREAM_QUEUE)) == NULL) {
        free(s);
        return NULL;
    }
    s->httpd = h;
    s->connection = req->connection;
    s->owners = 2;
    pthread_cond_init(&s->room, NULL);
    pthread_mutex_lock(&h->lock);
    s->next = h->streams;
    s->link = &h->streams;
    if (s->next != NULL)
        s->next->link = &s->next;
    h->streams = s;
    h->counts.streams++;
    h->counts.streams_now++;
    pthread_mutex_unlock(&h->lock);
    return s;
}

mrd_err
mrd_http_reply_stream(mrd_http_request *req, const char *type, const char *download,
                      mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why),
                      void (*done)(void *self), void *self, mrd_why *why)
{
    mrd_httpd *h = req->httpd;
    struct MHD_Response *response;
    http_stream *s = NULL;
    mrd_buf disposition = { 0 };
    bool full;

    pthread_mutex_lock(&h->lock);
    full = h->stopping || h->counts.streams_now >= h->options.max_streams;
    pthread_mutex_unlock(&h->lock);
    if (!full)
        s = stream_new(req);
    if (s == NULL) {
        if (done != NULL)
            done(self);
        return mrd_why_set(why, MRD_AGAIN, 0,
                           full ? "%u transfers run already, try again in a moment"
                                : "out of memory (%u)",
                           h->options.max_streams);
    }
    s->produce = produce;
    s->done = done;
    s->self = self;
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 64 << 10, stream_pull, s, stream_gone);
    if (response == NULL) {
        s->owners = 1;
        stream_release(s);
        return MRD_NOMEM;
    }
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) {
        stream_release(s); /* the producer's share */
        MHD_destroy_response(response);
        return mrd_why_set(why, MRD_AGAIN, 0,
                           "no thread for another transfer, try again in a moment");
    }
    pthread_detach(s->thread);
    mrd_http_set_header(req, "Content-Type", type);
    mrd_http_set_header(req, "Cache-Control", "no-store");
    if (download != NULL) {
        mrd_buf_fmt(&disposition, "attachment; filename=\"%s\"", download);
        mrd_http_set_header(req, "Content-Disposition", mrd_buf_cstr(&disposition));
        mrd_buf_fini(&disposition);
    }
    return send_response(req, MHD_HTTP_OK, response);
}

/* ---- Files ---- */

typedef struct {
    int fd;
    mrd_encoding encoding;
} encoded_file;

static mrd_err
encoded_produce(void *self, mrd_out *out, mrd_why *why)
{
    encoded_file *f = self;

    return mrd_encode_file(f->fd, f->encoding, out, why);
}

static void
encoded_done(void *self)
{
    encoded_file *f = self;

    close(f->fd);
    free(f);
}

/* "bytes=a-b", "bytes=a-", "bytes=-n": one range. 1 satisfiable, 0 to be ignored, -1 not
 * satisfiable. */
static int
parse_range(const char *text, uint64_t size, uint64_t *ret_from, uint64_t *ret_len)
{
    const char *dash;
    mrd_str first, last;
    uint64_t from, to;

    if (text == NULL || strncmp(text, "bytes=", 6) != 0 || strchr(text, ',') != NULL ||
        (dash = strchr(text, '-')) == NULL)
        return 0;
    first = (mrd_str){ text + 6, (size_t) (dash - text - 6) };
    last = mrd_str_of(dash + 1);
    if (first.len == 0) {
        if (mrd_num_u64(last, &to) != MRD_OK)
            return 0;
        if (to == 0 || size == 0)
            return -1;
        *ret_from = to < size ? size - to : 0;
        *ret_len = size - *ret_from;
        return 1;
    }
    if (mrd_num_u64(first, &from) != MRD_OK || (last.len > 0 && mrd_num_u64(last, &to) != MRD_OK))
        return 0;
    if (last.len == 0 || to >= size)
        to = size == 0 ? 0 : size - 1;
    if (from >= size)
        return -1;
    if (to < from)
        return 0;
    *ret_from = from;
    *ret_len = to - from + 1;
    return 1;
}

static bool
etag_listed(const char *list, const char *etag)
{
    return list != NULL && (strcmp(list, "*") == 0 || strstr(list, etag) != NULL);
}

static mrd_err
reply_encoded(mrd_http_request *req, int fd, mrd_encoding encoding, const char *type,
              const char *download, mrd_why *why)
{
    encoded_file *f = malloc(sizeof(*f));

    if (f == NULL) {
        close(fd);
        return MRD_NOMEM;
    }
    *f = (encoded_file){ fd, encoding };
    mrd_http_set_header(req, "Content-Encoding", mrd_encode_name(encoding));
    return mrd_http_reply_stream(req, type, download, encoded_produce, encoded_done, f, why);
}

mrd_err
mrd_http_reply_file(mrd_http_request *req, const char *path, const char *type, const char *download,
                    mrd_why *why)
{
    const char *range = mrd_http_header(req, "Range"), *if_range = mrd_http_header(req, "If-Range");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), kind;
    mrd_encoding encoding;
    uint64_t from = 0, len;
    struct MHD_Response *response;
    unsigned status = MHD_HTTP_OK;
    char etag[80], text[320];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return mrd_why_set(why, MRD_NOTFOUND, 0, "no such file");
    }
    len = (uint64_t) st.st_size;
    snprintf(etag, sizeof(etag), "\"%jx-%jx-%jx.%lx\"", (uintmax_t) st.st_ino,
             (uintmax_t) st.st_size, (uintmax_t) st.st_mtim.tv_sec,
             (unsigned long) st.st_mtim.tv_nsec);
    mrd_http_set_header(req, "ETag", etag);
    mrd_http_set_header(req, "Accept-Ranges", "bytes");
    if (etag_listed(mrd_http_header(req, "If-None-Match"), etag)) {
        close(fd);
        return send_response(
            req, MHD_HTTP_NOT_MODIFIED,
            MHD_create_response_from_buffer(0, (void *) (uintptr_t) "", MHD_RESPMEM_PERSISTENT));
    }
    kind =
        if_range == NULL || strcmp(if_range, etag) == 0 ? parse_range(range, len, &from, &len) : 0;
    if (kind < 0) {
        close(fd);
        snprintf(text, sizeof(text), "bytes */%jd", (intmax_t) st.st_size);
        mrd_http_set_header(req, "Content-Range", text);
        return reply_problem(req, MHD_HTTP_RANGE_NOT_SATISFIABLE, "RANGE", "range not satisfiable",
                             "the file is shorter than the first byte asked for");
    }
    encoding = range == NULL && st.st_size >= 1024 && strcmp(req->method, "HEAD") != 0
                   ? mrd_encode_choose(mrd_http_header(req, "Accept-Encoding"))
                   : MRD_ENCODE_NONE;
    if (encoding != MRD_ENCODE_NONE)
        return reply_encoded(req, fd, encoding, type, download, why);
    if (kind > 0) {
        status = MHD_HTTP_PARTIAL_CONTENT;
        snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%jd", from, from + len - 1,
                 (intmax_t) st.st_size);
        mrd_http_set_header(req, "Content-Range", text);
    }
    mrd_http_set_header(req, "Content-Type", type);
    mrd_http_set_header(req, "Cache-Control", "no-cache");
    if (download != NULL) {
        snprintf(text, sizeof(text), "attachment; filename=\"%.255s\"", download);
        mrd_http_set_header(req, "Content-Disposition", text);
    }
    response = MHD_create_response_from_fd_at_offset64(len, fd, from);
    if (response == NULL)
        close(fd);
    pthread_mutex_lock(&req->httpd->lock);
    req->httpd->counts.bytes += strcmp(req->method, "HEAD") == 0 ? 0 : len;
    pthread_mutex_unlock(&req->httpd->lock);
    return send_response(req, status, response);
}

/* ---- Routing ---- */

/* Components that climb, or that no name of ours has, never reach a handler. */
static bool
path_is_plain(const char *path)
{
    if (path[0] != '/' || strlen(path) > 2048)
        return false;
    for (const char *p = path; *p != '\0'; p++) {
        if ((unsigned char) *p < 0x20 || *p == 0x7f || *p == '\\')
            return false;
        if (p[0] == '/' &&
            (p[1] == '/' || (p[1] == '.' && (p[2] == '/' || p[2] == '\0' || p[2] == '.'))))
            return false;
    }
    return true;
}

static bool
route_matches(mrd_http_request *req, const char *pattern)
{
    const char *p = req->path;

    req->n_params = 0;
    while (*pattern != '\0') {
        size_t name, n;
        bool rest;

        if (*pattern != '{') {
            if (*pattern++ != *p++)
                return false;
            continue;
        }
        name = strcspn(pattern + 1, "*}");
        rest = pattern[1 + name] == '*';
        n = rest ? strlen(p) : strcspn(p, "/");
        if (n == 0 || req->n_params == MAX_PARAMS)
            return false;
        req->param_names[req->n_params] = pattern + 1;
        req->param_lens[req->n_params] = name;
        req->params[req->n_params++] = (mrd_str){ p, n };
        p += n;
        pattern += name + (rest ? 3 : 2);
    }
    return *p == '\0';
}

/* MRD_OK with req->route set; NOTFOUND, or INVALID when the path is known under other methods. */
static mrd_err
find_route(mrd_http_request *req, mrd_buf *allowed)
{
    const char *method = strcmp(req->method, "HEAD") == 0 ? "GET" : req->method;

    for (size_t i = 0; i < req->httpd->n_routes; i++) {
        const mrd_http_route *route = &req->httpd->routes[i];

        if (!route_matches(req, route->path))
            continue;
        if (strcmp(route->method, method) == 0) {
            req->route = route;
            return MRD_OK;
        }
        mrd_buf_fmt(allowed, "%s%s", allowed->len > 0 ? ", " : "", route->method);
    }
    return allowed->len > 0 ? MRD_INVALID : MRD_NOTFOUND;
}

static mrd_str
bearer_token(mrd_http_request *req)
{
    const char *value = mrd_http_header(req, "Authorization");

    if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0)
        return MRD_STR("");
    return mrd_str_of(value + 7 + strspn(value + 7, " "));
}

static mrd_err
reply_preflight(mrd_http_request *req)
{
    mrd_http_set_header(req, "Allow", "GET, HEAD, POST, DELETE, OPTIONS");
    mrd_http_set_header(req, "Access-Control-Allow-Methods", "GET, HEAD, OPTIONS");
    mrd_http_set_header(req, "Access-Control-Allow-Headers", "Authorization, Range");
    mrd_http_set_header(req, "Access-Control-Allow-Private-Network", "true");
    mrd_http_set_header(req, "Access-Control-Max-Age", "600");
    return send_response(
        req, MHD_HTTP_NO_CONTENT,
        MHD_create_response_from_buffer(0, (void *) (uintptr_t) "", MHD_RESPMEM_PERSISTENT));
}

/* The whole request is here: find who may answer it and let it. */
static mrd_err
dispatch(mrd_http_request *req)
{
    mrd_buf allowed = { 0 };
    mrd_why why = { 0 };
    mrd_err err;

    if (!path_is_plain(req->path))
        return reply_problem(req, 400, "INVALID", "invalid path",
                             "the path has empty, climbing or unprintable components");
    if (strcmp(req->method, "OPTIONS") == 0)
        return reply_preflight(req);
    err = find_route(req, &allowed);
    if (err == MRD_INVALID)
        mrd_http_set_header(req, "Allow", mrd_buf_cstr(&allowed));
    mrd_buf_fini(&allowed);
    if (err == MRD_INVALID)
        return reply_problem(req, 405, "INVALID", "method not allowed",
                             "this path exists, with other methods (Allow)");
    if (err != MRD_OK)
        return reply_problem(req, 404, "NOTFOUND", "no such path",
                             "docs/http.md and /api/v1/openapi.json list the paths");
    req->role = req->httpd->options.auth == NULL
                    ? MRD_ROLE_CONTROL
                    : mrd_auth_role(req->httpd->options.auth, bearer_token(req));
    if (!mrd_role_allows(req->role, req->route->role)) {
        mrd_http_set_header(req, "WWW-Authenticate", "Bearer realm=\"meridian\"");
        if (req->role == MRD_ROLE_NONE)
            return reply_problem(req, 401, "AUTH", "identity not proven",
                                 "send a known token: Authorization: Bearer ...");
        return reply_problem(req, 403, "DENIED", "not permitted",
                             "this token's role may not do that");
    }
    if (req->too_big)
        return reply_problem(req, 413, "LIMIT", "body too large", "a request body may have 1 MiB");
    err = req->route->handle(req->httpd->self, req, &why);
    if (err != MRD_OK && !req->replied)
        err = reply_error(req, err, &why);
    return err;
}

static mrd_http_request *
request_new(mrd_httpd *h, struct MHD_Connection *connection, const char *url, const char *method)
{
    mrd_http_request *req = calloc(1, sizeof(*req));

    if (req == NULL || (req->path = mrd_str_dup(mrd_str_of(url))) == NULL) {
        free(req);
        return NULL;
    }
    req->httpd = h;
    req->connection = connection;
    req->method = method;
    pthread_mutex_lock(&h->lock);
    h->counts.requests++;
    pthread_mutex_unlock(&h->lock);
    return req;
}

static enum MHD_Result
on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
           const char *version, const char *upload, size_t *upload_size, void **state)
{
    mrd_httpd *h = cls;
    mrd_http_request *req = *state;

    (void) version;
    MRD_CHECK_MAGIC(h, HTTPD_MAGIC);
    if (req == NULL) {
        const char *length =
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        uint64_t announced;

        if ((req = request_new(h, connection, url, method)) == NULL)
            return MHD_NO;
        *state = req;
        if (length != NULL && mrd_num_u64(mrd_str_of(length), &announced) == MRD_OK &&
            announced > MRD_HTTP_BODY_MAX) {
            req->too_big = true; /* answered before the body comes */
            return dispatch(req) == MRD_OK ? MHD_YES : MHD_NO;
        }
        return MHD_YES;
    }
    if (*upload_size > 0) {
        if (req->body.len + *upload_size > MRD_HTTP_BODY_MAX)
            return MHD_NO; /* chunked and endless: hang up */
        mrd_buf_add(&req->body, upload, *upload_size);
        *upload_size = 0;
        return req->body.err == MRD_OK ? MHD_YES : MHD_NO;
    }
    if (req->replied)
        return MHD_YES;
    if (dispatch(req) != MRD_OK && !req->replied)
        return MHD_NO;
    return req->queued;
}

static void
on_completed(void *cls, struct MHD_Connection *connection, void **state,
             enum MHD_RequestTerminationCode how)
{
    mrd_http_request *req = *state;

    (void) cls;
    (void) connection;
    (void) how;
    if (req == NULL)
        return;
    for (size_t i = 0; i < req->n_headers; i++) {
        free(req->headers[i].name);
        free(req->headers[i].value);
    }
    mrd_buf_fini(&req->body);
    free(req->path);
    free(req);
    *state = NULL;
}

static void
on_connection(void *cls, struct MHD_Connection *connection, void **socket,
              enum MHD_ConnectionNotificationCode code)
{
    mrd_httpd *h = cls;

    (void) connection;
    (void) socket;
    pthread_mutex_lock(&h->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        h->counts.connections++;
    else
        h->counts.connections--;
    pthread_mutex_unlock(&h->lock);
}

/* ---- Start and stop ---- */

static mrd_err
listen_on(const char *address, uint16_t port, int *ret_fd, uint16_t *ret_port, mrd_why *why)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                              .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    char service[8];
    int fd, on = 1;
    mrd_err err = MRD_OK;

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'%s' is no address to listen on: give a numeric one, such as 127.0.0.1",
                           address);
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        err = mrd_why_set(why, MRD_IO, errno, "HTTP socket");
    else {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1024) != 0)
            err =
                mrd_why_set(why, MRD_BUSY, errno, "cannot listen for HTTP on %s:%u", address, port);
        else if (getsockname(fd, (struct sockaddr *) &bound, &len) == 0)
            *ret_port =
                ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &bound)->sin6_port
                                                  : ((struct sockaddr_in *) &bound)->sin_port);
    }
    freeaddrinfo(found);
    if (err != MRD_OK && fd >= 0)
        close(fd);
    else
        *ret_fd = fd;
    return err;
}

static mrd_err
load_pem(const char *path, mrd_buf *to, mrd_why *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return mrd_why_set(why, MRD_INVALID, errno, "TLS file %s", path);
    do {
        if (!mrd_buf_room(to, 65536))
            break;
        n = read(fd, to->p + to->len, 65536);
        to->len += n > 0 ? (size_t) n : 0;
    } while (n > 0 && to->len < (1u << 20));
    close(fd);
    mrd_buf_cstr(to);
    return to->err == MRD_OK && to->len > 0
               ? MRD_OK
               : mrd_why_set(why, MRD_INVALID, 0, "TLS file %s cannot be read", path);
}

static uint64_t
stamp_of(const mrd_httpd *h)
{
    const char *files[] = { h->cert_path, h->key_path };

    return mrd_files_stamp(files, MRD_COUNT(files));
}

bool
mrd_httpd_changed(mrd_httpd *httpd)
{
    return stamp_of(httpd) != httpd->stamp;
}

/* Starts a server thread on a copy of the listening socket. */
static mrd_err
start_daemon(mrd_httpd *h, struct MHD_Daemon **ret_daemon, mrd_why *why)
{
    mrd_buf cert = { 0 }, key = { 0 };
    struct MHD_OptionItem tls[3] = { { MHD_OPTION_END, 0, NULL } };
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_Daemon *daemon = NULL;
    int fd = -1;
    uint64_t stamp = stamp_of(h);
    mrd_err err = MRD_OK;

    if (h->cert_path != NULL) {
        if ((err = mrd_secret_check("key file", h->key_path, why)) != MRD_OK ||
            (err = load_pem(h->cert_path, &cert, why)) != MRD_OK ||
            (err = load_pem(h->key_path, &key, why)) != MRD_OK)
            goto out;
        flags |= MHD_USE_TLS;
        tls[0] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0, cert.p };
        tls[1] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, key.p };
        tls[2] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
    }
    if ((fd = fcntl(h->listen_fd, F_DUPFD_CLOEXEC, 3)) >= 0)
        daemon = MHD_start_daemon(
            flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_ARRAY,
            tls, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION,
            on_connection, h, MHD_OPTION_CONNECTION_LIMIT, h->options.max_connections,
            MHD_OPTION_CONNECTION_TIMEOUT, h->options.idle_seconds,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) (32 << 10), MHD_OPTION_END);
    if (daemon == NULL) {
        if (fd >= 0)
            close(fd);
        err = mrd_why_set(why, MRD_INVALID, 0, "the HTTP server does not start%s",
                          h->cert_path == NULL
                              ? ""
                              : ": are certificate and key PEM files that belong together?");
    } else {
        *ret_daemon = daemon;
        h->stamp = stamp;
    }
out:
    if (key.p != NULL)
        explicit_bzero(key.p, key.len);
    mrd_buf_fini(&cert);
    mrd_buf_fini(&key);
    return err;
}

mrd_err
mrd_httpd_start(const mrd_httpd_options *options, const mrd_http_route *routes, size_t n,
                void *self, mrd_httpd **ret_httpd, mrd_why *why)
{
    mrd_httpd *h = calloc(1, sizeof(*h));
    mrd_err err;

    if (h == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "HTTP server");
    h->magic = HTTPD_MAGIC;
    h->options = *options;
    h->options.max_connections = options->max_connections == 0 ? 512 : options->max_connections;
    h->options.max_streams = options->max_streams == 0 ? 8 : options->max_streams;
    h->options.idle_seconds = options->idle_seconds == 0 ? 30 : options->idle_seconds;
    h->routes = routes;
    h->n_routes = n;
    h->self = self;
    h->listen_fd = -1;
    pthread_mutex_init(&h->lock, NULL);
    if (options->cert != NULL && options->key != NULL) {
        h->cert_path = mrd_str_dup(mrd_str_of(options->cert));
        h->key_path = mrd_str_dup(mrd_str_of(options->key));
    }
    if ((err = listen_on(options->address, options->port, &h->listen_fd, &h->port, why)) !=
            MRD_OK ||
        (err = start_daemon(h, &h->daemon, why)) != MRD_OK) {
        mrd_httpd_stop(h);
        return err;
    }
    *ret_httpd = h;
    return MRD_OK;
}

uint16_t
mrd_httpd_port(const mrd_httpd *httpd)
{
    return httpd->port;
}

/* Ends servers of before a reload whose clients have gone; all of them when forced. */
static void
retire(mrd_httpd *h, bool force)
{
    for (size_t i = 0; i < MAX_OLD; i++) {
        const union MHD_DaemonInfo *info;

        if (h->old[i] == NULL)
            continue;
        info = MHD_get_daemon_info(h->old[i], MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        if (force || (info != NULL && info->num_connections == 0)) {
            MHD_stop_daemon(h->old[i]);
            h->old[i] = NULL;
        }
    }
}

mrd_err
mrd_httpd_reload(mrd_httpd *httpd, mrd_why *why)
{
    struct MHD_Daemon *daemon = NULL;
    size_t slot = 0;
    mrd_err err;
    int fd;

    retire(httpd, false);
    while (slot < MAX_OLD && httpd->old[slot] != NULL)
        slot++;
    if (slot == MAX_OLD)
        return mrd_why_set(why, MRD_BUSY, 0,
                           "transfers of %d earlier reloads still run, try again later", MAX_OLD);
    if ((err = start_daemon(httpd, &daemon, why)) != MRD_OK)
        return err;
    fd = MHD_quiesce_daemon(httpd->daemon);
    if (fd >= 0)
        close(fd);
    httpd->old[slot] = httpd->daemon;
    httpd->daemon = daemon;
    return MRD_OK;
}

void
mrd_httpd_count(mrd_httpd *httpd, mrd_httpd_counts *ret_counts)
{
    pthread_mutex_lock(&httpd->lock);
    *ret_counts = httpd->counts;
    pthread_mutex_unlock(&httpd->lock);
}

/* Tells every producer to end and every suspended connection to go on, then waits until all are
 * gone. */
static void
stop_streams(mrd_httpd *h)
{
    struct timespec nap = { .tv_nsec = 2 * MRD_MS };
    bool left = true;

    while (left) {
        pthread_mutex_lock(&h->lock);
        h->stopping = true;
        left = false;
        for (http_stream *s = h->streams; s != NULL; s = s->next) {
            s->cancelled = true;
            pthread_cond_signal(&s->room);
            stream_wake(s);
            left = left || !s->finished; /* connections end with their server below */
        }
        pthread_mutex_unlock(&h->lock);
        if (left)
            nanosleep(&nap, NULL);
    }
}

void
mrd_httpd_stop(mrd_httpd *httpd)
{
    struct timespec nap = { .tv_nsec = 2 * MRD_MS };
    bool left = true;

    if (httpd == NULL)
        return;
    stop_streams(httpd);
    if (httpd->daemon != NULL)
        MHD_stop_daemon(httpd->daemon);
    retire(httpd, true);
    while (left) { /* a producer that has finished may still be releasing its stream */
        pthread_mutex_lock(&httpd->lock);
        left = httpd->streams != NULL;
        pthread_mutex_unlock(&httpd->lock);
        if (left)
            nanosleep(&nap, NULL);
    }
    if (httpd->listen_fd >= 0)
        close(httpd->listen_fd);
    pthread_mutex_destroy(&httpd->lock);
    free(httpd->cert_path);
    free(httpd->key_path);
    free(httpd);
}
