/*
 * timesync/bound.h - the bound: the set of (offset, rate) that no inequality contradicts, moved
 * forward in time (live) and also backward (offline)
 *
 * Assumptions, which are printed with every result: stamps are causal up to e, inside an epoch the
 * rate changes by at most w per second, and |rate| <= rate_max. Under these assumptions [lo, hi]
 * contains the offset. There is no assumption about delays.
 *
 * An empty set means that an assumption is false. The filter then waits for 3 more bins. If they
 * fit the old set, the contradicting packets were wrong (dropped, counted). Otherwise an epoch
 * starts at the first contradicting bin, first with the old rate, then with a free one. Small
 * errors that contradict nothing cannot be detected.
 *
 * Units    t in local ns; offsets in ns relative to an integer base per epoch; rates in ppb; w in
 *          ppb/s.
 * Sign     offset = session - local.
 * Threads  a mrd_bound belongs to one thread.
 * Memory   constant: at most MRD_BIN_INEQS inequalities per bin are kept, the tightest of each
 *          direction, and none that another one of its bin implies at any rate.
 * Source   docs/reference/timesync.md section 4; set-membership filtering.
 */
#ifndef MRD_TIMESYNC_BOUND_H
#define MRD_TIMESYNC_BOUND_H

#include "timesync/feasible.h"
#include "timesync/probe.h"

#define MRD_BIN_NS    (MRD_SEC / 2)
#define MRD_BIN_INEQS 24
/* bins that wait during a contradiction: the first contradicting bin and 3 more */
#define MRD_BIN_HELD 4
/* the same limit while both explanations of a contradiction are possible */
#define MRD_BIN_HELD_MAX 12

#define MRD_BOUND_W 200.0 /* ppb/s: default for the largest change of rate in offline runs */
/* The same in live operation, in ppb/s. It is larger, because a value that is too small could not
 * be corrected later. */
#define MRD_BOUND_W_LIVE   1000.0
#define MRD_BOUND_RATE_MAX 500000.0 /* ppb: assumed largest rate of a clock */
/* ns: at the start of an epoch, its upper and lower inequalities may be this far apart */
#define MRD_BOUND_FREE 1e12

typedef struct {
    double w, rate_max;
} mrd_bound_options;

/* The result for one accepted bin. */
typedef struct {
    uint32_t epoch;
    mrd_epoch_cause cause; /* why the bin's epoch began */
    int64_t t0;            /* local ns, middle of the bin */
    int64_t base;          /* ns, integer base of the offsets in the bin's epoch */
    mrd_poly_range range;  /* possible offsets (relative to base) and rates */
    /* the feasible set after this bin, going forward; borrowed for the call */
    const mrd_poly *poly;
    const mrd_ineq *ineqs; /* the accepted inequalities of the bin, borrowed for the call */
    size_t n;
} mrd_bound_bin;

typedef struct {
    uint64_t used; /* inequalities accepted */
    uint64_t bad;  /* dropped, because later packets confirmed the set that they contradict */
    /* those in `bad` that missed the set by less than its width, which may have been a small
     * step */
    uint64_t near;
    /* dropped, because their bin has MRD_BIN_INEQS / 2 tighter ones of the same direction */
    uint64_t over_capacity;
    uint64_t implied; /* dropped, because another one of their bin implies them at any rate */
    /* inequalities that arrived after their bin was closed; only the offline result contains
     * them */
    uint64_t late;
    /* those in `used` that came before the epoch had both directions; their bins are not emitted */
    uint64_t one_sided;
    uint32_t epochs;         /* epochs started */
    uint32_t contradictions; /* epochs that started because packets contradicted the set */
} mrd_bound_counts;

typedef struct mrd_bound mrd_bound;

/* `emit` receives each accepted bin in order of time. During a contradiction it is called a few
 * bins late. NULL if out of memory. */
mrd_bound *mrd_bound_new(const mrd_bound_options *options,
                         void (*emit)(void *self, const mrd_bound_bin *bin), void *self);
void mrd_bound_free(mrd_bound *bound);
/* Adds one inequality. A bin closes when a later bin begins. The order inside a bin does not
 * matter. */
void mrd_bound_add(mrd_bound *bound, const mrd_ineq *ineq);
/* Closes the open bin and decides about waiting bins. */
void mrd_bound_flush(mrd_bound *bound);
/*
 * Ends the current epoch for an external cause. With keep_rate, the next epoch starts with the old
 * range of rates, widened by w times gap_ns. Without, its rate is free.
 */
void mrd_bound_break(mrd_bound *bound, mrd_epoch_cause cause, bool keep_rate, mrd_dur_ns gap_ns);
/* Returns true from the first contradicting packet until its cause is decided. Results are suspect
 * meanwhile. */
bool mrd_bound_holding(const mrd_bound *bound);
/*
 * Returns the open bin as it would be accepted now, without accepting it, for results that cannot
 * wait for the next packet. `ineqs` receives up to MRD_BIN_INEQS. Returns false without an open
 * bin, before an epoch, or during a contradiction.
 */
bool mrd_bound_peek(const mrd_bound *bound, mrd_ineq ineqs[MRD_BIN_INEQS], mrd_bound_bin *ret_bin);
/* Sets the assumed largest change of rate, w, from now on. The set still contains what followed
 * from the earlier w. */
void mrd_bound_set_w(mrd_bound *bound, double w);
mrd_bound_counts mrd_bound_counters(const mrd_bound *bound);

/* ---- Runs in both directions over the bins of one epoch ---- */

typedef struct {
    int64_t t0;
    size_t first, n; /* its inequalities are ineqs[first] to ineqs[first + n - 1] */
} mrd_span;

/*
 * Runs forward and backward over n bins (ascending; their inequalities in `ineqs`) and stores one
 * range per bin, relative to base. Returns false if a bin contradicts the others (w is too small,
 * or an inequality is wrong), or if out of memory; ret_range is then undefined.
 */
bool mrd_bound_both(const mrd_span *spans, size_t n, const mrd_ineq *ineqs, int64_t base,
                    const mrd_bound_options *options, mrd_poly_range *ret_range);
/* The same, but runs forward only. Returns false in the same cases. */
bool mrd_bound_forward(const mrd_span *spans, size_t n, const mrd_ineq *ineqs, int64_t base,
                       const mrd_bound_options *options, mrd_poly_range *ret_range);
/*
 * After a break, finds bins that were assigned to the wrong side. Runs backward from `later` and on
 * through `earlier`, and returns the number of bins at the end of `earlier` to drop, because they
 * may be after the break. These are the bins after the last contradicting one. Returns 0 if no bin
 * contradicts.
 */
size_t mrd_bound_retreat(const mrd_span *earlier, size_t n_earlier, const mrd_span *later,
                         size_t n_later, const mrd_ineq *ineqs, int64_t base,
                         const mrd_bound_options *options);
/* Gets the least upper and greatest lower inequality of a bin, both moved to the bin's t0 with
 * `rate`. A direction without an inequality gives NAN. */
void mrd_span_envelope(const mrd_span *span, const mrd_ineq *ineqs, int64_t base, double rate,
                       double *ret_up, double *ret_down);

#endif
