/*
 * aggregator/pool.h - threads with a bounded queue: jobs go in with all they own, and are done in
 * order (with one thread) or side by side (with several).
 *
 * Threads  put from any thread; close once, when nobody puts any more.
 */
#ifndef MRD_AGGREGATOR_POOL_H
#define MRD_AGGREGATOR_POOL_H

#include "base/buf.h"
#include "base/clock.h"

typedef struct mrd_pool mrd_pool;

/* Does a job and frees it. */
typedef void mrd_pool_work(void *self, void *job);

/* threads: at most; further ones are started when all others are busy. `what` names it in errors.
 */
mrd_err mrd_pool_open(const char *what, unsigned threads, size_t capacity, mrd_pool **ret_worker,
                      mrd_why *why);
/* False when the queue is full: the job stays the caller's. */
bool mrd_pool_put(mrd_pool *w, mrd_pool_work *work, void *self, void *job);
/* Does what waits, and ends. NULL is fine. */
void mrd_pool_close(mrd_pool *w);
/* The same, but it waits no longer than this. False: a job goes on, with what it uses, and its thread ends after it; the pool is left
 * to it. */
bool mrd_pool_close_within(mrd_pool *w, mrd_dur_ns within);

#endif
