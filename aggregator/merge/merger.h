/*
 * aggregator/merge/merger.h - runs the thread that merges whole sessions into <session>/profile,
 * one session at a time.
 *
 * Threads: one thread calls mrd_merger_start and mrd_merger_cancel. The merger's thread calls the
 * callbacks `progress`, `damaged` and `done`, which must not wait for the merger.
 */
#ifndef MRD_AGGREGATOR_MERGE_MERGER_H
#define MRD_AGGREGATOR_MERGE_MERGER_H

#include "aggregator/merge/merge.h"

typedef struct mrd_merger mrd_merger;

typedef struct {
    void (*progress)(void *self, uint64_t session,
                     uint64_t events); /* reports progress; called at most ten times a second */
    /* Reports damaged data. It is called before `done`. */
    void (*damaged)(void *self, uint64_t session, const merge_input *in, bool whole);
    /* Called when a merge has ended. `verdict` and `why` are valid only during the call. The
     * callback takes ownership of the verdict's contents. */
    void (*done)(void *self, uint64_t session, mrd_merge_state state, uint64_t events,
                 mrd_clock_verdict *verdict, const mrd_why *why);
    void *self;
    uint64_t split; /* maximum bytes of a Perfetto file (mrd_sink_options.split) */
    /* comma-separated names of formats that are written besides the standard ones; NULL means none.
     * The merger keeps the pointer */
    const char *formats;
} mrd_merger_options;

mrd_err mrd_merger_open(const mrd_merger_options *options, mrd_merger **ret_merger, mrd_why *why);
/* Cancels all merges and frees the merger. Ignores NULL. */
void mrd_merger_close(mrd_merger *merger);
/* Queues a merge. Takes ownership of the input. Returns false, and frees the input, if out of
 * memory or if the queue is full. */
bool mrd_merger_start(mrd_merger *merger, uint64_t session, merge_input *input);
void mrd_merger_cancel(mrd_merger *merger, uint64_t session);

#endif
