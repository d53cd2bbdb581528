/*
 * aggregator/viewer.h - threads that run the vendor's viewer on device profiles of sessions, one
 * process at a time. Input are NTFF and NEFF files, output are Perfetto files and tables.
 *
 * Each run has a directory of its own, <store>/converting/<session>... In it, `in` has links to the
 * files of the process, in the vendor's tree, and `out` is the only directory that the viewer may
 * write to (base/confined.h). Results are hashed and moved to <store>/artifacts, with links in
 * <session>/<instance>_pid_<pid>/viewer/. They count only after the core has listed them.
 *
 * Threads  start and cancel are called from one thread. began, list and ended are called on the
 *          viewer's threads, and may wait for the core. The core never waits for these threads.
 */
#ifndef MRD_AGGREGATOR_VIEWER_H
#define MRD_AGGREGATOR_VIEWER_H

#include "aggregator/core/conversions.h"
#include "aggregator/store.h"
#include "aggregator/viewer_run.h"

typedef struct mrd_viewer mrd_viewer;

typedef struct {
    const mrd_session_store *store;      /* borrowed, as all here */
    const mrd_viewer_settings *settings; /* copied; its texts are borrowed */
    int64_t disk_reserve;                /* bytes of the store that stay free */
    void (*began)(void *self, const mrd_conversion_of *of);
    bool (*list)(void *self, const mrd_conversion_results *results);
    void (*ended)(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end);
    /* A viewer was installed after there was none. at_once is the maximum number of concurrent
     * conversions. Called once, on a thread of the viewer's, as are the three above. */
    void (*found)(void *self, unsigned at_once);
    bool there; /* mrd_viewer_check found a viewer */
    void *self;
} mrd_viewer_options;

/* Stores the maximum number of concurrent conversions in *ret_at_once; 0 if no viewer is installed
 * or configured. Errors: INVALID for a command without {input}. */
mrd_err mrd_viewer_check(const mrd_viewer_settings *settings, unsigned *ret_at_once, mrd_why *why);
/* Removes leftovers of an earlier run. *ret_viewer is NULL if no viewer is configured. */
mrd_err mrd_viewer_open(const mrd_viewer_options *options, mrd_viewer **ret_viewer, mrd_why *why);
/* Checks whether a viewer was installed after there was none. Does not wait for the result. NULL is
 * fine. */
void mrd_viewer_look(mrd_viewer *v);
/* Cancels the current runs, which become pending again. NULL is fine. */
void mrd_viewer_close(mrd_viewer *v);
/* Returns false if out of memory, or if the queue is full. */
bool mrd_viewer_start(mrd_viewer *v, const mrd_session *s, size_t conversion);
void mrd_viewer_cancel(mrd_viewer *v, uint64_t session);

#endif
