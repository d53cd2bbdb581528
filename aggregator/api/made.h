/*
 * aggregator/api/made.h - a cache of files, each of which is made when it is requested first
 *
 * Threads  mrd_made_stop may be called from any thread. The other functions are called on the
 *          thread of the HTTP server, or after it stopped. Files are made on threads of this
 *          module.
 */
#ifndef MRD_AGGREGATOR_API_MADE_H
#define MRD_AGGREGATOR_API_MADE_H

#include "base/sys/out.h"

typedef struct mrd_made mrd_made;

typedef struct {
    /* Writes the contents of the file. Must return soon after mrd_made_wanted returned false. */
    mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why);
    void (*done)(void *self); /* frees self in every case; may be NULL */
    void *self;
} mrd_made_order;

/* Opens a cache. `ended` is called on a thread of this module when a file is complete or failed.
 * disk_reserve is the number of bytes of the file system that must stay free. */
mrd_err mrd_made_open(void (*ended)(void *self), void *self, int64_t disk_reserve,
                      mrd_made **ret_made, mrd_why *why);
/* Cancels the current files and waits for their end. `ended` is not called afterwards. NULL is
 * fine. */
void mrd_made_stop(mrd_made *made);
/* Frees a stopped cache. NULL is fine. */
void mrd_made_free(mrd_made *made);
/* Returns true if this file is queued or being made. To avoid a race, check whether the file exists
 * after this call, not before. */
bool mrd_made_is_coming(mrd_made *made, const char *path);
/* Queues an order to make the file in a directory of its own, and removes other contents of the
 * parent directory. Returns false if the queue is full or the cache was stopped; `done` was called
 * then. */
bool mrd_made_start(mrd_made *made, const char *path, const mrd_made_order *order);
/* Called by `produce`. Returns false if `produce` must stop writing, because the cache was stopped
 * or the disk is full. */
bool mrd_made_wanted(const mrd_made *made, const char *dir);

#endif
