#include "proto/nng_end.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nng/protocol/pair0/pair.h>

#include "base/clock.h"
#include "base/obj.h"
#include "proto/link.h"
#include "proto/nng_common.h"
#include "proto/unaccepted.h"

#define CLOSE_MS  10000
#define AGAIN_MS  1000
#define PERIOD_NS (5 * MRD_SEC)
#define GAP_NS    (2 * MRD_SEC)

/* ---- What NNG 1.5 forgets ---- */

/*
 * NNG's transports hand each part of a message to nng_stream_send or nng_stream_recv, two public
 * functions, which libnng.so calls by name: so these here come first. They do the same; and when
 * the part was refused because its connection is being closed, they end it with an error, as NNG 2
 * does, where 1.5 says nothing to anybody. A refusal is known by its result, which nothing else
 * gives before the callback, and that waits for a lock of our caller.
 */
typedef void stream_op(nng_stream *s, nng_aio *aio);

static stream_op *real_send, *real_recv;
static bool forgets;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
find_real(void)
{
    *(void **) &real_send = dlsym(RTLD_NEXT, "nng_stream_send");
    *(void **) &real_recv = dlsym(RTLD_NEXT, "nng_stream_recv");
    MRD_ASSERT(real_send != NULL && real_recv != NULL);
    forgets = strncmp(nng_version(), "1.5.", 4) == 0;
}

static void
end_refused(nng_aio *aio)
{
    if (forgets && nng_aio_result(aio) == NNG_ECANCELED)
        nng_aio_finish(aio, NNG_ECLOSED);
}

__attribute__((visibility("default"))) void
nng_stream_send(nng_stream *s, nng_aio *aio)
{
    pthread_once(&once, find_real);
    real_send(s, aio);
    end_refused(aio);
}

__attribute__((visibility("default"))) void
nng_stream_recv(nng_stream *s, nng_aio *aio)
{
    pthread_once(&once, find_real);
    mrd_unaccepted_received(s, aio);
    real_recv(s, aio);
    end_refused(aio);
}

/* ---- Closing ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of this file; innermost */
static unsigned abandoned;

typedef struct kept {
    struct kept *next;
    void *p;
} kept;

static kept *kept_first;

/* Shared by who waits and who closes; the last of them frees it. */
typedef struct {
    pthread_t thread;
    pthread_cond_t ended;
    nng_socket socket;
    bool done, alone;
} closing;

static void *
close_main(void *arg)
{
    closing *c = arg;
    bool alone;

    nng_close(c->socket);
    pthread_mutex_lock(&lock);
    c->done = true;
    alone = c->alone;
    pthread_cond_signal(&c->ended);
    pthread_mutex_unlock(&lock);
    if (alone) {
        pthread_cond_destroy(&c->ended);
        free(c);
    }
    return NULL;
}

static closing *
closing_new(nng_socket socket)
{
    closing *c = calloc(1, sizeof(*c));
    pthread_condattr_t attr;

    if (c == NULL)
        return NULL;
    c->socket = socket;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->ended, &attr);
    pthread_condattr_destroy(&attr);
    return c;
}

bool
mrd_nng_close(nng_socket socket)
{
    closing *c = closing_new(socket);
    struct timespec end;
    bool done;

    if (c == NULL ||
        pthread_create(&c->thread, NULL, close_main, c) != 0) { /* no means to wait with an end */
        if (c != NULL)
            pthread_cond_destroy(&c->ended);
        free(c);
        nng_close(socket);
        return true;
    }
    pthread_mutex_lock(&lock);
    mrd_nng_deadline(abandoned > 0 ? AGAIN_MS : CLOSE_MS, &end);
    while (!c->done && pthread_cond_timedwait(&c->ended, &lock, &end) != ETIMEDOUT)
        ;
    done = c->done;
    c->alone = !done;
    abandoned += !done;
    if (!done) /* under the lock: then it is c's only owner */
        pthread_detach(c->thread);
    pthread_mutex_unlock(&lock);
    if (!done)
        return false;
    pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->ended);
    free(c);
    return true;
}

void
mrd_nng_keep(void *p)
{
    kept *k = malloc(sizeof(*k));

    if (k == NULL) /* then only a leak checker misses it */
        return;
    k->p = p;
    pthread_mutex_lock(&lock);
    k->next = kept_first;
    kept_first = k;
    pthread_mutex_unlock(&lock);
}

unsigned
mrd_link_abandoned(void)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = abandoned;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- Is the thread that takes connections down alive? ---- */

/* A connection of the process with itself, closed every few seconds: NNG tells of its end from that
 * thread, and then dials again. */
static struct {
    bool tried;
    nng_socket ends[2];
    nng_pipe pipe; /* up; id 0: none */
    int64_t up_ns, asked_ns;
    bool closed; /* and its end not yet told */
    /* Since it was closed. Time without questions, as of a stopped process, counts little. */
    mrd_dur_ns stuck_ns;
} canary;

static void
on_pipe(nng_pipe p, nng_pipe_ev what, void *arg)
{
    (void) arg;
    pthread_mutex_lock(&lock);
    if (what == NNG_PIPE_EV_ADD_POST) {
        canary.pipe = p;
        canary.up_ns = mrd_local_now().ns;
    } else if (nng_pipe_id(p) == nng_pipe_id(canary.pipe)) {
        canary.pipe = (nng_pipe) NNG_PIPE_INITIALIZER;
        canary.closed = false;
        canary.stuck_ns = 0;
    }
    pthread_mutex_unlock(&lock);
}

/* Without it nothing is noticed, and all else works. */
static void
canary_open(void)
{
    static const char url[] = "inproc://meridian-canary";

    if (nng_pair0_open(&canary.ends[0]) != 0)
        return;
    if (nng_pair0_open(&canary.ends[1]) != 0) {
        nng_close(canary.ends[0]);
        return;
    }
    (void) nng_socket_set_ms(canary.ends[1], NNG_OPT_RECONNMINT, 1000);
    (void) nng_pipe_notify(canary.ends[1], NNG_PIPE_EV_ADD_POST, on_pipe, NULL);
    (void) nng_pipe_notify(canary.ends[1], NNG_PIPE_EV_REM_POST, on_pipe, NULL);
    (void) nng_listen(canary.ends[0], url, NULL, 0);
    (void) nng_dial(canary.ends[1], url, NULL, NNG_FLAG_NONBLOCK);
}

mrd_dur_ns
mrd_link_stuck(void)
{
    nng_pipe end = NNG_PIPE_INITIALIZER;
    int64_t now = mrd_local_now().ns;
    mrd_dur_ns gap, stuck;
    bool first;

    pthread_mutex_lock(&lock);
    first = !canary.tried;
    canary.tried = true;
    gap = now - canary.asked_ns;
    canary.asked_ns = now;
    if (canary.closed) {
        canary.stuck_ns += gap < GAP_NS ? gap : GAP_NS;
    } else if (nng_pipe_id(canary.pipe) > 0 && now - canary.up_ns > PERIOD_NS) {
        end = canary.pipe;
        canary.closed = true;
    }
    stuck = canary.stuck_ns;
    pthread_mutex_unlock(&lock);
    if (first)
        canary_open();
    if (nng_pipe_id(end) > 0)
        nng_pipe_close(end);
    return stuck;
}
