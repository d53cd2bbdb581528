/*
 * timesync/align.h - the alignment table of one local clock, and the only way from local to
 * session time.
 *
 * A table belongs to one clock: one node between two boots (after a reboot CLOCK_MONOTONIC_RAW
 * starts again, so its journal has a table of its own; `clock_id` tells them apart). It is a list
 * of segments (epochs); a segment is a list of bins, ascending in local time, that carry the bound
 * [lo, hi] and the estimate of offset = session - local. The journal keeps raw local times; this
 * table lies beside it and can be recomputed.
 *
 *   inside a segment   estimate, lo and hi are interpolated; lo and hi are widened by w*d^2/8, d
 *                      being the distance of the two bins
 *   outside            extrapolated by the rates, widened by w*d^2/2; "extrapolated" beyond 5 s
 *   between segments   nothing is known about the instant of the break: the interval is the union
 *                      of both extrapolations, the quality "gap", the estimate a monotone link
 *
 * Monotone: of two local times of one table the later is never mapped earlier.
 *
 * Units    int64 ns for instants; offsets inside a segment are doubles relative to its integer base
 *          (exact below 2^52 ns); rates are ns per s (ppb), w is ppb per s.
 * Sign     offset = session - local. Positive: the local clock is behind.
 * Session  the session's timeline is the aggregator's CLOCK_MONOTONIC_RAW plus one constant, chosen
 *          at start so that session time reads as UTC nanoseconds; it never steps.
 * Threads  a finished table is immutable and may be shared; each reader has its own cursor.
 * Source   docs/timesync.md sections 4 and 7.
 */
#ifndef MRD_TIMESYNC_ALIGN_H
#define MRD_TIMESYNC_ALIGN_H

#include "base/buf.h"
#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

#define MRD_ALIGN_NAME_MAX     255           /* bytes of the node's name */
#define MRD_ALIGN_SEGMENTS_MAX 4096          /* per table */
#define MRD_ALIGN_BINS_MAX     (4 << 20)     /* per table: 48 days of half seconds */
#define MRD_ALIGN_RATE_MAX     500000.0      /* ppb; the assumption |rate| <= 500 ppm */
#define MRD_ALIGN_FAR          (5 * MRD_SEC) /* farther from the nearest bin is "extrapolated" */

typedef struct {
    mrd_local_ns at;
    double lo, hi, est;           /* offset minus the segment's base, ns; lo <= est <= hi */
    float rate, rate_lo, rate_hi; /* ppb at `at`; rate_lo <= rate <= rate_hi */
    float noise;                  /* posterior standard deviation of est, ns: not a bound */
    uint8_t quality, source;      /* mrd_align_quality, mrd_stamp_source */
} mrd_align_bin;

typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause; /* why it began */
    int64_t base;          /* ns, added to the bins' offsets; |base| <= 4e18 */
    double w;              /* assumed largest change of rate, ppb per s; 0 = a constant table */
    size_t first, count;   /* bins */
    mrd_local_ns from, to; /* local ns of its first and last evidence; the gap lies outside */
    int64_t floor;         /* session ns: nothing of this segment is mapped below (monotony) */
} mrd_align_segment;

typedef struct mrd_align mrd_align;

typedef struct {
    size_t segment, bin; /* where the last answer was found; start with { 0 } */
} mrd_align_cursor;

typedef struct {
    mrd_sess_ns lo, hi; /* the event happened in [lo, hi]; INT64_MIN and INT64_MAX when unknown */
    mrd_dur_ns noise;
    uint32_t epoch;
    uint8_t quality, source;
} mrd_align_bound;

/* What `meridian clocks` prints about one segment. */
typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause;
    mrd_local_ns first, last;
    mrd_dur_ns offset;                  /* at the last bin */
    double rate;                        /* ppb, at the last bin */
    mrd_dur_ns width_median, width_p99; /* hi - lo; -1 when unknown */
    mrd_dur_ns noise_median;
    double w;
    uint8_t quality, source; /* most frequent; worst */
    size_t bins;
} mrd_align_summary;

/* ---- making one ---- */

/* NULL without memory. name is the node's instance_id, copied and cut at MRD_ALIGN_NAME_MAX. */
mrd_align *mrd_align_new(const char *name, uint64_t clock_id);
void mrd_align_free(mrd_align *align); /* NULL is fine */
/*
 * Opens a segment behind the present ones, then its bins in ascending order. Errors: NOMEM; LIMIT;
 * INVALID for a bin out of order, not finite, lo > hi, or faster than the limits above (est and
 * rate outside their interval are clipped into it). A failed call changes nothing.
 */
mrd_err mrd_align_segment_add(mrd_align *align, uint32_t epoch, mrd_epoch_cause cause, int64_t base,
                              double w);
mrd_err mrd_align_bin_add(mrd_align *align, const mrd_align_bin *bin);
/*
 * States from which to which local time the last segment has evidence (its first and last packet;
 * without this call its first and last bin). Outside, towards a neighbour segment, lies the gap. To
 * be called before the next segment is opened. Errors: INVALID without bins, for from > to, for
 * more than a bin's length (1 s) outside the bins, and for an overlap with the segment before.
 */
mrd_err mrd_align_segment_extent(mrd_align *align, int64_t from, int64_t to);
/* Adds `by` ns to the session times of segments [first, end): of a timeline that was linked to
 * another (timescale_link.h). Order holds across segments as before. */
void mrd_align_shift(mrd_align *align, size_t first, size_t end, int64_t by);
/* Forgets all but the last `keep` bins (1 or more), for tables that only look back a while. Returns
 * the local time of the first that is left. */
int64_t mrd_align_forget(mrd_align *align, size_t keep);

/*
 * Session time = local + offset, everywhere, with bound [lo, hi] around the offset (ns, lo <= 0 <=
 * hi). For tests, for the aggregator's own node (0, 0, 0), and for files of one clock.
 */
mrd_align *mrd_align_constant(const char *name, uint64_t clock_id, mrd_dur_ns offset, mrd_dur_ns lo,
                              mrd_dur_ns hi);
/*
 * Before there are probes: session time = UTC as this node's wall clock had it at one cross-read.
 * Quality "unaligned", bound unknown. Later steps of the wall clock do not move it.
 */
mrd_align *mrd_align_wall(const char *name, uint64_t clock_id, mrd_local_ns local,
                          mrd_wall_ns wall);

/* ---- asking ---- */

/*
 * Maps one instant. ret_bound may be NULL. False (outputs untouched) only for a table without bins.
 * Ascending input with one cursor costs O(1) amortised, any other O(log bins). Results that leave
 * int64 saturate.
 */
bool mrd_align_map(const mrd_align *align, mrd_align_cursor *cursor, mrd_local_ns at,
                   mrd_sess_ns *ret_at, mrd_align_bound *ret_bound);
/* The smallest local time that maps to `at` or later; for cutting a journal by session time. */
bool mrd_align_unmap(const mrd_align *align, mrd_sess_ns at, mrd_local_ns *ret_at);
/* The larger distance of lo and hi from `at`; UINT32_MAX when that or more, or unknown. */
uint32_t mrd_align_radius(mrd_sess_ns at, const mrd_align_bound *bound);
/*
 * Order of two events of different nodes: -1 or 1 when their intervals are disjoint, 0 when they
 * are indistinguishable.
 */
int mrd_align_order(const mrd_align_bound *a, const mrd_align_bound *b);

const char *mrd_align_name(const mrd_align *align);
uint64_t mrd_align_clock_id(const mrd_align *align);
size_t mrd_align_segment_count(const mrd_align *align);
const mrd_align_segment *mrd_align_borrow_segment(const mrd_align *align, size_t i);
size_t mrd_align_bin_count(const mrd_align *align);
const mrd_align_bin *mrd_align_borrow_bins(const mrd_align *align); /* of all segments */
/* False when the segment has no bins. */
bool mrd_align_summarise(const mrd_align *align, size_t segment, mrd_align_summary *ret_summary);

/* ---- the file beside the journal: docs/timesync.md section 8 ---- */

#define MRD_ALIGN_FILE_VERSION 1
#define MRD_ALIGN_FILE_MAX     (256u << 20)

/* Appends the encoded table. Quantities are rounded outward to whole ns where they are bounds. */
mrd_err mrd_align_encode(const mrd_align *align, mrd_buf *to);
/* Errors: TRUNCATED, CORRUPT, FORMAT, VERSION, LIMIT, NOMEM; *why names offset and reason. */
mrd_err mrd_align_decode(mrd_bytes data, mrd_align **ret_align, mrd_why *why);
mrd_err mrd_align_save(const mrd_align *align, const char *path, mrd_why *why);
mrd_err mrd_align_load(const char *path, mrd_align **ret_align, mrd_why *why);

#endif
