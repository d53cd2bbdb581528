/*
 * timesync/bound.h - computes the bound of a clock: the set of all pairs (offset, rate) that no
 * inequality contradicts
 *
 * The set is moved from bin to bin, forward in time (live) or in both directions (offline). There
 * are three assumptions, which are printed with every result. A packet is received after it was
 * sent, up to the uncertainty e of the stamps. Inside an epoch the rate changes by at most w per
 * second. |rate| is at most rate_max. Under these assumptions the offset is inside [lo, hi].
 * Nothing is assumed about delays.
 *
 * If the set becomes empty, an assumption was false. The filter then waits for 3 more bins. If
 * these fit the old set, the contradicting packets were wrong, and are dropped and counted.
 * Otherwise a new epoch with any rate begins at the first contradicting bin, or at a later bin if
 * the first does not fit the bins after it. Small errors that cause no contradiction cannot be
 * detected.
 *
 * Units    t in local ns; offsets in ns relative to an integer base per epoch; rates in ppb; w in
 *          ppb/s.
 * Sign     offset = session - local.
 * Threads  a mrd_bound belongs to one thread.
 * Memory   constant. Each bin stores at most MRD_BIN_INEQS inequalities, the tightest of each
 *          direction. An inequality that another one of its bin implies is not stored.
 * Source   docs/reference/timesync.md section 4; set-membership filtering.
 */
#ifndef MRD_TIMESYNC_BOUND_H
#define MRD_TIMESYNC_BOUND_H

#include "timesync/feasible.h"
#include "timesync/probe.h"

#define MRD_BIN_NS    (MRD_SEC / 2)
#define MRD_BIN_INEQS 24
/* maximum number of bins that wait for a decision after a contradiction, including the first one */
#define MRD_BIN_HELD 4
/* maximum number of these bins while it is undecided whether packets are wrong or the clock was
 * stepped */
#define MRD_BIN_HELD_MAX 12

/* default of the assumed largest change of a clock's rate, in ppb/s, when tables are computed
 * offline */
#define MRD_BOUND_W 200.0
/* The same default for live operation, in ppb/s. It is larger, because live results cannot be
 * corrected later. */
#define MRD_BOUND_W_LIVE   1000.0
#define MRD_BOUND_RATE_MAX 500000.0 /* ppb: assumed largest rate of a clock */
/* ns; width that is assumed for the range of offsets if no inequality limits it. Doubles still
 * resolve this width well. */
#define MRD_BOUND_FREE 1e12

typedef struct {
    double w, rate_max;
} mrd_bound_options;

/* The result of the filter for one accepted bin. */
typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause; /* why the bin's epoch began */
    int64_t t0;            /* middle of the bin, in local ns */
    int64_t base;          /* integer base of the offsets in the bin's epoch, in ns */
    /* possible offsets (relative to `base`) and rates of the clock in this bin */
    mrd_poly_range range;
    /* set of the offsets and rates that are possible after this bin; valid only during the call */
    const mrd_poly *poly;
    const mrd_ineq *ineqs; /* the accepted inequalities of the bin; valid only during the call */
    size_t n;
} mrd_bound_bin;

typedef struct {
    uint64_t used; /* number of accepted inequalities */
    /* inequalities dropped as wrong, because they contradict the set and later packets fit the
     * set */
    uint64_t bad;
    /* inequalities in `bad` that missed the set by less than its width, so the clock may have made
     * a small step */
    uint64_t near;
    /* inequalities dropped, because their bin has MRD_BIN_INEQS / 2 tighter inequalities of the
     * same direction */
    uint64_t over_capacity;
    /* inequalities dropped, because another inequality of the bin is tighter at every rate */
    uint64_t implied;
    /* inequalities that arrived after their bin was closed, so that only the offline result
     * contains them */
    uint64_t late;
    /* inequalities in `used` that arrived before the epoch had both an upper and a lower
     * inequality. No bin is emitted for them. */
    uint64_t one_sided;
    uint32_t epochs; /* number of epochs that started */
    /* number of epochs that started because packets contradicted the set */
    uint32_t contradictions;
} mrd_bound_counts;

typedef struct mrd_bound mrd_bound;

/* Creates a filter. The filter calls `emit` with each accepted bin in order of time. After a
 * contradiction, the calls are delayed by a few bins. Returns NULL if out of memory. */
mrd_bound *mrd_bound_new(const mrd_bound_options *options,
                         void (*emit)(void *self, const mrd_bound_bin *bin), void *self);
void mrd_bound_free(mrd_bound *bound);
/* Adds one inequality to the filter. The open bin closes when an inequality of a later bin arrives.
 * The order of inequalities inside a bin does not matter. */
void mrd_bound_add(mrd_bound *bound, const mrd_ineq *ineq);
/* Closes the open bin, and decides about the bins that wait after a contradiction. */
void mrd_bound_flush(mrd_bound *bound);
/*
 * Ends the current epoch, because the clock has a break. With keep_rate, the next epoch starts with
 * the old range of rates, widened by w times gap_ns. Without keep_rate, it starts with any rate.
 */
void mrd_bound_break(mrd_bound *bound, mrd_epoch_cause cause, bool keep_rate, mrd_dur_ns gap_ns);
/* Returns true while bins wait after a contradiction. Results are unreliable until the decision. */
bool mrd_bound_holding(const mrd_bound *bound);
/*
 * Stores in *ret_bin what the open bin would be if it closed now, but does not close it. Callers
 * use it for results that cannot wait for the next packet. `ineqs` receives up to MRD_BIN_INEQS
 * inequalities, which *ret_bin refers to. Returns false if there is no open bin, no epoch has
 * begun, or bins wait after a contradiction.
 */
bool mrd_bound_peek(const mrd_bound *bound, mrd_ineq ineqs[MRD_BIN_INEQS], mrd_bound_bin *ret_bin);
/* Sets the assumed largest change of the rate (w) for later bins. The current set is not
 * recomputed, so it still depends on the earlier w. */
void mrd_bound_set_w(mrd_bound *bound, double w);
mrd_bound_counts mrd_bound_counters(const mrd_bound *bound);

/* ---- Bounds of a finished epoch, from the bins before and after each time ---- */

typedef struct {
    int64_t t0;
    size_t first, n; /* the bin's inequalities are ineqs[first] to ineqs[first + n - 1] */
} mrd_span;

/*
 * Computes the offsets and rates that all n bins of an epoch allow, by a pass forward and a pass
 * backward over the bins. The bins are in ascending order, and their inequalities are in `ineqs`.
 * Stores one range per bin, relative to base, in ret_range. Returns
 * false if out of memory, or if a bin contradicts the others, because w is too small or an
 * inequality is wrong. ret_range is then undefined.
 */
bool mrd_bound_both(const mrd_span *spans, size_t n, const mrd_ineq *ineqs, int64_t base,
                    const mrd_bound_options *options, mrd_poly_range *ret_range);
/* Like mrd_bound_both(), but runs forward only. */
bool mrd_bound_forward(const mrd_span *spans, size_t n, const mrd_ineq *ineqs, int64_t base,
                       const mrd_bound_options *options, mrd_poly_range *ret_range);
/*
 * After a break, finds the last bins of the earlier epoch that may belong to the later epoch. Moves
 * the set backward through the bins of `later` and then of `earlier`, until a bin contradicts the
 * set. Returns the number of bins of `earlier` after that bin, which the caller drops. Returns 0 if
 * no bin contradicts.
 */
size_t mrd_bound_retreat(const mrd_span *earlier, size_t n_earlier, const mrd_span *later,
                         size_t n_later, const mrd_ineq *ineqs, int64_t base,
                         const mrd_bound_options *options);
/* Stores the least upper and the greatest lower inequality of a bin in ns relative to base, both
 * moved to the bin's t0 with `rate`. A direction without an inequality gives NAN. */
void mrd_span_envelope(const mrd_span *span, const mrd_ineq *ineqs, int64_t base, double rate,
                       double *ret_up, double *ret_down);

#endif
