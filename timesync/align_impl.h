/* timesync/align_impl.h - internals of an alignment table, for align.c, align_grid.c, align_file.c
 * and timescale_link.c only */
#ifndef MRD_TIMESYNC_ALIGN_IMPL_H
#define MRD_TIMESYNC_ALIGN_IMPL_H

#include "timesync/align.h"

/* largest absolute value of local times and bases, in ns */
#define ALIGN_BASE_MAX 4000000000000000000LL

struct mrd_align {
    char *name;
    uint64_t clock_id;
    mrd_align_segment *segments;
    size_t segment_count, segment_cap;
    mrd_align_bin *bins;
    size_t bin_count, bin_cap;
};

/* The offset at one instant as its bound and estimate, relative to the base of its segment. */
typedef struct {
    double lo, hi, est;
} mrd_align_place;

/* Returns the offset d ns after a bin (before it if d < 0), using only this bin's offset and
 * rates. */
mrd_align_place mrd_align_extrapolate(const mrd_align_segment *seg, const mrd_align_bin *bin,
                                      int64_t d);
/* Returns true if one segment covers all of [from, to] without a gap. The search begins at segment
 * `near`. */
bool mrd_align_one_segment(const mrd_align *align, size_t near, int64_t from, int64_t to);
/* Drops all segments and bins, but keeps their memory allocated. */
void mrd_align_reset(mrd_align *align);

#endif
