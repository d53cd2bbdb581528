/* The agent's end of the link, over NNG. */
#include "base/conf/agent_waits.h"
#include "proto/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/protocol/survey0/respond.h>
#include <nng/transport/tls/tls.h>

#include "base/obj.h"
#include "base/sys/threads.h"
#include "base/url.h"
#include "proto/nng/closing.h"
#include "proto/nng/nng_common.h"
#include "proto/nng/refused.h"
#include "proto/nng/tls.h"

#define SLOT_MAGIC   0x4d4c534cu
#define SURVEY_SLOTS 4
/* number of slots in addition to the window, used for hello and heartbeats */
#define URGENT 1

static nng_duration
ms_of(mrd_dur_ns ns, mrd_dur_ns def)
{
    mrd_dur_ns ms = (ns > 0 ? ns : def) / MRD_MS;

    return ms < 1 ? 1 : ms > INT32_MAX ? INT32_MAX : (nng_duration) ms;
}

static mrd_err
dialer(nng_socket socket, const char *url, mrd_tls *tls, const char *server_name, nng_dialer *d,
       mrd_why *why)
{
    nng_tls_config *cfg = NULL;
    char host[256] = "";
    mrd_url at;
    int rv = 0;

    if (mrd_url_parse(url, &at) == MRD_OK) /* if this fails, NNG reports the error below */
        (void) mrd_url_host(&at, host, sizeof(host));
    if (mrd_nng_wants_tls(url))
        rv = mrd_tls_nng_config(tls, server_name == NULL ? host : server_name, &cfg);
    if (rv == 0)
        rv = nng_dialer_create(d, socket, url);
    if (rv == 0 && cfg != NULL)
        rv = nng_dialer_set_ptr(*d, NNG_OPT_TLS_CONFIG, cfg);
    if (cfg != NULL)
        nng_tls_config_free(cfg); /* the dialer has its own reference */
    return rv == 0 ? MRD_OK : mrd_nng_why(why, rv, "dial", url);
}

typedef enum { SLOT_IDLE, SLOT_SENDING, SLOT_RECEIVING, SLOT_HELD } slot_state;

typedef struct queued {
    struct queued *next;
    mrd_link_event ev;
} queued;

/* One request in flight, or one survey that is being answered. */
typedef struct {
    uint32_t magic;
    mrd_link *link;
    nng_ctx ctx;
    nng_aio *aio;
    bool open;
    slot_state state; /* protected by link->lock */
    uint64_t tag;
    /* The event that will report the request's result. It is allocated in advance, so that the
     * result is reported even if out of memory. */
    queued *outcome;
} slot;

struct mrd_link {
    mrd_tls *tls; /* NULL without TLS */
    nng_socket req, resp;
    bool req_open, resp_open;
    unsigned window;
    nng_duration reply_ms, min_ms, max_ms;
    nng_dialer data, control;
    slot slots[MRD_LINK_WINDOW_MAX + URGENT];
    slot surveys[SURVEY_SLOTS];
    /* guards slot states, the queue, up and closing; no other lock is taken while it is held */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    queued *first, **last;
    int fd;
    bool up, closing;
    uint32_t pipe; /* id of the newest data connection */
    /* times when the newest data connection was made, and when one was last lost */
    mrd_local_ns made, lost;
    bool welcome;       /* the aggregator has accepted the hello on this data connection */
    bool control_waits; /* the control channel will be dialed when a hello is first accepted */
    /* the next call of mrd_link_next must connect the control channel again */
    bool control_again;
    char *control_url, *server_name;
    mrd_local_ns control_up; /* time at which the control channel was last connected */
    /* number of consecutive data connections that the server closed at once */
    unsigned rebuffs;
    uint64_t survey_tags;
};

/* Appends the event `ev` to the queue in the entry q, of which it takes ownership. The event owns
 * the message. Returns false if q is NULL or the link is being closed, and then frees the message.
 * The caller holds the lock. */
static bool
queue_add(mrd_link *link, queued *q, mrd_link_event ev, nng_msg *msg)
{
    uint64_t one = 1;

    if (q == NULL || link->closing) {
        free(q);
        if (msg != NULL)
            nng_msg_free(msg);
        return false;
    }
    q->ev = ev;
    q->ev.at = mrd_local_now();
    q->ev.keep = msg;
    if (msg != NULL)
        q->ev.data = (mrd_bytes){ nng_msg_body(msg), nng_msg_len(msg) };
    *link->last = q;
    link->last = &q->next;
    pthread_cond_signal(&link->wake);
    if (write(link->fd, &one, sizeof(one)) < 0) {
        /* write fails only if the counter is at its maximum, and the descriptor is then readable
         * anyway */
    }
    return true;
}

/* Does the work of queue_add with a newly allocated queue entry. */
static bool
queue_put(mrd_link *link, mrd_link_event ev, nng_msg *msg)
{
    return queue_add(link, calloc(1, sizeof(queued)), ev, msg);
}

/* Ends the request of a slot and queues the event that reports the result. The caller holds the
 * lock. */
static void
slot_end(slot *s, mrd_link_event ev, nng_msg *msg)
{
    queued *q = s->outcome;

    s->state = SLOT_IDLE;
    s->outcome = NULL;
    ev.tag = s->tag;
    (void) queue_add(s->link, q, ev, msg);
}

static void
slot_fail(slot *s, int rv)
{
    mrd_link *link = s->link;
    mrd_err err = rv == NNG_ETIMEDOUT ? MRD_TIMEOUT : rv == NNG_ENOMEM ? MRD_NOMEM : MRD_CLOSED;

    pthread_mutex_lock(&link->lock);
    slot_end(s, (mrd_link_event){ .kind = MRD_LINK_FAILED, .err = err }, NULL);
    pthread_mutex_unlock(&link->lock);
}

static bool
is_welcome(nng_msg *msg)
{
    mrd_bytes data = { nng_msg_body(msg), nng_msg_len(msg) };
    mrd_frame frame;

    return mrd_frame_get(data, &frame, NULL) == MRD_OK && frame.type == MRD_FRAME_WELCOME;
}

/*
 * Connects the control channel at once, with a new dialer. The old dialer may be in a backoff of
 * two seconds, and a session that starts in this time would not reach this agent.
 *
 * Never call this from a callback of NNG, because nng_dialer_close waits for callbacks. If all of
 * NNG's few callback threads waited for each other, all links of the process would hang forever.
 */
static void
dial_control_anew(mrd_link *link)
{
    nng_dialer d;

    if (dialer(link->resp, link->control_url, link->tls, link->server_name, &d, NULL) != MRD_OK)
        return; /* if out of memory, the old dialer continues to connect */
    (void) nng_dialer_close(link->control);
    link->control = d;
    (void) nng_dialer_start(d, NNG_FLAG_NONBLOCK);
}

/* Handles the aggregator's welcome to a hello. The first welcome dials the control channel, so that
 * agents above the connection limit use no control connection. A later welcome requests a new
 * control connection if the current one is older than this data connection and may therefore be
 * dead. The agent cannot detect that itself, because only the aggregator starts exchanges on this
 * channel. */
static void
on_welcome(mrd_link *link)
{
    bool first, eager;

    pthread_mutex_lock(&link->lock);
    first = link->control_waits && !link->closing;
    link->control_again |= !first && !link->welcome && !link->closing &&
                           link->control_url != NULL &&
                           !mrd_local_after(link->control_up, link->lost);
    eager = link->rebuffs > 0;
    link->control_waits = false;
    link->welcome = true;
    link->rebuffs = 0;
    pthread_mutex_unlock(&link->lock);
    if (first)
        (void) nng_dialer_start(link->control, NNG_FLAG_NONBLOCK);
    if (eager)
        (void) nng_dialer_set_ms(link->data, NNG_OPT_RECONNMINT, link->min_ms);
}

/* NNG calls this when a request was sent, when its reply was received, or when one of these
 * failed. */
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
            nng_msg_free(msg); /* after a failed send, the message still belongs to this function */
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
    slot_end(s, (mrd_link_event){ .kind = MRD_LINK_REPLY }, msg);
    pthread_mutex_unlock(&link->lock);
}

/* NNG calls this when a survey was received, or when the answer to a survey was sent. If out of
 * memory, the survey is lost and the aggregator receives no answer. */
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
        if (queue_put(link, (mrd_link_event){ .kind = MRD_LINK_CONTROL, .tag = s->tag },
                      nng_aio_get_msg(s->aio))) {
            pthread_mutex_unlock(&link->lock);
            return;
        }
    }
    s->state = closing ? SLOT_IDLE : SLOT_RECEIVING;
    pthread_mutex_unlock(&link->lock);
    if (!closing)
        nng_ctx_recv(s->ctx, s->aio);
}

/* Returns the minimum reconnect interval in ms, which doubles with each connection that the server
 * closes at once. NNG itself backs off only if it cannot connect. But a server at its limit accepts
 * a connection and then closes it. The caller holds the lock. */
static nng_duration
back_off(const mrd_link *link)
{
    nng_duration ms = link->min_ms;

    for (unsigned i = 0; i < link->rebuffs && ms < link->max_ms; i++)
        ms *= 2;
    return ms < link->max_ms ? ms : link->max_ms;
}

static void
pipe_cb(nng_pipe pipe, nng_pipe_ev what, void *arg)
{
    mrd_link *link = arg;
    uint32_t id = (uint32_t) nng_pipe_id(pipe);
    bool add = what == NNG_PIPE_EV_ADD_POST, rebuffed = false;
    mrd_local_ns now = mrd_local_now();
    nng_duration ms;

    pthread_mutex_lock(&link->lock);
    if (add || (link->up && link->pipe == id)) {
        rebuffed = !add && !link->welcome && mrd_local_diff(now, link->made) < MRD_WAIT_REBUFFED;
        link->rebuffs += rebuffed;
        link->up = add;
        link->pipe = id;
        link->made = add ? now : link->made;
        link->lost = add ? link->lost : now;
        link->welcome = false;
        (void) queue_put(link, (mrd_link_event){ .kind = add ? MRD_LINK_UP : MRD_LINK_DOWN }, NULL);
    }
    ms = back_off(link);
    pthread_mutex_unlock(&link->lock);
    if (rebuffed)
        (void) nng_dialer_set_ms(link->data, NNG_OPT_RECONNMINT, ms);
}

static void
control_pipe_cb(nng_pipe pipe, nng_pipe_ev what, void *arg)
{
    mrd_link *link = arg;

    (void) pipe;
    (void) what;
    pthread_mutex_lock(&link->lock);
    link->control_up = mrd_local_now();
    pthread_mutex_unlock(&link->lock);
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
    /* nng_aio_stop can end the aio without calling the callback, which normally frees `outcome` */
    free(s->outcome);
    s->outcome = NULL;
    s->open = false;
}

static mrd_err
link_open_data(mrd_link *link, const mrd_link_options *options, mrd_why *why)
{
    int rv = nng_req0_open(&link->req);

    if (rv != 0)
        return mrd_nng_why(why, rv, "open a socket for", options->data_url);
    link->req_open = true;
    if ((rv = nng_socket_set_size(link->req, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_socket_set_ms(link->req, NNG_OPT_RECONNMINT, link->min_ms)) != 0 ||
        (rv = nng_socket_set_ms(link->req, NNG_OPT_RECONNMAXT, link->max_ms)) != 0 ||
        (rv = nng_socket_set_ms(link->req, NNG_OPT_REQ_RESENDTIME,
                                ms_of(options->resend_ns, MRD_WAIT_RESEND))) != 0 ||
        (rv = nng_pipe_notify(link->req, NNG_PIPE_EV_ADD_POST, pipe_cb, link)) != 0 ||
        (rv = nng_pipe_notify(link->req, NNG_PIPE_EV_REM_POST, pipe_cb, link)) != 0)
        return mrd_nng_why(why, rv, "set up the socket for", options->data_url);
    for (unsigned i = 0; i < link->window + URGENT; i++) {
        if ((rv = slot_open(&link->slots[i], link, link->req, request_cb)) != 0)
            return mrd_nng_why(why, rv, "set up the socket for", options->data_url);
        nng_aio_set_timeout(link->slots[i].aio, link->reply_ms);
    }
    return dialer(link->req, options->data_url, link->tls, options->tls.server_name, &link->data,
                  why);
}

static mrd_err
link_open_control(mrd_link *link, const mrd_link_options *options, mrd_why *why)
{
    nng_duration most = ms_of(MRD_WAIT_RECONNECT_CONTROL_MAX, 0);
    nng_duration max_ms = link->max_ms < most ? link->max_ms : most;
    int rv = nng_respondent0_open(&link->resp);

    if (rv != 0)
        return mrd_nng_why(why, rv, "open a socket for", options->control_url);
    link->resp_open = true;
    if ((rv = nng_socket_set_size(link->resp, NNG_OPT_RECVMAXSZ, MRD_FRAME_MAX)) != 0 ||
        (rv = nng_socket_set_ms(link->resp, NNG_OPT_RECONNMINT, link->min_ms)) != 0 ||
        (rv = nng_socket_set_ms(link->resp, NNG_OPT_RECONNMAXT, max_ms)) != 0 ||
        (rv = nng_pipe_notify(link->resp, NNG_PIPE_EV_ADD_POST, control_pipe_cb, link)) != 0)
        return mrd_nng_why(why, rv, "set up the socket for", options->control_url);
    for (int i = 0; i < SURVEY_SLOTS; i++) {
        slot *s = &link->surveys[i];

        if ((rv = slot_open(s, link, link->resp, survey_cb)) != 0)
            return mrd_nng_why(why, rv, "set up the socket for", options->control_url);
        s->state = SLOT_RECEIVING;
        nng_ctx_recv(s->ctx, s->aio);
    }
    link->control_url = strdup(options->control_url);
    link->server_name = options->tls.server_name == NULL ? NULL : strdup(options->tls.server_name);
    if (link->control_url == NULL ||
        (options->tls.server_name != NULL && link->server_name == NULL))
        return mrd_why_set(why, MRD_NOMEM, 0, "link to %s", options->control_url);
    link->control_waits = true; /* on_welcome dials the control channel */
    return dialer(link->resp, options->control_url, link->tls, options->tls.server_name,
                  &link->control, why);
}

mrd_err
mrd_link_open(const mrd_link_options *options, mrd_link **ret_link, mrd_why *why)
{
    mrd_link *link = calloc(1, sizeof(*link));
    mrd_err err;
    int rv;

    mrd_nng_end_refused();
    if (link == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "link to %s", options->data_url);
    link->window = options->window == 0                    ? 8
                   : options->window > MRD_LINK_WINDOW_MAX ? MRD_LINK_WINDOW_MAX
                                                           : options->window;
    link->reply_ms = ms_of(options->reply_ns, MRD_WAIT_REPLY);
    link->min_ms = ms_of(options->reconnect_min_ns, MRD_WAIT_RECONNECT_MIN);
    link->max_ms = ms_of(options->reconnect_max_ns, MRD_WAIT_RECONNECT_MAX);
    link->last = &link->first;
    pthread_mutex_init(&link->lock, NULL);
    mrd_cond_init(&link->wake);
    link->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    err = link->fd < 0 ? mrd_why_set(why, MRD_IO, errno, "link to %s", options->data_url)
                       : mrd_nng_tls_for(options->data_url, options->control_url, &options->tls,
                                         false, &link->tls, why);
    if (err == MRD_OK)
        err = link_open_data(link, options, why);
    if (err == MRD_OK && options->control_url != NULL)
        err = link_open_control(link, options, why);
    if (err == MRD_OK && (rv = nng_dialer_start(link->data, NNG_FLAG_NONBLOCK)) != 0)
        err = mrd_nng_why(why, rv, "dial",
                          /* only an invalid URL or option fails; a failed connection is retried in
                           * the background */
                          options->data_url);
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
    if (!closed) { /* callbacks may still use the link, so it is never freed */
        mrd_nng_keep(link);
        return;
    }
    mrd_tls_unref(link->tls);
    free(link->control_url);
    free(link->server_name);
    if (link->fd >= 0)
        close(link->fd);
    pthread_cond_destroy(&link->wake);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

/* Sends a request in the first idle slot with an index in [from, to). */
static mrd_err
submit_in(mrd_link *link, unsigned from, unsigned to, uint64_t tag, mrd_bytes frame)
{
    slot *s = NULL;
    nng_msg *msg;

    if (frame.len > MRD_FRAME_MAX)
        return MRD_LIMIT;
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
    if (s == NULL)
        return MRD_AGAIN;
    msg = mrd_nng_msg(frame);
    s->outcome = calloc(1, sizeof(*s->outcome));
    if (msg == NULL || s->outcome == NULL) {
        if (msg != NULL)
            nng_msg_free(msg);
        pthread_mutex_lock(&link->lock);
        free(s->outcome);
        s->outcome = NULL;
        s->state = SLOT_IDLE;
        pthread_mutex_unlock(&link->lock);
        return MRD_NOMEM;
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
    /* casts const away, because the lock is a part of the link */
    mrd_link *l = (mrd_link *) (uintptr_t) link;
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
    nng_msg *msg = frame.len == 0 ? NULL : mrd_nng_msg(frame);
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
mrd_link_next_error(mrd_link *link, mrd_why *ret_why)
{
    return link->tls != NULL && mrd_tls_next_error(link->tls, ret_why);
}

int
mrd_link_fd(const mrd_link *link)
{
    return link->fd;
}

bool
mrd_link_next(mrd_link *link, int timeout_ms, mrd_link_event *ret_event)
{
    struct timespec end = { 0 };
    bool again;
    queued *q;
    uint64_t n;

    if (timeout_ms > 0)
        end = mrd_cond_deadline(timeout_ms * MRD_MS);
    pthread_mutex_lock(&link->lock);
    while (link->first == NULL && !link->closing &&
           mrd_nng_wait(&link->wake, &link->lock, timeout_ms, &end))
        ;
    if ((q = link->first) != NULL) {
        link->first = q->next;
        if (link->first == NULL)
            link->last = &link->first;
    }
    if (link->first == NULL && read(link->fd, &n, sizeof(n)) < 0) {
        /* the descriptor was not readable, so there is nothing to read */
    }
    again = link->control_again && !link->closing;
    link->control_again = false;
    pthread_mutex_unlock(&link->lock);
    if (again)
        dial_control_anew(link);
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
