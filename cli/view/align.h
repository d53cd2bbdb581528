/*
 * cli/view/align.h - the clocks of the input streams: describes them for every output, and aligns
 * inputs without probes by collectives.
 *
 *   unit         the processes that share a clock. These are all processes of a known instance,
 *                otherwise all of one input file.
 *   none         every unit keeps its own clock, which is labelled "unaligned" with unknown bound.
 *   collectives  a pass over the streams collects collectives (trace/analysis/collectives.h). The
 *                solver of timesync/collective/collective.h aligns the units to the clock of the
 *                first one. Sources that are opened here have this clock. Units with sequences
 *                that differ, an ambiguous match or ends that do not coincide are left out and
 *                named, with reasons. Their events keep their own clock. If no majority fits, the
 *                alignment is refused, and the result is the same as with `none`.
 *
 * The order inside a unit and durations never change. Device profiles keep their own time. An
 * event's bound is the solver's inside a segment of its unit's clock. Outside it is unknown, that
 * is before the end of the first collective, after the end of the last one, and near a step. It is
 * also unknown for the reference's events near a step of any unit.
 *
 * Memory   at most `memory` / 8 for the pass. More collectives are refused.
 * Threads  belongs to one thread. Catalog and store must outlive it.
 */
#ifndef MRD_CLI_VIEW_ALIGN_H
#define MRD_CLI_VIEW_ALIGN_H

#include "base/clock.h"
#include "trace/analysis/kernel_names.h"
#include "trace/model/catalog.h"
#include "trace/store/stream.h"

/* The values of the options --align and --clock, in the order of their texts. */
typedef enum { MRD_ALIGN_BY_NONE, MRD_ALIGN_BY_COLLECTIVES } mrd_align_method;
typedef enum { MRD_TIMES_ALIGNED, MRD_TIMES_UTC, MRD_TIMES_RAW } mrd_align_times;

typedef struct {
    mrd_align_method method;
    /* UTC and RAW only describe clocks and do not change times; UTC is refused for inputs without
     * an epoch */
    mrd_align_times times;
    /* Limit in ns. If sequences of collectives fit at several positions, only positions count at
     * which the unaligned clocks agree within this limit. 0 means that no clocks are assumed to
     * agree. */
    mrd_dur_ns trust;
    size_t memory;
    /* user's rules for classes of kernels, borrowed; NULL means none */
    const mrd_kernel_rules *classify;
} mrd_align_options;

typedef struct mrd_alignment mrd_alignment;

/*
 * Adds one clock per unit to the catalog, with notes, and aligns if requested. All streams must be
 * finished. A refused alignment is not an error. Errors: NOMEM, IO (streams), INVALID (UTC without
 * an epoch).
 */
mrd_err mrd_alignment_new(const mrd_align_options *options, mrd_catalog *cat, mrd_store *store,
                          mrd_alignment **ret_alignment, mrd_why *why);
void mrd_alignment_free(mrd_alignment *alignment); /* ignores NULL */
/* Returns the reason why no inputs, or not all of them, are aligned. Returns NULL if all are
 * aligned as requested. The text is borrowed. */
const char *mrd_alignment_refused(const mrd_alignment *alignment);

/* Opens stream i of the store as a source in session time. Errors: errors of mrd_stream_open. */
mrd_err mrd_alignment_open(mrd_alignment *alignment, size_t i, mrd_source **ret_source,
                           mrd_why *why);
/* Gets the first and last session time of stream i, as of its source. Returns false if the stream
 * has no times. */
bool mrd_alignment_range(mrd_alignment *alignment, size_t i, mrd_ev_ns *ret_first,
                         mrd_ev_ns *ret_last);

#endif
