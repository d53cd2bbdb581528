/*
 * base/sys/pool.h - worker threads with a bounded queue. Jobs own their data. With one thread, jobs
 * run in order; with several threads, they run in parallel.
 *
 * Threads  put may be called from any thread. close is called once, when no other call runs or
 *          follows.
 */
#ifndef MRD_BASE_SYS_POOL_H
#define MRD_BASE_SYS_POOL_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_pool mrd_pool;

/* Runs a job and frees it. */
typedef void mrd_pool_work(void *self, void *job);

/* Opens a pool of at most `threads` threads. A thread is started only when all others are busy.
 * `what` names the pool in errors. */
mrd_err mrd_pool_open(const char *what, unsigned threads, size_t capacity, mrd_pool **ret_worker,
                      mrd_why *why);
/* Queues a job. Returns false if the queue is full; the caller then still owns the job. */
bool mrd_pool_put(mrd_pool *pool, mrd_pool_work *work, void *self, void *job);
/* Runs all queued jobs, ends the threads and frees the pool. Ignores NULL. */
void mrd_pool_close(mrd_pool *pool);
/* Like mrd_pool_close, but with a time limit. Returns false if a job still runs at the limit. The
 * job then continues, its thread ends after the job, and the pool is never freed. */
bool mrd_pool_close_within(mrd_pool *pool, mrd_dur_ns within);

#endif
