/* httpd/httpd_reply.c - replies of the HTTP server: texts, problems, files, and streams that a
 * thread produces */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf/log.h"
#include "base/obj.h"
#include "base/sys/threads.h"
#include "httpd/encode.h"
#include "httpd/httpd_int.h"

#define STREAM_QUEUE (1u << 20) /* maximum bytes in the queue between a producer and its client */

enum { ETAG_MAX = 96, ENCODE_MIN = 1024, FILE_CHUNK = 128 << 10 };

/* A reply with bytes that a thread produces. The producer's thread and the response of
 * libmicrohttpd share the struct. The last one to release it frees it. */
struct http_stream {
    mrd_httpd *httpd;
    struct MHD_Connection *connection;
    pthread_t thread;
    pthread_cond_t room;
    mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why);
    void (*done)(void *self);
    void *self;
    mrd_encoding encoding;
    uint8_t *queue;
    size_t head, len;
    /* the head of the reply was sent, so that its status cannot report an error any more */
    bool begun;
    bool waiting;   /* the connection is suspended until the queue has bytes */
    bool finished;  /* the producer has returned */
    bool cancelled; /* the client disconnected or the server is stopping */
    mrd_err err;
    mrd_why why; /* describes `err` */
    int owners;
    http_stream *next, **link;
};

/* ---- Replies ---- */

void
mrd_http_set_header(mrd_http_request *req, const char *name, const char *value)
{
    if (req->n_headers == HTTPD_HEADERS_MAX)
        return;
    req->headers[req->n_headers].name = mrd_str_dup(mrd_str_of(name));
    req->headers[req->n_headers].value = mrd_str_dup(mrd_str_of(value));
    req->n_headers++;
}

void
mrd_httpd_drop_headers(mrd_http_request *req)
{
    while (req->n_headers > 0) {
        req->n_headers--;
        free(req->headers[req->n_headers].name);
        free(req->headers[req->n_headers].value);
    }
}

static bool
has_header(const mrd_http_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_headers; i++) {
        if (req->headers[i].name != NULL && strcmp(req->headers[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Sends the response and adds the headers that every reply has. Takes ownership of `response`. */
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
    if (origin != NULL && strcmp(origin, HTTPD_PAGE_ORIGIN) == 0) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", HTTPD_PAGE_ORIGIN);
        MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                "Content-Disposition, Content-Range, ETag");
    }
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

/* Ends the content at once, for a reply that has no body. Such a reply has this callback instead of
 * a length, because its length must not be given as 0. */
static ssize_t
no_body(void *self, uint64_t at, char *to, size_t max)
{
    (void) self;
    (void) at;
    (void) to;
    (void) max;
    return MHD_CONTENT_READER_END_OF_STREAM;
}

static struct MHD_Response *
bodyless(void)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, no_body, NULL, NULL);
}

mrd_err
mrd_httpd_reply_empty(mrd_http_request *req, unsigned status)
{
    return send_response(req, status, bodyless());
}

mrd_err
mrd_http_reply_text(mrd_http_request *req, unsigned status, const char *type, mrd_buf *body)
{
    struct MHD_Response *response;
    mrd_err err = body->err;

    if (err == MRD_OK) {
        mrd_encoding encoding = body->len < ENCODE_MIN || has_header(req, "Content-Encoding")
                                    ? MRD_ENCODE_NONE
                                    : mrd_encode_choose(mrd_http_header(req, "Accept-Encoding"));

        /* If the body cannot be compressed, it is sent as it is. */
        if (encoding != MRD_ENCODE_NONE && mrd_encode_buf(encoding, body) == MRD_OK)
            mrd_http_set_header(req, "Content-Encoding", mrd_encode_name(encoding));
        mrd_http_set_header(req, "Content-Type", type);
        if (!has_header(req, "Cache-Control"))
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
mrd_http_reply_alive(void *self, mrd_http_request *req, mrd_why *why)
{
    mrd_buf body = { 0 };

    (void) self;
    (void) why;
    mrd_buf_text(&body, "ok\n");
    return mrd_http_reply_text(req, 200, "text/plain; charset=utf-8", &body);
}

/* Checks If-Match and If-None-Match against the entity tag of an object. If they exclude the
 * object, sends the reply and returns true. Otherwise the caller has to send the object. */
static bool
has_answered(mrd_http_request *req, const char *etag, mrd_err *ret_err)
{
    const char *match = mrd_http_header(req, "If-Match");

    if (match != NULL && !mrd_http_etag_listed(match, etag, false)) {
        *ret_err = mrd_httpd_reply_problem(req, MHD_HTTP_PRECONDITION_FAILED, "STATE",
                                           "precondition failed", "it has changed (If-Match)");
        return true;
    }
    if (!mrd_http_etag_listed(mrd_http_header(req, "If-None-Match"), etag, true))
        return false;
    *ret_err = mrd_httpd_reply_empty(req, MHD_HTTP_NOT_MODIFIED);
    return true;
}

mrd_err
mrd_http_reply_static(mrd_http_request *req, const char *type, const char *etag, mrd_bytes body)
{
    struct MHD_Response *response;
    mrd_err err;

    mrd_http_set_header(req, "ETag", etag);
    mrd_http_set_header(req, "Cache-Control", "no-cache");
    if (has_answered(req, etag, &err))
        return err;
    mrd_http_set_header(req, "Content-Type", type);
    response = MHD_create_response_from_buffer(body.len, (void *) (uintptr_t) body.p,
                                               MHD_RESPMEM_PERSISTENT);
    return send_response(req, MHD_HTTP_OK, response);
}

/* Replies with a problem document in JSON (RFC 9457). */
mrd_err
mrd_httpd_reply_problem(mrd_http_request *req, unsigned status, const char *code, const char *title,
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

mrd_err
mrd_httpd_reply_error(mrd_http_request *req, mrd_err err, const mrd_why *why)
{
    if (err == MRD_IO && (why->sys == EMFILE || why->sys == ENFILE))
        err = MRD_AGAIN; /* too many files are open; descriptors become free when connections end */
    if (err == MRD_BUSY || err == MRD_AGAIN || err == MRD_FULL)
        mrd_http_set_header(req, "Retry-After", "2");
    return mrd_httpd_reply_problem(req, (unsigned) mrd_err_http(err), mrd_err_name(err),
                                   mrd_err_text(err),
                                   why->text[0] != '\0' ? why->text : mrd_err_text(err));
}

/* ---- Streams ---- */

static void
stream_release(http_stream *stream)
{
    mrd_httpd *httpd = stream->httpd;
    bool last;

    pthread_mutex_lock(&httpd->lock);
    last = --stream->owners == 0;
    if (last) {
        *stream->link = stream->next;
        if (stream->next != NULL)
            stream->next->link = stream->link;
        httpd->counts.streams_now--;
    }
    pthread_mutex_unlock(&httpd->lock);
    if (!last)
        return;
    if (stream->done != NULL)
        stream->done(stream->self);
    pthread_cond_destroy(&stream->room);
    free(stream->queue);
    free(stream);
}

/* Resumes the stream's connection if it waits for bytes. The caller holds the lock. */
static void
stream_wake(http_stream *stream)
{
    if (!stream->begun) {
        stream->httpd->wakes++;
        mrd_httpd_hold_end(stream->httpd, true);
    }
    if (!stream->waiting)
        return;
    stream->waiting = false;
    MHD_resume_connection(stream->connection);
}

/* Adds bytes to the stream's queue, and waits for space if the queue is full. Returns false if the
 * stream was cancelled. The producer's thread calls it. */
static bool
stream_push(void *self, const void *data, size_t len)
{
    http_stream *stream = self;
    const uint8_t *bytes = data;

    pthread_mutex_lock(&stream->httpd->lock);
    while (len > 0) {
        size_t tail, n;

        while (stream->len == STREAM_QUEUE && !stream->cancelled)
            pthread_cond_wait(&stream->room, &stream->httpd->lock);
        if (stream->cancelled)
            break;
        tail = (stream->head + stream->len) & (STREAM_QUEUE - 1);
        n = STREAM_QUEUE - stream->len;
        n = n < STREAM_QUEUE - tail ? n : STREAM_QUEUE - tail;
        n = n < len ? n : len;
        memcpy(stream->queue + tail, bytes, n);
        stream->len += n;
        bytes += n;
        len -= n;
        stream_wake(stream);
    }
    pthread_mutex_unlock(&stream->httpd->lock);
    return len == 0;
}

static _Thread_local http_stream *current; /* the stream that this thread produces, or NULL */

bool
mrd_http_stream_wanted(void)
{
    bool wanted;

    MRD_ASSERT(current != NULL);
    pthread_mutex_lock(&current->httpd->lock);
    wanted = !current->cancelled;
    pthread_mutex_unlock(&current->httpd->lock);
    return wanted;
}

/* Runs the stream's producer and compresses the bytes that it writes. */
static mrd_err
produce_encoded(http_stream *stream, mrd_out *raw, mrd_why *why)
{
    mrd_encoder *encoder = NULL;
    mrd_out *out = NULL;
    mrd_err err = mrd_encoder_open(stream->encoding, raw, &encoder, why);

    if (err == MRD_OK)
        err = mrd_out_func(mrd_encoder_push, encoder, "HTTP reply", &out, why);
    if (err == MRD_OK)
        err = stream->produce(stream->self, out, why);
    if (err == MRD_OK) {
        err = mrd_out_commit(out, why);
        out = NULL;
    }
    if (err == MRD_OK)
        err = mrd_encoder_end(encoder);
    mrd_out_abort(out);
    mrd_encoder_free(encoder);
    return err;
}

/* Logs an error that occurred after the head was sent, because the client sees only a broken
 * connection. Does not log an error after the client has disconnected. */
static void
stream_said(http_stream *stream, mrd_err err, const mrd_why *why)
{
    bool is_seen;

    pthread_mutex_lock(&stream->httpd->lock);
    is_seen = stream->begun && !stream->cancelled;
    pthread_mutex_unlock(&stream->httpd->lock);
    if (err != MRD_OK && err != MRD_CANCELLED && is_seen)
        mrd_log(MRD_LOG_WARN, "AGG-HTTP-STREAM", "An HTTP reply was not finished: reason=%s",
                why->text[0] != '\0' ? why->text : mrd_err_text(err));
}

static void *
stream_main(void *self)
{
    http_stream *stream = self;
    mrd_why why = { 0 };
    mrd_out *out = NULL;
    mrd_err err = mrd_out_func(stream_push, stream, "HTTP reply", &out, &why);

    current = stream;
    if (err == MRD_OK) {
        err = stream->encoding == MRD_ENCODE_NONE ? stream->produce(stream->self, out, &why)
                                                  : produce_encoded(stream, out, &why);
        if (err == MRD_OK)
            err = mrd_out_commit(out, &why);
        else
            mrd_out_abort(out);
    }
    stream_said(stream, err, &why);
    pthread_mutex_lock(&stream->httpd->lock);
    stream->finished = true;
    stream->err = err;
    stream->why = why;
    stream->httpd->counts.cancelled += err == MRD_CANCELLED;
    stream_wake(stream);
    pthread_mutex_unlock(&stream->httpd->lock);
    stream_release(stream);
    return NULL;
}

/* Takes bytes from the stream's queue, or suspends the connection if there are none. libmicrohttpd
 * calls it in the server thread. */
static ssize_t
stream_pull(void *self, uint64_t at, char *to, size_t max)
{
    http_stream *stream = self;
    ssize_t count = 0;

    (void) at;
    pthread_mutex_lock(&stream->httpd->lock);
    if (stream->len > 0) {
        size_t run = STREAM_QUEUE - stream->head;

        count = (ssize_t) (stream->len < run ? stream->len : run);
        count = (size_t) count < max ? count : (ssize_t) max;
        memcpy(to, stream->queue + stream->head, (size_t) count);
        stream->head = (stream->head + (size_t) count) & (STREAM_QUEUE - 1);
        stream->len -= (size_t) count;
        stream->httpd->counts.bytes += (uint64_t) count;
        pthread_cond_signal(&stream->room);
    } else if (stream->finished || stream->cancelled) {
        /* The head of the reply was sent, so an error can be reported only by breaking the
         * connection. */
        count = stream->finished && stream->err == MRD_OK ? MHD_CONTENT_READER_END_OF_STREAM
                                                          : MHD_CONTENT_READER_END_WITH_ERROR;
    } else {
        stream->waiting = true;
        MHD_suspend_connection(stream->connection);
    }
    pthread_mutex_unlock(&stream->httpd->lock);
    return count;
}

static void
stream_gone(void *self)
{
    http_stream *stream = self;

    pthread_mutex_lock(&stream->httpd->lock);
    stream->cancelled = true;
    stream->waiting = false;
    pthread_cond_signal(&stream->room);
    pthread_mutex_unlock(&stream->httpd->lock);
    stream_release(stream);
}

/* Creates a stream and registers it with the server. The caller starts its thread. Returns NULL if
 * out of memory. */
static http_stream *
stream_new(mrd_http_request *req)
{
    mrd_httpd *httpd = req->httpd;
    http_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL || (stream->queue = malloc(STREAM_QUEUE)) == NULL) {
        free(stream);
        return NULL;
    }
    stream->httpd = httpd;
    stream->connection = req->connection;
    stream->owners = 2;
    mrd_cond_init(&stream->room);
    pthread_mutex_lock(&httpd->lock);
    stream->cancelled = httpd->stopping; /* after stop_streams, a new stream must end at once */
    stream->next = httpd->streams;
    stream->link = &httpd->streams;
    if (stream->next != NULL)
        stream->next->link = &stream->next;
    httpd->streams = stream;
    httpd->counts.streams++;
    httpd->counts.streams_now++;
    pthread_mutex_unlock(&httpd->lock);
    return stream;
}

static void
stream_headers(mrd_http_request *req, const char *type, const char *download)
{
    mrd_buf disposition = { 0 };

    mrd_http_set_header(req, "Content-Type", type);
    if (!has_header(req, "Cache-Control"))
        mrd_http_set_header(req, "Cache-Control", "no-store");
    if (download != NULL) {
        mrd_buf_fmt(&disposition, "attachment; filename=\"%s\"", download);
        mrd_http_set_header(req, "Content-Disposition", mrd_buf_cstr(&disposition));
        mrd_buf_fini(&disposition);
    }
}

/* Sends the reply when the stream has its first bytes or has ended. Suspends the request until
 * then. */
mrd_err
mrd_httpd_stream_begin(mrd_http_request *req)
{
    http_stream *stream = req->stream;
    uint64_t wakes = mrd_httpd_wakes(req->httpd);
    struct MHD_Response *response;
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;
    bool ready;

    pthread_mutex_lock(&stream->httpd->lock);
    ready = stream->len > 0 || stream->finished;
    if (ready && stream->len == 0 && stream->err != MRD_OK) {
        err = stream->err == MRD_CANCELLED ? MRD_AGAIN : stream->err;
        why = stream->why;
    }
    stream->begun = ready && err == MRD_OK;
    pthread_mutex_unlock(&stream->httpd->lock);
    if (!ready && mrd_http_wait(req, wakes, 0))
        return MRD_OK;
    req->stream = NULL;
    response = ready && err == MRD_OK
                   ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 64 << 10, stream_pull,
                                                       stream, stream_gone)
                   : NULL;
    if (response != NULL)
        return send_response(req, MHD_HTTP_OK, response);
    stream_gone(stream);
    mrd_httpd_drop_headers(req); /* these headers describe the stream's content, not the error */
    return mrd_httpd_reply_error(req, !ready ? MRD_AGAIN : err == MRD_OK ? MRD_NOMEM : err, &why);
}

void
mrd_httpd_stream_forget(mrd_http_request *req)
{
    if (req->stream != NULL)
        stream_gone(req->stream);
    req->stream = NULL;
}

static mrd_err
reply_stream(mrd_http_request *req, mrd_encoding encoding, const char *type, const char *download,
             mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why), void (*done)(void *self),
             void *self, mrd_why *why)
{
    mrd_httpd *httpd = req->httpd;
    http_stream *stream = NULL;
    bool full;

    if (encoding != MRD_ENCODE_NONE)
        mrd_http_set_header(req, "Content-Encoding", mrd_encode_name(encoding));
    if (strcmp(req->method, "HEAD") == 0) {
        if (done != NULL)
            done(self);
        stream_headers(req, type, download);
        return send_response(req, MHD_HTTP_OK, bodyless());
    }
    pthread_mutex_lock(&httpd->lock);
    full = httpd->stopping || httpd->counts.streams_now >= httpd->options.max_streams;
    pthread_mutex_unlock(&httpd->lock);
    if (!full)
        stream = stream_new(req);
    if (stream == NULL) {
        if (done != NULL)
            done(self);
        return mrd_why_set(why, MRD_AGAIN, 0,
                           full ? "%u transfers run already; try again in a moment"
                                : "out of memory (%u)",
                           httpd->options.max_streams);
    }
    stream->produce = produce;
    stream->done = done;
    stream->self = self;
    stream->encoding = encoding;
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        stream->owners = 1;
        stream_release(stream);
        return mrd_why_set(why, MRD_AGAIN, 0,
                           "no thread for another transfer; try again in a moment");
    }
    pthread_detach(stream->thread);
    stream_headers(req, type, download);
    req->stream = stream;
    return mrd_httpd_stream_begin(req);
}

mrd_err
mrd_http_reply_stream(mrd_http_request *req, const char *type, const char *download,
                      mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why),
                      void (*done)(void *self), void *self, mrd_why *why)
{
    return reply_stream(req, mrd_encode_choose(mrd_http_header(req, "Accept-Encoding")), type,
                        download, produce, done, self, why);
}

bool
mrd_httpd_streams_end(mrd_httpd *httpd)
{
    bool left = false;

    for (http_stream *stream = httpd->streams; stream != NULL; stream = stream->next) {
        stream->cancelled = true;
        pthread_cond_signal(&stream->room);
        stream_wake(stream);
        /* a connection that still sends the rest of a finished stream is closed when the server
         * stops */
        left = left || !stream->finished;
    }
    return left;
}

void
mrd_httpd_stream_abandon(mrd_httpd *httpd, struct MHD_Connection *connection)
{
    for (http_stream *stream = httpd->streams; stream != NULL; stream = stream->next) {
        if (stream->connection != connection || (stream->begun && !stream->waiting))
            continue;
        stream->cancelled = true;
        pthread_cond_signal(&stream->room);
        stream_wake(stream);
    }
}

/* ---- Files ---- */

/* Writes the contents of a file to `out`. It is the producer of the stream that compresses a
 * file. */
static mrd_err
file_produce(void *self, mrd_out *out, mrd_why *why)
{
    const int *fd = self;
    ssize_t n = 1;

    while (n != 0 && mrd_out_err(out) == MRD_OK) {
        n = read(*fd, mrd_out_room(out, FILE_CHUNK), FILE_CHUNK);
        if (n < 0 && errno != EINTR)
            return mrd_why_set(why, MRD_IO, errno, "reading the file to send");
        mrd_out_did(out, n > 0 ? (size_t) n : 0);
    }
    return mrd_out_err(out);
}

static void
file_done(void *self)
{
    close(*(int *) self);
    free(self);
}

static mrd_err
reply_encoded(mrd_http_request *req, int fd, mrd_encoding encoding, const char *type,
              const char *download, mrd_why *why)
{
    int *self = malloc(sizeof(*self));

    if (self == NULL) {
        close(fd);
        return MRD_NOMEM;
    }
    *self = fd;
    return reply_stream(req, encoding, type, download, file_produce, file_done, self, why);
}

/* Chooses the encoding of a file. The file is compressed if the client accepts it and a stream is
 * available. Otherwise the file is sent uncompressed, which needs no stream. */
static mrd_encoding
file_encoding(mrd_http_request *req, off_t size)
{
    mrd_httpd *httpd = req->httpd;
    bool full;

    if (mrd_http_header(req, "Range") != NULL || size < ENCODE_MIN)
        return MRD_ENCODE_NONE;
    pthread_mutex_lock(&httpd->lock);
    full = httpd->stopping || httpd->counts.streams_now >= httpd->options.max_streams;
    pthread_mutex_unlock(&httpd->lock);
    return full ? MRD_ENCODE_NONE : mrd_encode_choose(mrd_http_header(req, "Accept-Encoding"));
}

/* Writes the entity tag of a file in this encoding. Each encoding has a tag of its own, because the
 * bytes that are sent differ. */
static void
file_etag(const struct stat *st, mrd_encoding encoding, char etag[ETAG_MAX])
{
    snprintf(etag, ETAG_MAX, "\"%jx-%jx-%jx.%lx%s%s\"", (uintmax_t) st->st_ino,
             (uintmax_t) st->st_size, (uintmax_t) st->st_mtim.tv_sec,
             (unsigned long) st->st_mtim.tv_nsec, encoding == MRD_ENCODE_NONE ? "" : "-",
             encoding == MRD_ENCODE_NONE ? "" : mrd_encode_name(encoding));
}

static mrd_err
reply_beyond(mrd_http_request *req, off_t size)
{
    char text[64];

    snprintf(text, sizeof(text), "bytes */%jd", (intmax_t) size);
    mrd_http_set_header(req, "Content-Range", text);
    return mrd_httpd_reply_problem(req, MHD_HTTP_RANGE_NOT_SATISFIABLE, "RANGE",
                                   "range not satisfiable",
                                   "the file is shorter than the first byte asked for");
}

static mrd_err
reply_plain(mrd_http_request *req, int fd, const struct stat *st, bool part, uint64_t from,
            uint64_t len, const char *type, const char *download)
{
    struct MHD_Response *response;
    char text[320];

    if (part) {
        snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%jd", from, from + len - 1,
                 (intmax_t) st->st_size);
        mrd_http_set_header(req, "Content-Range", text);
    }
    mrd_http_set_header(req, "Content-Type", type);
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
    return send_response(req, part ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK, response);
}

/* Returns the error for a file that could not be opened, where `sys` is the errno. NOTFOUND is only
 * for a missing file, a special file or a link, because a client does not retry after NOTFOUND. */
static mrd_err
no_file(int sys, mrd_why *why)
{
    if (sys == 0 || sys == ENOENT || sys == ENOTDIR || sys == ELOOP || sys == ENXIO ||
        sys == ENAMETOOLONG)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "no such file");
    return mrd_why_set(why, MRD_IO, sys, "the file cannot be read");
}

/* Sets Last-Modified, in the fixed format of RFC 9110, which does not depend on the locale. */
static void
set_modified(mrd_http_request *req, time_t at)
{
    static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    struct tm tm;
    char text[64];

    if (gmtime_r(&at, &tm) == NULL)
        return;
    snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
             tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    mrd_http_set_header(req, "Last-Modified", text);
}

mrd_err
mrd_http_reply_file(mrd_http_request *req, const char *path, const char *type, const char *download,
                    mrd_why *why)
{
    const char *if_range = mrd_http_header(req, "If-Range");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), kind;
    mrd_encoding encoding;
    uint64_t from = 0, len;
    char etag[ETAG_MAX];
    struct stat st;
    mrd_err err;

    if (fd < 0)
        return no_file(errno, why);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return no_file(0, why);
    }
    len = (uint64_t) st.st_size;
    encoding = file_encoding(req, st.st_size);
    file_etag(&st, encoding, etag);
    mrd_http_set_header(req, "ETag", etag);
    set_modified(req, st.st_mtim.tv_sec);
    mrd_http_set_header(req, "Accept-Ranges", "bytes");
    mrd_http_set_header(req, "Cache-Control", "no-cache");
    if (has_answered(req, etag, &err)) {
        close(fd);
        return err;
    }
    kind = if_range == NULL || strcmp(if_range, etag) == 0
               ? mrd_http_range(mrd_http_header(req, "Range"), len, &from, &len)
               : 0;
    if (kind < 0) {
        close(fd);
        return reply_beyond(req, st.st_size);
    }
    if (encoding != MRD_ENCODE_NONE)
        return reply_encoded(req, fd, encoding, type, download, why);
    return reply_plain(req, fd, &st, kind > 0, from, len, type, download);
}

const char *
mrd_http_header(mrd_http_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_HEADER_KIND, name);
}

mrd_action
mrd_http_action(const mrd_http_request *req)
{
    return req->route->action;
}
