/*
 * timesync/align.h - the alignment table of one local clock, which maps its times to session time
 *
 * A table belongs to one clock, which is the clock of one node between two boots. After a reboot
 * CLOCK_MONOTONIC_RAW starts again, so the journal has another table, with another `clock_id`. A
 * table is a list of segments (epochs). A segment is a list of bins in ascending local time. A bin
 * contains the estimate of offset = session - local at one instant, and the bound of the offset,
 * [lo, hi]. The journal contains the raw local times. The table is stored next to the journal and
 * can be recomputed.
 *
 *   inside a segment  The estimate, lo and hi are interpolated. lo and hi are widened by w*d^2/8,
 *                     where d is the distance of the two bins.
 *   outside           They are extrapolated by the rates, and widened by w*d^2/2. The quality is
 *                     "extrapolated" more than 5 s from the nearest bin.
 *   between segments  The time of the break is unknown. So the bound contains both extrapolations,
 *                     the quality is "gap", and the estimate is a line that never decreases.
 *
 * Mapping keeps the order of times: a later local time is never mapped to an earlier session time.
 *
 * Units    int64 ns for instants. Offsets inside a segment are doubles relative to its integer base
 *          (exact below 2^52 ns). Rates are ns per s (ppb), w is ppb per s.
 * Sign     offset = session - local. A positive offset means that the local clock is behind.
 * Session  Session time is the aggregator's CLOCK_MONOTONIC_RAW plus a constant, which is chosen at
 *          the start so that session time reads as UTC nanoseconds. Session time never steps.
 * Threads  a finished table is immutable and may be shared. Each reader has its own cursor.
 * Source   docs/reference/timesync.md sections 4 and 7.
 */
#ifndef MRD_TIMESYNC_ALIGN_H
#define MRD_TIMESYNC_ALIGN_H

#include "base/buf.h"
#include "base/clock.h"
#include "timesync/label.h"

#include <stdbool.h>

#define MRD_ALIGN_NAME_MAX     255  /* maximum length of a node's name in bytes */
#define MRD_ALIGN_SEGMENTS_MAX 4096 /* maximum number of segments in a table */
/* maximum number of bins in a table; bins of half a second fill it in 24 days */
#define MRD_ALIGN_BINS_MAX (4 << 20)
/* assumed largest rate error of every clock, in ppb (500 ppm) */
#define MRD_ALIGN_RATE_MAX 500000.0
/* an instant farther than this from the nearest bin gets the quality "extrapolated" */
#define MRD_ALIGN_FAR (5 * MRD_SEC)

typedef struct {
    mrd_local_ns at;
    /* limits and estimate of the offset minus the segment's base, in ns; lo <= est <= hi */
    double lo, hi, est;
    /* rate of the clock at `at` and its limits, in ppb; rate_lo <= rate <= rate_hi */
    float rate, rate_lo, rate_hi;
    /* standard deviation of `est` in ns, so its error can be larger */
    float noise;
    uint8_t quality, source; /* values of mrd_align_quality and mrd_stamp_source */
} mrd_align_bin;

typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause; /* why this segment began */
    int64_t base;          /* ns to add to the offsets of the segment's bins; |base| <= 4e18 */
    /* assumed maximum change of the clock's rate, in ppb per s; 0 if the table has one constant
     * offset */
    double w;
    /* the segment's bins are bins[first] to bins[first + count - 1] of the table */
    size_t first, count;
    /* local times (ns) of the segment's first and last packet; the gaps to its neighbours lie
     * outside of this range */
    mrd_local_ns from, to;
    /* Local times of this segment never map to less than this session time (ns), so that mapped
     * times keep their order. */
    int64_t floor;
} mrd_align_segment;

typedef struct mrd_align mrd_align;

typedef struct {
    size_t segment, bin; /* where the previous search ended; a new cursor is { 0 } */
} mrd_align_cursor;

typedef struct {
    /* the event happened in [lo, hi], in session time; INT64_MIN and INT64_MAX if unknown */
    mrd_sess_ns lo, hi;
    mrd_dur_ns noise;
    uint32_t epoch;
    uint8_t quality, source;
} mrd_align_bound;

/* A summary of one segment, which `meridian clocks` prints. */
typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause;
    mrd_local_ns first, last;
    mrd_dur_ns offset; /* offset at the last bin of the segment, in ns */
    double rate;       /* rate of the clock at the last bin of the segment, in ppb */
    /* median and 99 % quantile of hi - lo over the bins of the segment, in ns; -1 if unknown */
    mrd_dur_ns width_median, width_p99;
    mrd_dur_ns noise_median;
    double w;
    uint8_t quality, source; /* the most frequent quality of the bins, and the worst stamp source */
    size_t bins;
} mrd_align_summary;

/* ---- Making an alignment table ---- */

/* Creates an empty table. `name` is the node's instance_id, copied and truncated at
 * MRD_ALIGN_NAME_MAX. NULL if out of memory. */
mrd_align *mrd_align_new(const char *name, uint64_t clock_id);
void mrd_align_free(mrd_align *align); /* ignores NULL */
/*
 * mrd_align_segment_add() appends an empty segment. mrd_align_bin_add() appends a bin to the last
 * segment; add bins in ascending order. If the estimate or the rate of a bin is outside of its
 * interval, the nearest value inside is stored. A failed call changes nothing. Errors: NOMEM,
 * LIMIT, and INVALID for a bin that is out of order, is not finite, has lo > hi, or changes faster
 * than the limits above.
 */
mrd_err mrd_align_segment_add(mrd_align *align, uint32_t epoch, mrd_epoch_cause cause, int64_t base,
                              double w);
mrd_err mrd_align_bin_add(mrd_align *align, const mrd_align_bin *bin);
/*
 * Sets the local times of the first and last packet of the last segment. By default they are the
 * times of its first and last bin. The gap to a neighbour segment begins at these times. Call it
 * before the next segment is added. Errors: INVALID if the segment has no bins, if from > to, if
 * `from` or `to` is more than 1 s from the first or last bin, or if the segment would overlap the
 * previous one.
 */
mrd_err mrd_align_segment_extent(mrd_align *align, int64_t from, int64_t to);
/* Adds `by` ns to the session times of segments first to end - 1, after their timeline was linked
 * to another one (timescale_link.h). Segments stay in order. */
void mrd_align_shift(mrd_align *align, size_t first, size_t end, int64_t by);

/*
 * Makes a table with one constant offset, so that session time = local + offset. lo and hi are its
 * bound in ns relative to the offset, lo <= 0 <= hi. It is used for tests, for the aggregator's own
 * node (0, 0, 0), and for files with one clock.
 */
mrd_align *mrd_align_constant(const char *name, uint64_t clock_id, mrd_dur_ns offset, mrd_dur_ns lo,
                              mrd_dur_ns hi);
/*
 * Makes a table for a node without probes, from one reading of its clocks: `local` and `wall` at
 * the same instant. Session time is then UTC by the node's wall clock. The quality is "unaligned"
 * and the bound unknown. Later steps of the wall clock do not affect the table.
 */
mrd_align *mrd_align_wall(const char *name, uint64_t clock_id, mrd_local_ns local,
                          mrd_wall_ns wall);

/* ---- Mapping local times ---- */

/*
 * Maps one local time to session time, and stores its bound in *ret_bound, which may be NULL.
 * Returns false, with the outputs unchanged, if the table has no bins. Ascending times with one
 * cursor cost O(1) amortized, other times O(log bins). Results outside of int64 are limited to its
 * range.
 */
bool mrd_align_map(const mrd_align *align, mrd_align_cursor *cursor, mrd_local_ns at,
                   mrd_sess_ns *ret_at, mrd_align_bound *ret_bound);
/* Stores the smallest local time that maps to session time `at` or later. Callers use it to select
 * a time range of a journal. Returns false if the table has no bins. */
bool mrd_align_unmap(const mrd_align *align, mrd_sess_ns at, mrd_local_ns *ret_at);
/* Returns the distance from `at` to the farther end of the bound, in ns. Returns UINT32_MAX if the
 * distance does not fit or is unknown. */
uint32_t mrd_align_radius(mrd_sess_ns at, const mrd_align_bound *bound);

const char *mrd_align_name(const mrd_align *align);
uint64_t mrd_align_clock_id(const mrd_align *align);
size_t mrd_align_segment_count(const mrd_align *align);
const mrd_align_segment *mrd_align_borrow_segment(const mrd_align *align, size_t i);
size_t mrd_align_bin_count(const mrd_align *align);
/* returns the bins of all segments */
const mrd_align_bin *mrd_align_borrow_bins(const mrd_align *align);
/* Summarizes one segment in *ret_summary. Returns false if the segment has no bins. */
bool mrd_align_summarise(const mrd_align *align, size_t segment, mrd_align_summary *ret_summary);

/* ---- The file next to the journal: docs/reference/timesync.md section 8 ---- */

#define MRD_ALIGN_FILE_VERSION 1
#define MRD_ALIGN_FILE_MAX     (256u << 20)

/* Appends the table in its file format. Bounds are rounded outward to whole ns. */
mrd_err mrd_align_encode(const mrd_align *align, mrd_buf *to);
/* Decodes a table from a buffer or loads it from its file. Errors: TRUNCATED, CORRUPT, FORMAT,
 * VERSION, LIMIT, NOMEM. *why then has the byte offset and the reason. */
mrd_err mrd_align_decode(mrd_bytes data, mrd_align **ret_align, mrd_why *why);
mrd_err mrd_align_save(const mrd_align *align, const char *path, mrd_why *why);
mrd_err mrd_align_load(const char *path, mrd_align **ret_align, mrd_why *why);

#endif
