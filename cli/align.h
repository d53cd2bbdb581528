/*
 * cli/align.h - the clocks of finished streams: what is said about them in every output, and
 * alignment by collectives for inputs that carry no probes.
 *
 *   unit      what shares a clock: all processes of a known instance; else all of one input file
 *   none      every unit keeps its own clock, labelled "unaligned", bound unknown
 *   collectives   a pass over the streams gathers collectives (trace/analysis/collectives.h), the
 *             solver of timesync/collective.h lines the units up on the clock of the first one, and
 *             sources opened here come in that clock. Refused as a whole, with a message, where
 *             sequences differ, the match is ambiguous, ends do not coincide, or groups and their
 *             members contradict each other; then it is as with none
 *
 * Order inside a unit and durations never change. Device profiles keep their own time. An event's
 * bound is the solver's inside a segment of its unit's clock; outside (before the end of the first
 * collective, after that of the last, beside a step) it is unknown, also for the reference's events
 * beside anybody's step.
 *
 * Memory   at most `memory` / 8 for what the pass gathers; more collectives are a refusal.
 * Threads  belongs to one thread. Catalog and store outlive it.
 */
#ifndef MRD_CLI_ALIGN_H
#define MRD_CLI_ALIGN_H

#include "base/clock.h"
#include "trace/analysis/kernel_names.h"
#include "trace/model/catalog.h"
#include "trace/store/stream.h"

/* The choices of --align and of --clock, in the order of their lists. */
typedef enum { MRD_ALIGN_BY_NONE, MRD_ALIGN_BY_COLLECTIVES } mrd_align_method;
typedef enum { MRD_TIMES_ALIGNED, MRD_TIMES_UTC, MRD_TIMES_RAW } mrd_align_times;

typedef struct {
    mrd_align_method method;
    mrd_align_times times; /* UTC and RAW: clocks are described, times stay as the inputs have them;
                              UTC is refused for inputs without an epoch */
    mrd_dur_ns trust;      /* clocks agree within this as they are; 0: nothing is believed */
    size_t memory;
    const mrd_kernel_rules *classify; /* borrowed, NULL: no rules of the user */
} mrd_align_options;

typedef struct mrd_alignment mrd_alignment;

/*
 * Adds one clock per unit to the catalog, with notes, and aligns if asked to. All streams must be
 * finished. A refused alignment is no error. Errors: NOMEM, IO (streams), INVALID (UTC without
 * epoch).
 */
mrd_err mrd_alignment_new(const mrd_align_options *options, mrd_catalog *cat, mrd_store *store,
                          mrd_alignment **ret_alignment, mrd_why *why);
void mrd_alignment_free(mrd_alignment *a); /* NULL is fine */
/* Why there is no alignment, or not of all; NULL when all is as asked. Borrowed. */
const char *mrd_alignment_refused(const mrd_alignment *a);

/* Stream i of the store as a source in session time. Errors: those of mrd_stream_open. */
mrd_err mrd_alignment_open(mrd_alignment *a, size_t i, mrd_source **ret_source, mrd_why *why);
/* Its first and last time on the same clock; false when it has none. */
bool mrd_alignment_range(mrd_alignment *a, size_t i, mrd_ev_ns *ret_first, mrd_ev_ns *ret_last);

#endif
