/* timesync/align_impl.h - internals of alignment tables (align.h). Internal to timesync/. */
#ifndef MRD_TIMESYNC_ALIGN_IMPL_H
#define MRD_TIMESYNC_ALIGN_IMPL_H

#include "timesync/align.h"

/* ns; largest allowed absolute value of local times and of the bases of segments */
#define ALIGN_BASE_MAX 4000000000000000000LL

struct mrd_align {
    char *name;
    uint64_t clock_id;
    mrd_align_segment *segments;
    size_t segment_count, segment_cap;
    mrd_align_bin *bins;
    size_t bin_count, bin_cap;
};

/* The offset of a clock at one instant: bound and estimate in ns, relative to the base of the
 * segment. */
typedef struct {
    double lo, hi, est;
} mrd_align_place;

/* Returns the offset d ns after a bin, or before it if d < 0. Uses only the offset and the rates of
 * this bin. */
mrd_align_place mrd_align_extrapolate(const mrd_align_segment *seg, const mrd_align_bin *bin,
                                      int64_t d);
/* Returns true if one segment covers all of [from, to] without a gap. The search begins at segment
 * `near`. */
bool mrd_align_one_segment(const mrd_align *align, size_t near, int64_t from, int64_t to);
/* Drops all segments and bins, but keeps their memory allocated. */
void mrd_align_reset(mrd_align *align);

#endif
