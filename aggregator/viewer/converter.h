/*
 * aggregator/viewer/converter.h - threads that run the vendor's viewer on device profiles of
 * sessions, one process at a time. The input consists of NTFF files (device profiles) and NEFF
 * files (compiled models). The output consists of Perfetto files and tables.
 *
 * Each run has a directory of its own, <store>/converting/<session>... In it, `in` has links to the
 * files of the process, in the vendor's tree, and `out` is the only directory that the viewer may
 * write to (base/sys/confined.h). Results are hashed and moved to <store>/artifacts, with links in
 * <session>/<instance>_pid_<pid>/viewer/. They are valid only after the aggregator's core has
 * listed them in the session.
 *
 * Threads  start and cancel are called from one thread. began, list and ended are called on the
 *          viewer's threads, and may wait for the core. The core never waits for these threads.
 */
#ifndef MRD_AGGREGATOR_VIEWER_CONVERTER_H
#define MRD_AGGREGATOR_VIEWER_CONVERTER_H

#include "aggregator/core/manifest/conversions.h"
#include "aggregator/store/store.h"
#include "aggregator/viewer/converter_run.h"

typedef struct mrd_converter mrd_converter;

typedef struct {
    const mrd_session_store *store;         /* borrowed, as all here */
    const mrd_converter_settings *settings; /* copied; its texts are borrowed */
    int64_t disk_reserve;                   /* bytes of the store that stay free */
    void (*began)(void *self, const mrd_conversion_of *of);
    bool (*list)(void *self, const mrd_conversion_results *results);
    void (*ended)(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end);
    /* Called once, when a viewer was found that was not installed at the start. at_once is the
     * maximum number of concurrent conversions. All callbacks run on threads of this module. */
    void (*found)(void *self, unsigned at_once);
    bool there; /* mrd_converter_check found a viewer */
    void *self;
} mrd_converter_options;

/* Stores the maximum number of concurrent conversions in *ret_at_once; 0 if no viewer is installed
 * or configured. Errors: INVALID for a command without the placeholder {input}. */
mrd_err mrd_converter_check(const mrd_converter_settings *settings, unsigned *ret_at_once,
                            mrd_why *why);
/* Starts the module, and removes files that an earlier run left. *ret_viewer is NULL if no viewer
 * is configured. */
mrd_err mrd_converter_open(const mrd_converter_options *options, mrd_converter **ret_viewer,
                           mrd_why *why);
/* Starts a check whether a viewer was installed since the start. Does not wait for its result. NULL
 * is fine. */
void mrd_converter_look(mrd_converter *converter);
/* Cancels the running conversions, which become pending again. NULL is fine. */
void mrd_converter_close(mrd_converter *converter);
/* Queues a conversion of the session. Returns false if out of memory, or if the queue is full. */
bool mrd_converter_start(mrd_converter *converter, const mrd_session *session, size_t conversion);
void mrd_converter_cancel(mrd_converter *converter, uint64_t session);

#endif
