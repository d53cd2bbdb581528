/*
 * aggregator/viewer.h - threads that run the vendor's viewer on device profiles of sessions, process
 * by process: NTFF and NEFF go in, Perfetto files and tables come out.
 *
 * Each run has a folder of its own, <store>/converting/<session>...: `in` has the files of the
 * process as links, in the vendor's tree, `out` is the only place that the viewer may write into
 * (base/confined.h). Results are hashed and moved to <store>/artifacts; a link to each is in
 * <session>/<instance>_pid_<pid>/viewer/. They count only when the core has said so.
 *
 * Threads  start and cancel from one thread; began, list and ended are called on the viewer's, and
 *          may wait for the core, which never waits for them.
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
    /* A viewer is there that was not: so many conversions there may be at one time. Once; on a thread of the
     * viewer's, as the three above. */
    void (*found)(void *self, unsigned at_once);
    bool there; /* mrd_viewer_check has found one */
    void *self;
} mrd_viewer_options;

/* How many conversions there may be at one time: 0: no viewer is there, or none is wanted. Errors:
 * INVALID, a command without {input}. */
mrd_err mrd_viewer_check(const mrd_viewer_settings *settings, unsigned *ret_at_once, mrd_why *why);
/* Removes what an earlier run left. *ret_viewer is NULL where none is wanted. */
mrd_err mrd_viewer_open(const mrd_viewer_options *options, mrd_viewer **ret_viewer, mrd_why *why);
/* Looks whether a viewer has been installed, where there was none; does not wait for the answer. NULL is
 * fine. */
void mrd_viewer_look(mrd_viewer *v);
/* Ends what is under way: it waits again. NULL is fine. */
void mrd_viewer_close(mrd_viewer *v);
/* False without memory, or when as many wait as may. */
bool mrd_viewer_start(mrd_viewer *v, const mrd_session *s, size_t conversion);
void mrd_viewer_cancel(mrd_viewer *v, uint64_t session);

#endif
