/*
 * base/sys/threads.h - condition variables with timeouts on the monotonic clock, threads that block
 * all signals, and the signals that a daemon waits for.
 *
 * To wait: compute `end = mrd_cond_deadline(dur)`, then call pthread_cond_timedwait(c, lock, &end)
 * until the condition is true or the call returns ETIMEDOUT. This works only for conditions made by
 * mrd_cond_init, because the wall clock may be set.
 */
#ifndef MRD_BASE_SYS_THREADS_H
#define MRD_BASE_SYS_THREADS_H

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"

static inline void
mrd_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Returns the instant `dur` from now. A negative duration counts as 0. */
static inline struct timespec
mrd_cond_deadline(mrd_dur_ns dur)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    if (dur < 0)
        dur = 0;
    end.tv_nsec += dur % MRD_SEC;
    end.tv_sec += dur / MRD_SEC + end.tv_nsec / MRD_SEC;
    end.tv_nsec %= MRD_SEC;
    return end;
}

/* Like pthread_create, but the thread blocks all signals, because the signals of a workload must be
 * delivered to the workload's own threads. */
static inline int
mrd_masked_thread(pthread_t *ret_thread, const pthread_attr_t *attr, void *(*run)(void *arg),
                  void *arg)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(ret_thread, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

/* Blocks SIGINT and SIGTERM (exit) and SIGHUP (reload files) and stores them in *ret_set for
 * sigtimedwait. Ignores SIGPIPE. Call this before creating threads, because they inherit the
 * mask. */
static inline void
mrd_daemon_signals(sigset_t *ret_set)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGINT);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGHUP);
    sigprocmask(SIG_BLOCK, ret_set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

#endif
