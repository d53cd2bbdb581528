/*
 * aggregator/api/made.h - a cache of files that are expensive to make. A file is made when it is
 * requested for the first time.
 *
 * Threads  Any thread may call mrd_made_stop. Only the thread of the HTTP server may call the other
 *          functions while the server runs. Files are made on threads of this module.
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
/* Cancels the files that are being made and waits for their threads. `ended` is not called
 * afterwards. Does nothing for NULL. */
void mrd_made_stop(mrd_made *made);
/* Frees a stopped cache. Ignores NULL. */
void mrd_made_free(mrd_made *made);
/* Returns true if this file is queued or being made. Call it before you check whether the file
 * exists. In the other order, the file may be completed between the two checks and seem to be
 * missing. */
bool mrd_made_is_coming(mrd_made *made, const char *path);
/* Queues an order to make the file at `path` in a directory of its own. Removes other contents of
 * the parent directory. Returns false if the queue is full or the cache was stopped; `done` was
 * called then. */
bool mrd_made_start(mrd_made *made, const char *path, const mrd_made_order *order);
/* Returns false if `produce` must stop writing, because the cache was stopped or the disk is full.
 * Only `produce` calls this. */
bool mrd_made_wanted(const mrd_made *made, const char *dir);

#endif
