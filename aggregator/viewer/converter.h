/*
 * aggregator/viewer/converter.h - runs the vendor's viewer, to convert the device profiles of
 * sessions. Each conversion handles the files of one process. The input is NTFF files (device
 * profiles) and NEFF files (compiled models). The output is Perfetto files and tables.
 *
 * Each conversion has its own directory, <store>/converting/<session>... Its subdirectory `in` has
 * links to the files of the process, in the layout that the viewer expects. Each command may write
 * only to its own subdirectory, `out0` or `out1` (base/sys/confined.h). Results are hashed and
 * moved to <store>/artifacts, with links in <session>/<instance>_pid_<pid>/viewer/. They count only
 * after the aggregator's core has added them to the session's list of artifacts.
 *
 * Threads  only one thread may call mrd_converter_start and mrd_converter_cancel. The callbacks run
 *          on the converter's threads, and may wait for the core. The core never waits for these
 *          threads.
 */
#ifndef MRD_AGGREGATOR_VIEWER_CONVERTER_H
#define MRD_AGGREGATOR_VIEWER_CONVERTER_H

#include "aggregator/core/manifest/conversions.h"
#include "aggregator/store/store.h"
#include "aggregator/viewer/converter_run.h"

typedef struct mrd_converter mrd_converter;

typedef struct {
    /* the pointers in these options are borrowed until mrd_converter_close */
    const mrd_session_store *store;
    /* settings of the viewer; copied, but the texts in it are borrowed */
    const mrd_converter_settings *settings;
    /* number of bytes that must stay free on the store's file system */
    int64_t disk_reserve;
    void (*began)(void *self, const mrd_conversion_of *of);
    bool (*list)(void *self, const mrd_conversion_results *results);
    void (*ended)(void *self, const mrd_conversion_of *of, const mrd_conversion_end *end);
    /* Called once if a viewer is found that was not installed at the start. `at_once` is the
     * maximum number of concurrent conversions. */
    void (*found)(void *self, unsigned at_once);
    bool there; /* true if mrd_converter_check found a viewer */
    void *self;
} mrd_converter_options;

/* Stores the maximum number of concurrent conversions in *ret_at_once, or 0 if no viewer is
 * installed or configured. Errors: INVALID for a command without the placeholder {input}. */
mrd_err mrd_converter_check(const mrd_converter_settings *settings, unsigned *ret_at_once,
                            mrd_why *why);
/* Starts the threads, and removes the directories that an earlier run left. Leaves *ret_viewer
 * unchanged if no viewer is configured. */
mrd_err mrd_converter_open(const mrd_converter_options *options, mrd_converter **ret_viewer,
                           mrd_why *why);
/* Queues a search for a viewer if none was found yet. Does not wait for the result. Ignores
 * NULL. */
void mrd_converter_look(mrd_converter *converter);
/* Cancels the running conversions, which run again after a restart, and stops the threads. Ignores
 * NULL. */
void mrd_converter_close(mrd_converter *converter);
/* Queues one conversion of the session. `conversion` is its index in the session's list. Returns
 * false if out of memory or if the queue is full. */
bool mrd_converter_start(mrd_converter *converter, const mrd_session *session, size_t conversion);
void mrd_converter_cancel(mrd_converter *converter, uint64_t session);

#endif
