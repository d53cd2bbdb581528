/*
 * base/sys/pool.h - worker threads with a bounded queue. Jobs own their data. With one thread
 * they run in order, with several in parallel.
 *
 * Threads  put may be called from any thread. close is called once, when no other call runs or
 *          follows.
 */
#ifndef MRD_BASE_SYS_POOL_H
#define MRD_BASE_SYS_POOL_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_pool mrd_pool;

/* Does a job and frees it. */
typedef void mrd_pool_work(void *self, void *job);

/* Starts at most `threads` threads, each when all others are busy. `what` names the pool in errors. */
mrd_err mrd_pool_open(const char *what, unsigned threads, size_t capacity, mrd_pool **ret_worker,
                      mrd_why *why);
/* Returns false if the queue is full; the job then stays with the caller. */
bool mrd_pool_put(mrd_pool *pool, mrd_pool_work *work, void *self, void *job);
/* Runs the queued jobs, then ends. NULL is fine. */
void mrd_pool_close(mrd_pool *pool);
/* The same with a time limit. Returns false if a job still runs after it. The job continues with
 * its data, its thread ends after it, and the pool is leaked. */
bool mrd_pool_close_within(mrd_pool *pool, mrd_dur_ns within);

#endif
