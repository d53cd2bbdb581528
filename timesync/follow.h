/*
 * timesync/follow.h - follows one clock by its probes: combines bound, estimate and epochs
 *
 *   live     mrd_follow_live extrapolates from the last bin with current knowledge. It assumes
 *            w_live for a minute, then 4 times the bend of the estimate up to now, at least w
 *   offline  mrd_follow_offline: both directions over everything. For finished sessions;
 *            recomputable from the stored probes
 *
 * One probe pair in ten is held out of the fit and checks it. A packet that arrived before it was
 * sent, by the estimate, is "reversed" (by how much is published); by the bound it is a violation.
 * The number of violations must be 0.
 *
 * Units, sign  as align.h.
 * Threads      a mrd_follow belongs to one thread.
 * Memory       live: about 80 KiB for the bins of a minute.
 * Source       docs/reference/timesync.md sections 4 to 7.
 */
#ifndef MRD_TIMESYNC_FOLLOW_H
#define MRD_TIMESYNC_FOLLOW_H

#include "timesync/align.h"
#include "timesync/bound.h"
#include "timesync/epoch.h"
#include "timesync/probe.h"
#include "timesync/smooth.h"

/* The live w is computed every MRD_FOLLOW_LAG, from the bins of the last minute that are older than
 * that, because later packets still change the estimate of younger ones. */
#define MRD_FOLLOW_LAG    (5 * MRD_SEC)
#define MRD_FOLLOW_WINDOW (60 * MRD_SEC)
/* after this time of an epoch, the live w is computed from the data */
#define MRD_FOLLOW_ADAPT (60 * MRD_SEC)
#define MRD_FOLLOW_DENSE 30     /* minimum number of bins in the window for computing it */
#define MRD_FOLLOW_W_MAX 5000.0 /* ppb/s: the largest w that is computed */
/* live results of the first 30 s have quality "settling" */
#define MRD_FOLLOW_SETTLING (30 * MRD_SEC)
#define MRD_FOLLOW_SUSPECT  (30 * MRD_SEC) /* how long a detected jump lowers the quality */

typedef struct {
    /* ppb/s: assumed largest change of rate, for the bounds and the estimates, live and offline */
    double w_live, w, w_estimate, w_estimate_live;
    double rate_max; /* ppb: largest rate of the clock */
} mrd_follow_options;

extern const mrd_follow_options mrd_follow_defaults;

typedef struct {
    mrd_bound_counts bound;
    uint64_t probes;
    uint64_t checked; /* held-out packets that were compared with the result */
    /* checked packets that are impossible by the estimate: received before they were sent */
    uint64_t reversed;
    mrd_dur_ns reversed_max; /* largest amount by which a packet was reversed */
    uint64_t violations;     /* checked packets that are impossible by the bound; must be 0 */
    uint64_t jumps;          /* number of alarms of the CUSUM test for jumps */
    double w;                /* ppb/s: largest w that was used for an epoch */
} mrd_follow_report;

typedef struct mrd_follow mrd_follow;

/* Creates a follower of one clock. `name` and `clock_id` as in mrd_align_new. NULL if out of
 * memory. */
mrd_follow *mrd_follow_new(const char *name, uint64_t clock_id, const mrd_follow_options *options);
void mrd_follow_free(mrd_follow *follow);
/* Adds one joined probe. Probes may come in any order. A probe of a bin that was closed before is
 * only counted as late. */
void mrd_follow_probe(mrd_follow *follow, const mrd_probe *probe);
uint64_t mrd_follow_probes(const mrd_follow *follow); /* number of probes that were added */
void mrd_follow_break(mrd_follow *follow, const mrd_epoch_break *at);
/*
 * Maps local time `at` with current knowledge. Returns false before the first estimate (3 bins).
 * Successive results for the same time differ as more probes arrive. Only the offline table keeps
 * times in order.
 */
bool mrd_follow_live(mrd_follow *follow, mrd_local_ns at, mrd_sess_ns *ret_at,
                     mrd_align_bound *ret_bound);
/* Gets the current width of the live bound and its smallest width in this epoch, ns; -1 if unknown.
 * If the current width is more than twice the smallest, the agent should probe faster. */
void mrd_follow_width(const mrd_follow *follow, mrd_dur_ns *ret_now, mrd_dur_ns *ret_best);

/* The input from which the table of a finished session is made. */
typedef struct {
    const char *name; /* name of the clock, for messages and reports */
    uint64_t clock_id;
    const mrd_probe *probes; /* the probes of the clock, in any order */
    size_t n_probes;
    /* inequalities in addition to the probes' own: from absolute time (absolute.h), a device, or
     * batches */
    const mrd_ineq *ineqs;
    size_t n_ineqs;
    const mrd_epoch_break *breaks; /* the breaks of the clock, ascending by time */
    size_t n_breaks;
    const mrd_follow_options *options; /* NULL means the values of mrd_follow_defaults */
} mrd_follow_input;

/*
 * Makes the table of a finished session, which depends only on the input. Errors: EMPTY if no epoch
 * could start (*why says what is missing), NOMEM, LIMIT.
 */
mrd_err mrd_follow_offline(const mrd_follow_input *in, mrd_align **ret_align,
                           mrd_follow_report *ret_report, mrd_why *why);
/* Like mrd_follow_offline, but uses only in->ineqs. Probes are ignored, and none is held out. */
mrd_err mrd_follow_solve(const mrd_follow_input *in, mrd_align **ret_align,
                         mrd_follow_report *ret_report, mrd_why *why);
/*
 * Adds segments for times beyond a break that has no evidence on its other side: before the first
 * segment of a table, or after its last one. A suspend or a migration moved the clock by an
 * unmeasured amount. So these times get a separate segment without a bound (quality "unaligned"),
 * placed by the stated loss of time. The adjacent segment is used up to the node's own readings of
 * its clocks before and after the break. mrd_follow_solve calls this function. A table that has
 * these segments already is unchanged. Errors (*align is then unchanged): NOMEM, LIMIT.
 */
mrd_err mrd_follow_open_ends(mrd_align **align, const mrd_epoch_break *breaks, size_t n);
/* Compares held-out probes with a table and adds the result to the report. */
void mrd_follow_check(const mrd_align *align, const mrd_probe *probes, size_t n,
                      mrd_follow_report *report);

#endif
