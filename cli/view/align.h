/*
 * cli/view/align.h - the clocks of the input streams. Describes these clocks for every output. If
 * no clock probes were recorded, it can align inputs by their collectives, which are operations
 * that the ranks of a group do together.
 *
 *   unit         All processes that share a clock: all processes of a known instance, otherwise all
 *                processes of an input file.
 *   none         Method without alignment. Every unit keeps its own clock, which is labelled
 *                "unaligned" and has an unknown bound.
 *   collectives  Method that reads the streams once to find collectives (trace/analysis/
 *                collectives.h). timesync/collective/collective.h then aligns the units to the
 *                clock of the first unit. The sources that this file opens have this clock.
 *
 * A unit is left out if its sequence of collectives differs, if it fits at several positions, or if
 * its collectives do not end at the same times as those of other units. It keeps its own clock, and
 * a note names it with the reason. If no majority of units fits, the alignment is refused. The
 * result is then the same as with `none`.
 *
 * Durations and the order inside a unit never change. Device profiles keep their own time.
 *
 * The bound of an event's time is unknown:
 *   - before the end of the first collective and after the end of the last one
 *   - near a step of the unit's clock
 *   - for events of the first unit, near a step of any unit's clock
 * Otherwise, in a segment of the unit's clock, the solver computes the bound.
 *
 * Memory   at most `memory` / 8 for the collectives. With more of them, alignment is refused.
 * Threads  a mrd_alignment belongs to one thread. The catalog (names, tracks and clocks) and the
 *          store (event streams) must outlive it.
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
    /* UTC and RAW only change the description of clocks, not times. UTC is refused for inputs with
     * times that do not count from 1970. */
    mrd_align_times times;
    /* Limit in ns for sequences of collectives that fit at several positions. Only those positions
     * count at which the unaligned clocks agree within the limit. 0 means that clocks need not
     * agree. */
    mrd_dur_ns trust;
    size_t memory;
    /* user's rules for classes of kernels, borrowed; NULL means none */
    const mrd_kernel_rules *classify;
} mrd_align_options;

typedef struct mrd_alignment mrd_alignment;

/*
 * Adds one clock per unit to the catalog, with notes, and aligns the clocks if the options request
 * it. All streams must be finished. A refused alignment is not an error. Errors: NOMEM, IO
 * (streams), INVALID (UTC without an epoch).
 */
mrd_err mrd_alignment_new(const mrd_align_options *options, mrd_catalog *cat, mrd_store *store,
                          mrd_alignment **ret_alignment, mrd_why *why);
void mrd_alignment_free(mrd_alignment *alignment); /* ignores NULL */
/* Returns the reason why some or all inputs are not aligned. Returns NULL if the alignment that the
 * options request is complete. The text is borrowed. */
const char *mrd_alignment_refused(const mrd_alignment *alignment);

/* Opens stream i of the store as a source in session time. Errors: errors of mrd_stream_open. */
mrd_err mrd_alignment_open(mrd_alignment *alignment, size_t i, mrd_source **ret_source,
                           mrd_why *why);
/* Gets the first and last session time of stream i, as mrd_alignment_open would return them.
 * Returns false if the stream has no times. */
bool mrd_alignment_range(mrd_alignment *alignment, size_t i, mrd_ev_ns *ret_first,
                         mrd_ev_ns *ret_last);

#endif
