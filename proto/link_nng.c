#include "proto/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/protocol/survey0/respond.h>
#include <nng/protocol/survey0/survey.h>
#include <nng/transport/tls/tls.h>

#include "base/map.h"
#include "base/obj.h"
#include "proto/cert.h"
#include "proto/nng_end.h"
#include "proto/tls.h"

#define SLOT_MAGIC   0x4d4c534cu
#define HOLD_MAGIC   0x4d4c484cu
#define SURVEY_SLOTS 4
#define REBUFF_NS    (2 * MRD_SEC)
#define URGENT       1 /* slots beyond the window */

/* ---- Common ---- */

uint64_t
mrd_link_raise_files(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 1024;
    lim.rlim_cur = lim.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &lim) != 0)
        getrlimit(RLIMIT_NOFILE, &lim);
    return lim.rlim_cur;
}

static mrd_err
nng_why(mrd_why *why, int rv, const char *what, const char *url)
{
    static const struct {
        int nng;
        mrd_err err;
    } map[] = { { NNG_ENOMEM, MRD_NOMEM },        { NNG_EADDRINVAL, MRD_INVALID },
                { NNG_EINVAL, MRD_INVALID },      { NNG_EADDRINUSE, MRD_BUSY },
                { NNG_ENOTSUP, MRD_UNSUPPORTED }, { NNG_ECRYPTO, MRD_AUTH },
                { NNG_ECLOSED, MRD_CLOSED },      { NNG_ETIMEDOUT, MRD_TIMEOUT } };
    mrd_err err = MRD_NET;

    for (size_t i = 0; i < MRD_COUNT(map); i++) {
        if (map[i].nng == rv)
            err = map[i].err;
    }
    return mrd_why_set(why, err, 0, "cannot %s %s: %s", what, url, nng_strerror(rv));
}

/* "tls+tcp://host:port", "tls+tcp://[::1]:port": the host. */
static void
host_of(const char *url, char *to, size_t size)
{
    const char *p = strstr(url, "://");
    size_t n;

    p = p == NULL ? url : p + 3;
    if (*p == '[') {
        p++;
        n = strcspn(p, "]");
    } else {
        n = strcspn(p, ":/");
    }
    snprintf(to, size, "%.*s", (int) n, p);
}

static bool
wants_tls(const char *url)
{
    return url != NULL && strncmp(url, "tls+", 4) == 0;
}

/* One mrd_tls for both addresses of an end; *ret_tls stays NULL when neither asks for TLS. */
static mrd_err
tls_for(const char *data_url, const char *control_url, const mrd_link_tls *files, bool server,
        mrd_tls **ret_tls, mrd_why *why)
{
    const char *url = wants_tls(data_url) ? data_url : control_url;
    mrd_err err;

    if (!wants_tls(url))
        return MRD_OK;
    if ((err = mrd_tls_open(files, server, ret_tls, why)) != MRD_OK)
        mrd_why_prefix(why, err, "%s", url);
    return err;
}

static nng_duration
ms_of(mrd_dur_ns ns, mrd_dur_ns def)
{
    mrd_dur_ns ms = (ns > 0 ? ns : def) / MRD_MS;

    return ms < 1 ? 1 : ms > INT32_MAX ? INT32_MAX : (nng_duration) ms;
}

static mrd_err
dialer(nng_socket s, const char *url, mrd_tls *tls, const char *server_name, nng_dialer *d,
       mrd_why *why)
{
    nng_tls_config *cfg = NULL;
    char host[256];
    int rv = 0;

    host_of(url, host, sizeof(host));
    if (wants_tls(url))
        rv = mrd_tls_nng_config(tls, server_name == NULL ? host : server_name, &cfg);
    if (rv == 0)
        rv = nng_dialer_create(d, s, url);
    if (rv == 0 && cfg != NULL)
        rv = nng_dialer_set_ptr(*d, NNG_OPT_TLS_CONFIG, cfg);
    if (cfg != NULL)
        nng_tls_config_free(cfg); /* the dialer has its own reference */
    return rv == 0 ? MRD_OK : nng_why(why, rv, "dial", url);
}

static nng_msg *
msg_of(mrd_bytes frame)
{
    nng_msg *msg;

    if (nng_msg_alloc(&msg, frame.len) != 0)
        return NULL;
    if (frame.len > 0)
        memcpy(nng_msg_body(msg), frame.p, frame.len);
    return msg;
}

/* ---- Agent ---- */

typedef enum { SLOT_IDLE, SLOT_SENDING, SLOT_RECEIVING, SLOT_HELD } slot_state;

/* One request in flight, or one survey being answered. */
typedef struct {
    uint32_t magic;
    mrd_link *link;
    nng_ctx ctx;
    nng_aio *aio;
    bool open;
    slot_state state; /* under link->lock */
    uint64_t tag;
} slot;

typedef struct queued {
    struct queued *next;
    mrd_link_event ev;
} queued;

struct mrd_link {
    mrd_tls *tls; /* NULL: none */
    nng_socket req, resp;
    bool req_open, resp_open;
    unsigned window;
    nng_duration reply_ms, min_ms, max_ms;
    nng_dialer data, control;
    slot slots[MRD_LINK_WINDOW_MAX + URGENT];
    slot surveys[SURVEY_SLOTS];
    pthread_mutex_t lock; /* guards slot states, the queue, up and closing; innermost */
    pthread_cond_t wake;
    queued *first, **last;
    int fd;
    bool up, closing;
    uint32_t pipe; /* the connection that is up */
    int64_t up_ns;
    bool welcome;       /* on this connection */
    bool control_waits; /* for the first welcome */
    unsigned rebuffs;   /* connections in a row that were closed at once */
    uint64_t survey_tags;
};

/* Appends to the queue; the caller holds the lock. Without memory the message is lost, which the
 * peer's transport repairs by repeating. */
static void
queue_put(mrd_link *link, mrd_link_event ev, nng_msg *msg)
{
    queued *q = calloc(1, sizeof(*q));
    uint64_t one = 1;

    if (q == NULL || link->closing) {
        free(q);
        if (msg != NULL)
            nng_msg_free(msg);
        return;
    }
    q->ev = ev;
    q->ev.at_ns = mrd_local_now().ns;
    q->ev.keep = msg;
    if (msg != NULL)
        q->ev.data = (mrd_bytes){ nng_msg_body(msg), nng_msg_len(msg) };
    *link->last = q;
    link->last = &q->next;
    pthread_cond_signal(&link->wake);
    if (write(link->fd, &one, sizeof(one)) < 0) {
        /* the counter is at its end, so the descriptor is readable anyway */
    }
}

static void
slot_fail(slot *s, int rv)
{
    mrd_link *link = s->link;
    mrd_err err = rv == NNG_ETIMEDOUT ? MRD_TIMEOUT : rv == NNG_ENOMEM ? MRD_NOMEM : MRD_CLOSED;

    pthread_mutex_lock(&link->lock);
    s->state = SLOT_IDLE;
    queue_put(link, (mrd_link_event){ .kind = MRD_LINK_FAILED, .tag = s->tag, .err = err }, NULL);
    pthread_mutex_unlock(&link->lock);
}

static bool
is_welcome(nng_msg *msg)
{
    mrd_bytes data = { nng_msg_body(msg), nng_msg_len(msg) };
    mrd_frame f;

    return mrd_frame_get(data, &f, NULL) == MRD_OK && f.type == MRD_FRAME_WELCOME;
}

/* Only now the control channel is dialled: agents for whom there is no room take none there. */
static void
on_welcome(mrd_link *link)
{
    bool dial_control, eager;

    pthread_mutex_lock(&link->lock);
    dial_control = link->control_waits && !link->closing;
    eager = link->rebuffs > 0;
    link->control_waits = false;
    link->welcome = true;
    link->rebuffs = 0;
    pthread_mutex_unlock(&link->lock);
    if (dial_control)
        (void) nng_dialer_start(link->control, NNG_FLAG_NONBLOCK);
    if (eager)
        (void) nng_dialer_set_ms(link->data, NNG_OPT_RECONNMINT, link->min_ms);
}

/* Completion of a send or a receive of a request. */
static void
request_cb(void *arg)
{
    slot *s = arg;
    mrd_link *link;
    nng_msg *msg;
    int rv;

    MRD_CHECK_MAGIC(s, SLOT_MAGIC);
    link = s->link;
    rv = nng_aio_result(s->aio);
    if (rv != 0) {
        msg = s->state == SLOT_SENDING ? nng_aio_get_msg(s->aio) : NULL;
        if (msg != NULL)
            nng_msg_free(msg); /* a failed send leaves the message with us */
        slot_fail(s, rv);
        return;
    }
    if (s->state == SLOT_SENDING) {
        pthread_mutex_lock(&link->lock);
        s->state = SLOT_RECEIVING;
        pthread_mutex_unlock(&link->lock);
        nng_ctx_recv(s->ctx, s->aio);
        return;
    }
    msg = nng_aio_get_msg(s->aio);
    if (is_welcome(msg))
        on_welcome(link);
    pthread_mutex_lock(&link->lock);
    s->state = SLOT_IDLE;
    queue_put(link, (mrd_link_event){ .kind = MRD_LINK_REPLY, .tag = s->tag }, msg);
    pthread_mutex_unlock(&link->lock);
}

/* A survey came, or its answer went. */
static void
survey_cb(void *arg)
{
    slot *s = arg;
    mrd_link *link;
    bool closing;
    int rv;

    MRD_CHECK_MAGIC(s, SLOT_MAGIC);
    link = s->link;
    rv = nng_aio_result(s->aio);
    pthread_mutex_lock(&link->lock);
    closing = link->closing || rv == NNG_ECLOSED || rv == NNG_ECANCELED;
    if (rv != 0 && s->state == SLOT_SENDING && nng_aio_get_msg(s->aio) != NULL)
        nng_msg_free(nng_aio_get_msg(s->aio));
    if (rv == 0 && s->state == SLOT_RECEIVING) {
        s->state = SLOT_HELD;
        s->tag = ++link->survey_tags;
        queue_put(link, (mrd_link_event){ .kind = MRD_LINK_CONTROL, .tag = s->tag },
                  nng_aio_get_msg(s->aio));
        pthread_mutex_unlock(&link->lock);
        return;
    }
    s->state = closing ? SLOT_IDLE : SLOT_RECEIVING;
    pthread_mutex_unlock(&link->lock);
    if (!closing)
        nng_ctx_recv(s->ctx, s->aio);
}

/* The transport backs off while nobody listens. Who listens and closes at once, because it has no
 * room, would be dialled for ever at the shortest interval. The caller holds the lock. */
static nng_duration
back_off(const mrd_link *link)
{
    nng_duration ms = link->min_ms;

    for (unsigned i = 0; i < link->rebuffs && ms < link->max_ms; i++)
        ms *= 2;
    return ms < link->max_ms ? ms : link->max_ms;
}

static void
pipe_cb(nng_pipe p, nng_pipe_ev what, void *arg)
{
    mrd_link *link = arg;
    uint32_t id = (uint32_t) nng_pipe_id(p);
    bool add = what == NNG_PIPE_EV_ADD_POST, rebuffed = false;
    int64_t now = mrd_local_now().ns;
    nng_duration ms;

    pthread_mutex_lock(&link->lock);
    if (add || (link->up && link->pipe == id)) {
        rebuffed = !add && !link->welcome && now - link->up_ns < REBUFF_NS;
        link->rebuffs += rebuffed;
        link->up = add;
        link->pipe = id;
        link->up_ns = now;
        link->welcome = false;
        queue_put(link, (mrd_link_event){ .kind = add ? MRD_LINK_UP : MRD_LINK_DOWN }, NULL);
    }
    ms = back_off(link);
    pthread_mutex_unlock(&link->lock);
    if (rebuffed)
        (void) nng_dialer_set_ms(link->data, NNG_OPT_RECONNMINT, ms);
}

static int
slot_open(slot *s, mrd_link *link, nng_socket socket, void (*cb)(void *))
{
    int rv;

    s->magic = SLOT_MAGIC;
    s->link = link;
    if ((rv = nng_ctx_open(&s->ctx, socket)) != 0)
        return rv;
    if ((rv = nng_aio_alloc(&s->aio, cb, s)) != 0) {
        nng_ctx_close(s->ctx);
        return rv;
    }
    s->open = true;
    return 0;
}

static void
slot_close(slot *s)
{
    if (!s->open)
        return;
    nng_aio_stop(s->aio); /* waits for the callback */
    nng_aio_free(s->aio);
    nng_ctx_close(s->ctx);
    s->open = false;
}

static mrd_err
link_open_data(mrd_link *link, const mrd_link_options *o, mrd_why *why)
{
    int rv = nng_req0_open(&link->req);

    if (rv != 0)
        return nng_why(why, rv, "open a socket for", o->data_url);
    link->req_open = true;
    if ((rv = nng_socket_set_size(link->req, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_socket_set_ms(link->req, NNG_OPT_RECONNMINT, link->min_ms)) != 0 ||
        (rv = nng_socket_set_ms(link->req, NNG_OPT_RECONNMAXT, link->max_ms)) != 0 ||
        (rv = nng_socket_set_ms(link->req, NNG_OPT_REQ_RESENDTIME,
                                ms_of(o->resend_ns, 5 * MRD_SEC))) != 0 ||
        (rv = nng_pipe_notify(link->req, NNG_PIPE_EV_ADD_POST, pipe_cb, link)) != 0 ||
        (rv = nng_pipe_notify(link->req, NNG_PIPE_EV_REM_POST, pipe_cb, link)) != 0)
        return nng_why(why, rv, "set up the socket for", o->data_url);
    for (unsigned i = 0; i < link->window + URGENT; i++) {
        if ((rv = slot_open(&link->slots[i], link, link->req, request_cb)) != 0)
            return nng_why(why, rv, "set up the socket for", o->data_url);
        nng_aio_set_timeout(link->slots[i].aio, link->reply_ms);
    }
    return dialer(link->req, o->data_url, link->tls, o->tls.server_name, &link->data, why);
}

static mrd_err
link_open_control(mrd_link *link, const mrd_link_options *o, mrd_why *why)
{
    int rv = nng_respondent0_open(&link->resp);

    if (rv != 0)
        return nng_why(why, rv, "open a socket for", o->control_url);
    link->resp_open = true;
    if ((rv = nng_socket_set_size(link->resp, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_socket_set_ms(link->resp, NNG_OPT_RECONNMINT, link->min_ms)) != 0 ||
        (rv = nng_socket_set_ms(link->resp, NNG_OPT_RECONNMAXT, link->max_ms)) != 0)
        return nng_why(why, rv, "set up the socket for", o->control_url);
    for (int i = 0; i < SURVEY_SLOTS; i++) {
        slot *s = &link->surveys[i];

        if ((rv = slot_open(s, link, link->resp, survey_cb)) != 0)
            return nng_why(why, rv, "set up the socket for", o->control_url);
        s->state = SLOT_RECEIVING;
        nng_ctx_recv(s->ctx, s->aio);
    }
    link->control_waits = true; /* until we are welcome */
    return dialer(link->resp, o->control_url, link->tls, o->tls.server_name, &link->control, why);
}

mrd_err
mrd_link_open(const mrd_link_options *o, mrd_link **ret_link, mrd_why *why)
{
    mrd_link *link = calloc(1, sizeof(*link));
    pthread_condattr_t attr;
    mrd_err err;
    int rv;

    if (link == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "link to %s", o->data_url);
    link->window = o->window == 0                    ? 8
                   : o->window > MRD_LINK_WINDOW_MAX ? MRD_LINK_WINDOW_MAX
                                                     : o->window;
    link->reply_ms = ms_of(o->reply_ns, 30 * MRD_SEC);
    link->min_ms = ms_of(o->reconnect_min_ns, 100 * MRD_MS);
    link->max_ms = ms_of(o->reconnect_max_ns, 10 * MRD_SEC);
    link->last = &link->first;
    pthread_mutex_init(&link->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&link->wake, &attr);
    pthread_condattr_destroy(&attr);
    link->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    err = link->fd < 0 ? mrd_why_set(why, MRD_IO, errno, "link to %s", o->data_url)
                       : tls_for(o->data_url, o->control_url, &o->tls, false, &link->tls, why);
    if (err == MRD_OK)
        err = link_open_data(link, o, why);
    if (err == MRD_OK && o->control_url != NULL)
        err = link_open_control(link, o, why);
    if (err == MRD_OK && (rv = nng_dialer_start(link->data, NNG_FLAG_NONBLOCK)) != 0)
        err = nng_why(why, rv, "dial", o->data_url); /* else it goes on trying behind the scenes */
    if (err != MRD_OK) {
        mrd_link_close(link);
        return err;
    }
    *ret_link = link;
    return MRD_OK;
}

void
mrd_link_close(mrd_link *link)
{
    bool closed = true;

    if (link == NULL)
        return;
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_cond_broadcast(&link->wake);
    pthread_mutex_unlock(&link->lock);
    for (size_t i = 0; i < MRD_COUNT(link->slots); i++)
        slot_close(&link->slots[i]);
    for (size_t i = 0; i < MRD_COUNT(link->surveys); i++)
        slot_close(&link->surveys[i]);
    if (link->req_open)
        closed = mrd_nng_close(link->req);
    if (link->resp_open)
        closed = mrd_nng_close(link->resp) && closed;
    while (link->first != NULL) {
        queued *q = link->first;

        link->first = q->next;
        mrd_link_event_done(&q->ev);
        free(q);
    }
    if (!closed) { /* callbacks may still come */
        mrd_nng_keep(link);
        return;
    }
    mrd_tls_close(link->tls);
    if (link->fd >= 0)
        close(link->fd);
    pthread_cond_destroy(&link->wake);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

/* Sends through the first idle slot of [from, to). */
static mrd_err
submit_in(mrd_link *link, unsigned from, unsigned to, uint64_t tag, mrd_bytes frame)
{
    slot *s = NULL;
    nng_msg *msg;

    if (frame.len > MRD_FRAME_MAX)
        return MRD_LIMIT;
    if ((msg = msg_of(frame)) == NULL)
        return MRD_NOMEM;
    pthread_mutex_lock(&link->lock);
    for (unsigned i = from; i < to && s == NULL; i++) {
        if (link->slots[i].state == SLOT_IDLE)
            s = &link->slots[i];
    }
    if (s != NULL) {
        s->state = SLOT_SENDING;
        s->tag = tag;
    }
    pthread_mutex_unlock(&link->lock);
    if (s == NULL) {
        nng_msg_free(msg);
        return MRD_AGAIN;
    }
    nng_aio_set_msg(s->aio, msg);
    nng_ctx_send(s->ctx, s->aio);
    return MRD_OK;
}

mrd_err
mrd_link_submit(mrd_link *link, uint64_t tag, mrd_bytes frame)
{
    return submit_in(link, 0, link->window, tag, frame);
}

mrd_err
mrd_link_submit_urgent(mrd_link *link, uint64_t tag, mrd_bytes frame)
{
    return submit_in(link, link->window, link->window + URGENT, tag, frame);
}

unsigned
mrd_link_free_slots(const mrd_link *link)
{
    mrd_link *l = (mrd_link *) (uintptr_t) link; /* the lock is no part of its value */
    unsigned n = 0;

    pthread_mutex_lock(&l->lock);
    for (unsigned i = 0; i < l->window; i++)
        n += l->slots[i].state == SLOT_IDLE;
    pthread_mutex_unlock(&l->lock);
    return n;
}

bool
mrd_link_is_up(const mrd_link *link)
{
    mrd_link *l = (mrd_link *) (uintptr_t) link;
    bool up;

    pthread_mutex_lock(&l->lock);
    up = l->up;
    pthread_mutex_unlock(&l->lock);
    return up;
}

mrd_err
mrd_link_answer(mrd_link *link, uint64_t tag, mrd_bytes frame)
{
    nng_msg *msg = frame.len == 0 ? NULL : msg_of(frame);
    slot *s = NULL;

    if (frame.len > 0 && msg == NULL)
        return MRD_NOMEM;
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < SURVEY_SLOTS && s == NULL; i++) {
        if (link->surveys[i].state == SLOT_HELD && link->surveys[i].tag == tag)
            s = &link->surveys[i];
    }
    if (s != NULL)
        s->state = msg == NULL ? SLOT_RECEIVING : SLOT_SENDING;
    pthread_mutex_unlock(&link->lock);
    if (s == NULL) {
        if (msg != NULL)
            nng_msg_free(msg);
        return MRD_INVALID;
    }
    if (msg == NULL) {
        nng_ctx_recv(s->ctx, s->aio);
    } else {
        nng_aio_set_msg(s->aio, msg);
        nng_ctx_send(s->ctx, s->aio);
    }
    return MRD_OK;
}

mrd_err
mrd_link_reload(mrd_link *link, mrd_why *why)
{
    return link->tls == NULL ? MRD_OK : mrd_tls_reload(link->tls, why);
}

bool
mrd_link_changed(mrd_link *link)
{
    return link->tls != NULL && mrd_tls_changed(link->tls);
}

bool
mrd_link_trouble(mrd_link *link, mrd_why *ret_why)
{
    return link->tls != NULL && mrd_tls_trouble(link->tls, ret_why);
}

int
mrd_link_fd(const mrd_link *link)
{
    return link->fd;
}

static void
deadline_in(int timeout_ms, struct timespec *ts)
{
    clock_gettime(CLOCK_MONOTONIC, ts);
    ts->tv_sec += timeout_ms / 1000;
    ts->tv_nsec += timeout_ms % 1000 * 1000000L;
    if (ts->tv_nsec >= 1000000000L) {
        ts->tv_nsec -= 1000000000L;
        ts->tv_sec++;
    }
}

/* Waits on cond for timeout_ms (-1: for ever); false when it is over. */
static bool
cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int timeout_ms, const struct timespec *end)
{
    if (timeout_ms == 0)
        return false;
    if (timeout_ms < 0)
        return pthread_cond_wait(cond, lock) == 0;
    return pthread_cond_timedwait(cond, lock, end) == 0;
}

bool
mrd_link_next(mrd_link *link, int timeout_ms, mrd_link_event *ret_event)
{
    struct timespec end = { 0 };
    queued *q;
    uint64_t n;

    if (timeout_ms > 0)
        deadline_in(timeout_ms, &end);
    pthread_mutex_lock(&link->lock);
    while (link->first == NULL && !link->closing &&
           cond_wait(&link->wake, &link->lock, timeout_ms, &end))
        ;
    if ((q = link->first) != NULL) {
        link->first = q->next;
        if (link->first == NULL)
            link->last = &link->first;
    }
    if (link->first == NULL && read(link->fd, &n, sizeof(n)) < 0) {
        /* it was not readable: nothing to take back */
    }
    pthread_mutex_unlock(&link->lock);
    if (q == NULL)
        return false;
    *ret_event = q->ev;
    free(q);
    return true;
}

void
mrd_link_event_done(mrd_link_event *event)
{
    if (event->keep != NULL)
        nng_msg_free(event->keep);
    *event = (mrd_link_event){ 0 };
}

/* ---- Aggregator ---- */

/* One context: waits for a request, is held by the caller, or sends an answer. */
typedef struct hold {
    uint32_t magic;
    mrd_server *server;
    nng_ctx ctx;
    nng_aio *aio;
    bool open, sending;
    int64_t at_ns;     /* RAW, when the request came */
    struct hold *next; /* in the queue of requests */
} hold;

struct mrd_server {
    mrd_tls *tls; /* NULL: none */
    nng_socket rep, surveyor;
    bool rep_open, surveyor_open;
    char *data_url, *control_url;
    hold *holds;
    unsigned n_holds, max_connections;
    pthread_mutex_t lock; /* guards all below; innermost */
    pthread_cond_t wake;
    hold *first, **last;
    bool closing, woken;
    mrd_map conns; /* by pipe: 1 within the limit, 0 beyond it and waiting for room */
    mrd_map controls;
    unsigned n_conns, n_within, control_conns;
    uint64_t refused;
};

static void
hold_receive(hold *h)
{
    h->sending = false;
    nng_ctx_recv(h->ctx, h->aio);
}

static void
hold_cb(void *arg)
{
    hold *h = arg;
    mrd_server *s;
    int rv;

    MRD_CHECK_MAGIC(h, HOLD_MAGIC);
    s = h->server;
    rv = nng_aio_result(h->aio);
    if (rv == NNG_ECLOSED || rv == NNG_ECANCELED) {
        if (h->sending && nng_aio_get_msg(h->aio) != NULL)
            nng_msg_free(nng_aio_get_msg(h->aio));
        return;
    }
    if (rv != 0 || h->sending) {
        if (rv != 0 && h->sending && nng_aio_get_msg(h->aio) != NULL)
            nng_msg_free(nng_aio_get_msg(h->aio)); /* the peer is gone; it will ask again */
        hold_receive(h);
        return;
    }
    h->at_ns = mrd_local_now().ns;
    pthread_mutex_lock(&s->lock);
    h->next = NULL;
    *s->last = h;
    s->last = &h->next;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

static mrd_map_key
conn_key(uint32_t id)
{
    return (mrd_map_key){ .a = id };
}

/* Remembers a connection; false when even the waiting room is full. */
static bool
conn_add(mrd_server *s, uint32_t id)
{
    bool within = s->n_within < s->max_connections;

    if (s->n_conns >= s->max_connections + MRD_SERVER_WAITING ||
        mrd_map_put(&s->conns, conn_key(id), within) != MRD_OK)
        return false;
    s->n_conns++;
    s->n_within += within;
    return true;
}

static void
conn_remove(mrd_server *s, uint32_t id)
{
    uint32_t within = mrd_map_get(&s->conns, conn_key(id));

    if (within == MRD_MAP_NONE) /* it was never let in */
        return;
    mrd_map_remove(&s->conns, conn_key(id));
    s->n_conns--;
    s->n_within -= within;
}

static void
server_pipe_cb(nng_pipe p, nng_pipe_ev what, void *arg)
{
    uint32_t id = (uint32_t) nng_pipe_id(p);
    mrd_server *s = arg;
    bool ok = true;

    pthread_mutex_lock(&s->lock);
    if (what != NNG_PIPE_EV_ADD_PRE)
        conn_remove(s, id);
    else if (!(ok = conn_add(s, id)))
        s->refused++;
    pthread_mutex_unlock(&s->lock);
    if (!ok)
        nng_pipe_close(p);
}

/* Agents have one for data and one for control. */
static void
control_pipe_cb(nng_pipe p, nng_pipe_ev what, void *arg)
{
    uint32_t id = (uint32_t) nng_pipe_id(p);
    mrd_server *s = arg;
    bool ok = true;

    pthread_mutex_lock(&s->lock);
    if (what != NNG_PIPE_EV_ADD_PRE) {
        s->control_conns -= mrd_map_get(&s->controls, conn_key(id)) != MRD_MAP_NONE;
        mrd_map_remove(&s->controls, conn_key(id));
    } else {
        ok = s->control_conns < s->max_connections + MRD_SERVER_WAITING &&
             mrd_map_put(&s->controls, conn_key(id), 1) == MRD_OK;
        s->control_conns += ok;
        s->refused += !ok;
    }
    pthread_mutex_unlock(&s->lock);
    if (!ok)
        nng_pipe_close(p);
}

static mrd_err
listen_on(nng_socket socket, const char *url, mrd_tls *tls, char **ret_url, mrd_why *why)
{
    nng_tls_config *cfg = NULL;
    nng_listener l;
    char *actual = NULL;
    int rv = wants_tls(url) ? mrd_tls_nng_config(tls, NULL, &cfg) : 0;

    if (rv == 0)
        rv = nng_listener_create(&l, socket, url);
    if (rv == 0 && cfg != NULL)
        rv = nng_listener_set_ptr(l, NNG_OPT_TLS_CONFIG, cfg);
    if (rv == 0)
        rv = nng_listener_start(l, 0);
    if (cfg != NULL)
        nng_tls_config_free(cfg);
    if (rv != 0)
        return nng_why(why, rv, "listen on", url);
    if (nng_listener_get_string(l, NNG_OPT_URL, &actual) == 0) {
        *ret_url = mrd_str_dup(mrd_str_of(actual));
        nng_strfree(actual);
    } else {
        *ret_url = mrd_str_dup(mrd_str_of(url));
    }
    return *ret_url == NULL ? MRD_NOMEM : MRD_OK;
}

static mrd_err
server_open_data(mrd_server *s, const mrd_server_options *o, mrd_why *why)
{
    int rv = nng_rep0_open(&s->rep);

    if (rv != 0)
        return nng_why(why, rv, "open a socket for", o->data_url);
    s->rep_open = true;
    if ((rv = nng_socket_set_size(s->rep, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_pipe_notify(s->rep, NNG_PIPE_EV_ADD_PRE, server_pipe_cb, s)) != 0 ||
        (rv = nng_pipe_notify(s->rep, NNG_PIPE_EV_REM_POST, server_pipe_cb, s)) != 0)
        return nng_why(why, rv, "set up the socket for", o->data_url);
    for (unsigned i = 0; i < s->n_holds; i++) {
        hold *h = &s->holds[i];

        h->magic = HOLD_MAGIC;
        h->server = s;
        if ((rv = nng_ctx_open(&h->ctx, s->rep)) != 0)
            return nng_why(why, rv, "set up the socket for", o->data_url);
        if ((rv = nng_aio_alloc(&h->aio, hold_cb, h)) != 0) {
            nng_ctx_close(h->ctx);
            return nng_why(why, rv, "set up the socket for", o->data_url);
        }
        h->open = true;
        hold_receive(h);
    }
    return listen_on(s->rep, o->data_url, s->tls, &s->data_url, why);
}

static mrd_err
server_open_control(mrd_server *s, const mrd_server_options *o, mrd_why *why)
{
    int rv = nng_surveyor0_open(&s->surveyor);

    if (rv != 0)
        return nng_why(why, rv, "open a socket for", o->control_url);
    s->surveyor_open = true;
    if ((rv = nng_socket_set_size(s->surveyor, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_pipe_notify(s->surveyor, NNG_PIPE_EV_ADD_PRE, control_pipe_cb, s)) != 0 ||
        (rv = nng_pipe_notify(s->surveyor, NNG_PIPE_EV_REM_POST, control_pipe_cb, s)) != 0)
        return nng_why(why, rv, "set up the socket for", o->control_url);
    return listen_on(s->surveyor, o->control_url, s->tls, &s->control_url, why);
}

/* How many agents the descriptors are enough for: each has two connections and a journal. */
static unsigned
connections_for_files(void)
{
    struct rlimit lim;
    rlim_t rest;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 256;
    lim.rlim_cur = lim.rlim_cur > 3000000 ? 3000000 : lim.rlim_cur;
    rest = lim.rlim_cur < 4096 ? lim.rlim_cur / 4 + 48 : 1024; /* files, HTTP, who waits */
    return rest + 3 > lim.rlim_cur ? 1 : (unsigned) ((lim.rlim_cur - rest) / 3);
}

mrd_err
mrd_server_open(const mrd_server_options *o, mrd_server **ret_server, mrd_why *why)
{
    mrd_server *s = calloc(1, sizeof(*s));
    pthread_condattr_t attr;
    mrd_err err;

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "server on %s", o->data_url);
    s->n_holds = o->contexts == 0 ? 64 : o->contexts;
    s->max_connections = o->max_connections == 0 ? connections_for_files() : o->max_connections;
    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    s->holds = calloc(s->n_holds, sizeof(*s->holds));
    err = s->holds == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "server on %s", o->data_url)
                           : tls_for(o->data_url, o->control_url, &o->tls, true, &s->tls, why);
    if (err == MRD_OK)
        err = server_open_data(s, o, why);
    if (err == MRD_OK && o->control_url != NULL)
        err = server_open_control(s, o, why);
    if (err != MRD_OK) {
        mrd_server_close(s);
        return err;
    }
    *ret_server = s;
    return MRD_OK;
}

void
mrd_server_close(mrd_server *s)
{
    bool closed = true;

    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    for (unsigned i = 0; s->holds != NULL && i < s->n_holds; i++) {
        if (s->holds[i].open)
            nng_aio_stop(s->holds[i].aio);
    }
    for (hold *h = s->first; h != NULL; h = h->next) { /* received, never taken */
        if (nng_aio_get_msg(h->aio) != NULL)
            nng_msg_free(nng_aio_get_msg(h->aio));
    }
    for (unsigned i = 0; s->holds != NULL && i < s->n_holds; i++) {
        if (s->holds[i].open) {
            nng_aio_free(s->holds[i].aio);
            nng_ctx_close(s->holds[i].ctx);
        }
    }
    if (s->rep_open)
        closed = mrd_nng_close(s->rep);
    if (s->surveyor_open)
        closed = mrd_nng_close(s->surveyor) && closed;
    if (!closed) { /* callbacks may still come */
        mrd_nng_keep(s);
        return;
    }
    mrd_tls_close(s->tls);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s->holds);
    mrd_map_fini(&s->conns);
    mrd_map_fini(&s->controls);
    free(s->data_url);
    free(s->control_url);
    free(s);
}

const char *
mrd_server_data_url(const mrd_server *s)
{
    return s->data_url;
}

const char *
mrd_server_control_url(const mrd_server *s)
{
    return s->control_url == NULL ? "" : s->control_url;
}

bool
mrd_server_next(mrd_server *s, int timeout_ms, mrd_server_request *ret_request)
{
    struct timespec end = { 0 };
    nng_msg *msg;
    hold *h;

    if (timeout_ms > 0)
        deadline_in(timeout_ms, &end);
    pthread_mutex_lock(&s->lock);
    while (s->first == NULL && !s->closing && !s->woken &&
           cond_wait(&s->wake, &s->lock, timeout_ms, &end))
        ;
    s->woken = false;
    if ((h = s->closing ? NULL : s->first) != NULL) {
        s->first = h->next;
        if (s->first == NULL)
            s->last = &s->first;
    }
    pthread_mutex_unlock(&s->lock);
    if (h == NULL)
        return false;
    msg = nng_aio_get_msg(h->aio);
    *ret_request = (mrd_server_request){ .data = { nng_msg_body(msg), nng_msg_len(msg) },
                                         .conn = (uint32_t) nng_pipe_id(nng_msg_get_pipe(msg)),
                                         .at_ns = h->at_ns,
                                         .keep = h };
    return true;
}

void
mrd_server_wake(mrd_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->woken = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

void
mrd_server_reply(mrd_server *s, mrd_server_request *request, mrd_bytes frame)
{
    hold *h = request->keep;
    nng_msg *msg = msg_of(frame);

    MRD_CHECK_MAGIC(h, HOLD_MAGIC);
    if (msg == NULL) {
        mrd_server_drop(s, request);
        return;
    }
    nng_msg_free(nng_aio_get_msg(h->aio));
    *request = (mrd_server_request){ 0 };
    h->sending = true;
    nng_aio_set_msg(h->aio, msg);
    nng_ctx_send(h->ctx, h->aio);
}

void
mrd_server_drop(mrd_server *s, mrd_server_request *request)
{
    hold *h = request->keep;

    (void) s;
    MRD_CHECK_MAGIC(h, HOLD_MAGIC);
    nng_msg_free(nng_aio_get_msg(h->aio));
    *request = (mrd_server_request){ 0 };
    hold_receive(h); /* forgets whom to answer */
}

bool
mrd_server_conn_alive(const mrd_server *server, uint32_t conn)
{
    mrd_server *s = (mrd_server *) (uintptr_t) server;
    bool alive;

    pthread_mutex_lock(&s->lock);
    alive = mrd_map_get(&s->conns, conn_key(conn)) != MRD_MAP_NONE;
    pthread_mutex_unlock(&s->lock);
    return alive;
}

bool
mrd_server_conn_admit(mrd_server *s, uint32_t conn)
{
    uint32_t within;

    pthread_mutex_lock(&s->lock);
    within = mrd_map_get(&s->conns, conn_key(conn));
    if (within == 0 && s->n_within < s->max_connections) { /* somebody left */
        within = 1;
        s->n_within++;
        (void) mrd_map_put(&s->conns, conn_key(conn), 1);
    }
    pthread_mutex_unlock(&s->lock);
    return within == 1;
}

unsigned
mrd_server_max_connections(const mrd_server *s)
{
    return s->max_connections;
}

void
mrd_server_conn_close(mrd_server *s, uint32_t conn)
{
    (void) s;
    nng_pipe_close((nng_pipe){ conn });
}

bool
mrd_server_peer_is(mrd_server *s, uint32_t conn, const char *name, char *ret_names, size_t size)
{
    char names[MRD_CERT_NAMES];
    bool is =
        mrd_tls_peer((nng_pipe){ conn }, names, sizeof(names)) && mrd_cert_named(names, '\n', name);

    (void) s;
    for (char *p = names; (p = strchr(p, '\n')) != NULL;)
        *p = ' ';
    snprintf(ret_names, size, "%s", names);
    return is;
}

mrd_err
mrd_server_reload(mrd_server *s, mrd_why *why)
{
    return s->tls == NULL ? MRD_OK : mrd_tls_reload(s->tls, why);
}

bool
mrd_server_changed(mrd_server *s)
{
    return s->tls != NULL && mrd_tls_changed(s->tls);
}

bool
mrd_server_trouble(mrd_server *s, mrd_why *ret_why)
{
    return s->tls != NULL && mrd_tls_trouble(s->tls, ret_why);
}

uint64_t
mrd_server_tls_failures(mrd_server *s)
{
    return s->tls == NULL ? 0 : mrd_tls_failures(s->tls);
}

static unsigned
count_of(const mrd_server *server, const unsigned *which)
{
    mrd_server *s = (mrd_server *) (uintptr_t) server;
    unsigned n;

    pthread_mutex_lock(&s->lock);
    n = *which;
    pthread_mutex_unlock(&s->lock);
    return n;
}

unsigned
mrd_server_connections(const mrd_server *s)
{
    return count_of(s, &s->n_conns);
}

unsigned
mrd_server_control_connections(const mrd_server *s)
{
    return count_of(s, &s->control_conns);
}

uint64_t
mrd_server_refused(const mrd_server *server)
{
    mrd_server *s = (mrd_server *) (uintptr_t) server;
    uint64_t n;

    pthread_mutex_lock(&s->lock);
    n = s->refused;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Collects answers of one survey until there are enough or time is up. */
static int
survey_collect(nng_ctx ctx, nng_aio *aio, unsigned expect,
               bool (*on_reply)(void *self, mrd_bytes frame), void *self)
{
    for (unsigned n = 0; expect == 0 || n < expect; n++) {
        nng_msg *msg;
        bool go_on;
        int rv;

        nng_ctx_recv(ctx, aio);
        nng_aio_wait(aio);
        if ((rv = nng_aio_result(aio)) != 0)
            return rv == NNG_ETIMEDOUT || rv == NNG_ESTATE ? 0 : rv; /* the deadline */
        msg = nng_aio_get_msg(aio);
        go_on = on_reply(self, (mrd_bytes){ nng_msg_body(msg), nng_msg_len(msg) });
        nng_msg_free(msg);
        if (!go_on)
            break;
    }
    return 0;
}

mrd_err
mrd_server_ask(mrd_server *s, mrd_bytes frame, unsigned expect, int timeout_ms,
               bool (*on_reply)(void *self, mrd_bytes frame), void *self, mrd_why *why)
{
    nng_aio *aio = NULL;
    nng_msg *msg;
    nng_ctx ctx;
    int rv;

    if (!s->surveyor_open)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0, "there is no control channel");
    if ((rv = nng_ctx_open(&ctx, s->surveyor)) != 0)
        return nng_why(why, rv, "ask on", s->control_url);
    if ((msg = msg_of(frame)) == NULL)
        rv = NNG_ENOMEM;
    else if ((rv = nng_ctx_set_ms(ctx, NNG_OPT_SURVEYOR_SURVEYTIME, timeout_ms)) != 0 ||
             (rv = nng_aio_alloc(&aio, NULL, NULL)) != 0)
        nng_msg_free(msg);
    if (rv == 0) {
        nng_aio_set_timeout(aio, timeout_ms + 100);
        nng_aio_set_msg(aio, msg);
        nng_ctx_send(ctx, aio);
        nng_aio_wait(aio);
        if ((rv = nng_aio_result(aio)) != 0)
            nng_msg_free(msg);
        else
            rv = survey_collect(ctx, aio, expect, on_reply, self);
    }
    if (aio != NULL)
        nng_aio_free(aio);
    nng_ctx_close(ctx);
    return rv == 0 ? MRD_OK : nng_why(why, rv, "ask on", s->control_url);
}
