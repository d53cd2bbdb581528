/* proto/nng/canary.c - detects whether the thread that closes NNG's connections hangs, which is a
 * fault of NNG (proto/nng/README.md). Implements mrd_link_stuck of proto/link.h. */
#include <pthread.h>

#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>

#include "base/clock.h"
#include "proto/link.h"

#define PERIOD_NS (5 * MRD_SEC)
#define GAP_NS    (2 * MRD_SEC)

/* guards the struct `canary`; no other lock is taken while it is held */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A test connection of the process to itself, which is closed every few seconds. The thread that
 * closes NNG's connections should then report the end, and NNG connects again. If no report comes,
 * the thread hangs. */
static struct {
    bool tried;
    nng_socket ends[2];
    nng_pipe pipe; /* the open connection; its id is 0 if there is none */
    mrd_local_ns up, asked;
    bool closed; /* the pipe was closed, and NNG has not yet reported its end */
    /* Time for which NNG has not reported the end of the closed connection. A long interval between
     * two calls counts only in part, because the process may have been stopped. */
    mrd_dur_ns stuck_ns;
} canary;

static void
on_pipe(nng_pipe pipe, nng_pipe_ev what, void *arg)
{
    (void) arg;
    pthread_mutex_lock(&lock);
    if (what == NNG_PIPE_EV_ADD_POST) {
        canary.pipe = pipe;
        canary.up = mrd_local_now();
    } else if (nng_pipe_id(pipe) == nng_pipe_id(canary.pipe)) {
        canary.pipe = (nng_pipe) NNG_PIPE_INITIALIZER;
        canary.closed = false;
        canary.stuck_ns = 0;
    }
    pthread_mutex_unlock(&lock);
}

/* Opens the test connection. If this fails, a hang is not detected, but everything else works. */
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
    mrd_local_ns now = mrd_local_now();
    mrd_dur_ns gap, stuck;
    bool first;

    pthread_mutex_lock(&lock);
    first = !canary.tried;
    canary.tried = true;
    gap = mrd_local_diff(now, canary.asked);
    canary.asked = now;
    if (canary.closed) {
        canary.stuck_ns += gap < GAP_NS ? gap : GAP_NS;
    } else if (nng_pipe_id(canary.pipe) > 0 && mrd_local_diff(now, canary.up) > PERIOD_NS) {
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
