/*
 * timesync/follow.h - follows one clock by its probes: combines bound, estimate and epochs
 *
 *   live     mrd_follow_live extrapolates from the last bin with current knowledge. It assumes
 *            w_live for a minute, then 4 times the bend of the estimate up to now, at least w
 *   lagged   a growing table: bins older than the lag, from a window of a minute that ends now. For
 *            the merge, which has a later watermark anyway. Written bins never change
 *   offline  mrd_follow_offline: both directions over everything. For finished sessions;
 *            recomputable from the stored probes
 *
 * One probe pair in ten is held out of the fit and checks it. A packet that arrived before it was
 * sent, by the estimate, is "reversed" (by how much is published); by the bound it is a violation.
 * The number of violations must be 0.
 *
 * Units, sign  as align.h.
 * Threads      a mrd_follow belongs to one thread, and so does the table that it lends.
 * Memory       live and lagged: about 100 KiB for the window, plus 64 B per bin of the lagged
 *              table, which keeps between lagged_keep and twice that number.
 * Source       docs/reference/timesync.md sections 4 to 7.
 */
#ifndef MRD_TIMESYNC_FOLLOW_H
#define MRD_TIMESYNC_FOLLOW_H

#include "timesync/align.h"
#include "timesync/bound.h"
#include "timesync/epoch.h"
#include "timesync/probe.h"
#include "timesync/smooth.h"

#define MRD_FOLLOW_LAG    (5 * MRD_SEC)
#define MRD_FOLLOW_WINDOW (60 * MRD_SEC)
#define MRD_FOLLOW_ADAPT  (60 * MRD_SEC) /* after this time the live w follows the data */
#define MRD_FOLLOW_DENSE  30             /* ... if the window has at least this many bins */
#define MRD_FOLLOW_W_MAX  5000.0         /* ppb/s */
/* live results of the first 30 s have quality "settling" */
#define MRD_FOLLOW_SETTLING (30 * MRD_SEC)
#define MRD_FOLLOW_SUSPECT  (30 * MRD_SEC) /* how long a jump lowers the quality */

typedef struct {
    double w_live, w, w_estimate, w_estimate_live; /* ppb/s */
    double rate_max;                               /* ppb */
    size_t lagged_keep; /* minimum number of bins in the lagged table; 0 means that all are kept */
} mrd_follow_options;

extern const mrd_follow_options mrd_follow_defaults;

typedef struct {
    mrd_bound_counts bound;
    uint64_t probes;
    uint64_t checked;        /* held-out packets that were compared */
    uint64_t reversed;       /* of these: impossible by the estimate */
    mrd_dur_ns reversed_max; /* by how much, at most */
    uint64_t violations;     /* of these: impossible by the bound */
    uint64_t jumps;          /* alarms of the CUSUM test */
    double w;                /* largest w used, ppb/s */
} mrd_follow_report;

typedef struct mrd_follow mrd_follow;

/* NULL if out of memory. `name` and `clock_id` as in mrd_align_new. */
mrd_follow *mrd_follow_new(const char *name, uint64_t clock_id, const mrd_follow_options *options);
void mrd_follow_free(mrd_follow *follow);
/* Adds one joined probe, in any order. A probe of a closed bin is only counted (late). */
void mrd_follow_probe(mrd_follow *follow, const mrd_probe *probe);
void mrd_follow_break(mrd_follow *follow, const mrd_epoch_break *at);
/* Closes the open bin: no probe will come for a while, or the session ended. */
void mrd_follow_flush(mrd_follow *follow);
/*
 * Gets the current estimate for `at`. Returns false before the first one (3 bins). Successive
 * results for the same time differ as more probes arrive. Order is kept only inside the lagged and
 * the offline table.
 */
bool mrd_follow_live(mrd_follow *follow, mrd_local_ns at, mrd_sess_ns *ret_at,
                     mrd_align_bound *ret_bound);
/* Returns the lagged table, lent until the next call on it; it grows at its end only. */
const mrd_align *mrd_follow_borrow_lagged(const mrd_follow *follow);
/* Gets the width of the live bound now and at its best in this epoch, ns; -1 if unknown. If it is
 * wider than twice the best, the agent should probe faster. */
void mrd_follow_width(const mrd_follow *follow, mrd_dur_ns *ret_now, mrd_dur_ns *ret_best);
mrd_follow_report mrd_follow_counters(const mrd_follow *follow);

/* The input of a table. */
typedef struct {
    const char *name; /* of the clock, for people */
    uint64_t clock_id;
    const mrd_probe *probes; /* any order */
    size_t n_probes;
    /* in addition to probes: inequalities of absolute time (absolute.h), a device, batches */
    const mrd_ineq *ineqs;
    size_t n_ineqs;
    const mrd_epoch_break *breaks; /* ascending */
    size_t n_breaks;
    const mrd_follow_options *options; /* NULL means mrd_follow_defaults */
} mrd_follow_input;

/*
 * Makes the table of a finished session, which depends only on the input. Errors: EMPTY if no epoch
 * could start (*why says what is missing), NOMEM, LIMIT.
 */
mrd_err mrd_follow_offline(const mrd_follow_input *in, mrd_align **ret_align,
                           mrd_follow_report *ret_report, mrd_why *why);
/* The same from the inequalities only. Probes are ignored, and none is held out. */
mrd_err mrd_follow_solve(const mrd_follow_input *in, mrd_align **ret_align,
                         mrd_follow_report *ret_report, mrd_why *why);
/*
 * Adds segments after or before a break without evidence: before the first segment of a table, or
 * after its last one. A suspend or a migration moved the clock by an unmeasured amount. So these
 * times get a separate segment without a bound (quality "unaligned"), placed by the given loss of
 * time. Up to the node's readings before and after the break the adjacent line holds.
 * mrd_follow_solve calls this; a table that has such segments is unchanged. On errors *align is
 * unchanged: NOMEM, LIMIT.
 */
mrd_err mrd_follow_open_ends(mrd_align **align, const mrd_epoch_break *breaks, size_t n);
/* Compares held-out probes with a table and adds the result to the report. */
void mrd_follow_check(const mrd_align *align, const mrd_probe *probes, size_t n,
                      mrd_follow_report *report);

#endif
