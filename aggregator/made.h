/*
 * aggregator/made.h - files that the first request for them makes and later requests read.
 *
 * Threads  stop on any thread, the others on that of the HTTP server, or when it has stopped; files are made on threads of this module.
 */
#ifndef MRD_AGGREGATOR_MADE_H
#define MRD_AGGREGATOR_MADE_H

#include "base/out.h"

typedef struct mrd_made mrd_made;

typedef struct {
    /* Writes the file. Returns soon after mrd_made_wanted was false. */
    mrd_err (*produce)(void *self, mrd_out *out, mrd_why *why);
    void (*done)(void *self); /* frees self in every case; may be NULL */
    void *self;
} mrd_made_order;

/* ended is called when a file is there or could not be made, on a thread of this module. disk_reserve: bytes
 * of the file system that stay free. */
mrd_err mrd_made_open(void (*ended)(void *self), void *self, int64_t disk_reserve,
                      mrd_made **ret_made, mrd_why *why);
/* Cancels what is being made and waits for its end: ended is not called any more. NULL is fine. */
void mrd_made_stop(mrd_made *m);
/* Frees what was stopped. NULL is fine. */
void mrd_made_free(mrd_made *m);
/* Whether this file is being made, or waits for that. Look for the file afterwards. */
bool mrd_made_is_coming(mrd_made *m, const char *path);
/* Has the file made in a folder of its own: other contents of the folder above it are removed. Returns
 * false when too many files wait, or after the stop; the order is done then. */
bool mrd_made_start(mrd_made *m, const char *path, const mrd_made_order *order);
/* Asked by produce: false when nobody may write any more, because of the end or of a full disk. */
bool mrd_made_wanted(const mrd_made *m, const char *dir);

#endif
