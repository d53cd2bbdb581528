/*
 * aggregator/merger.h - the thread that merges whole sessions into <session>/profile, one after the
 * other. Threads: start and cancel from one thread; `progress` and `done` are called on the
 * merger's, and must not wait for it.
 */
#ifndef MRD_AGGREGATOR_MERGER_H
#define MRD_AGGREGATOR_MERGER_H

#include "aggregator/merge.h"

typedef struct mrd_merger mrd_merger;

typedef struct {
    void (*progress)(void *self, uint64_t session,
                     uint64_t events); /* ten times a second at most */
    /* What it found damaged; before done. */
    void (*damaged)(void *self, uint64_t session, const merge_input *in, bool whole);
    /* verdict and why are the callee's to read; what the verdict owns is taken. */
    void (*done)(void *self, uint64_t session, mrd_merge_state state, uint64_t events,
                 mrd_clock_verdict *verdict, const mrd_why *why);
    void *self;
    uint64_t split;      /* most bytes of a Perfetto file, mrd_sink_options.split */
    const char *formats; /* written beside the standard ones, a comma list; NULL: none; borrowed */
} mrd_merger_options;

mrd_err mrd_merger_open(const mrd_merger_options *options, mrd_merger **ret_merger, mrd_why *why);
/* Cancels all. NULL is fine. */
void mrd_merger_close(mrd_merger *m);
/* Takes the input. False without memory, or when as many wait as may: it is freed. */
bool mrd_merger_start(mrd_merger *m, uint64_t session, merge_input *input);
void mrd_merger_cancel(mrd_merger *m, uint64_t session);

#endif
