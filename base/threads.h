/*
 * base/threads.h - condition variables whose waits end on the monotonic clock, which nobody sets, threads without signals, and
 * the signals that a daemon waits for.
 *
 * A wait: `end = mrd_cond_deadline(dur)`, then pthread_cond_timedwait(c, lock, &end) until what is waited for is true or
 * it returns ETIMEDOUT. Only for conditions made by mrd_cond_init.
 */
#ifndef MRD_BASE_THREADS_H
#define MRD_BASE_THREADS_H

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"

static inline void
mrd_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* The instant `dur` from now; a negative one is now. */
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

/* pthread_create, and the thread handles no signal: in a workload they are its own threads' business. */
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

/* SIGINT, SIGTERM (end) and SIGHUP (read files again) are blocked, for sigtimedwait with *ret_set; SIGPIPE is ignored. Call it
 * before any thread exists: threads inherit it. */
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
