/*
 * timesync/follow.h - aligns one clock by its probes: combines the bound, the estimate and the
 * epochs
 *
 *   live     mrd_follow_live() extrapolates from the last bin with the current data. The assumed
 *            maximum change of the rate, w, is w_live for the first MRD_FOLLOW_ADAPT of an epoch.
 *            Then w is 4 times the largest bend (change of the rate) of the estimate until now, but
 *            at least the option w.
 *   offline  mrd_follow_offline() uses all data, in both directions of time. It is for finished
 *            sessions, and its result can be recomputed from the stored probes.
 *
 * One probe pair in ten is not used for the alignment (held out), but checks it. A held-out packet
 * is "reversed" if it was received before it was sent, according to the estimate. The report has
 * the largest amount of time. If this is so even according to the bound, the packet is a violation.
 * The number of violations must be 0.
 *
 * Units, sign  as align.h.
 * Threads      only one thread at a time may use a mrd_follow.
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

/* The live w is recomputed every MRD_FOLLOW_LAG, from the bins of the last MRD_FOLLOW_WINDOW. Bins
 * younger than MRD_FOLLOW_LAG are not used, because later packets still change their estimate. */
#define MRD_FOLLOW_LAG    (5 * MRD_SEC)
#define MRD_FOLLOW_WINDOW (60 * MRD_SEC)
/* The live w is w_live until an epoch is this long. Then it is computed from the data. After 15 s,
 * clocks that wander by 600 ppb/s left their bound in the simulation; after 30 s, none did. */
#define MRD_FOLLOW_ADAPT (30 * MRD_SEC)
/* Minimum number of bins in MRD_FOLLOW_WINDOW, or in proportion in a shorter time. With fewer bins,
 * the data may not show how much the rate changes, so w stays at w_live or above. */
#define MRD_FOLLOW_DENSE 30
#define MRD_FOLLOW_W_MAX 5000.0 /* the largest w that is computed, in ppb/s */
/* In this first part of an epoch, live results have the quality "settling". */
#define MRD_FOLLOW_SETTLING (30 * MRD_SEC)
/* time for which a detected jump lowers the quality to "suspect" */
#define MRD_FOLLOW_SUSPECT (30 * MRD_SEC)

typedef struct {
    /* assumed maximum change of the rate in ppb/s: for the live and the offline bound, and for the
     * offline and the live estimate */
    double w_live, w, w_estimate, w_estimate_live;
    double rate_max; /* assumed largest rate error of the clock, in ppb */
} mrd_follow_options;

extern const mrd_follow_options mrd_follow_defaults;

typedef struct {
    mrd_bound_counts bound;
    uint64_t probes;
    uint64_t checked; /* number of held-out packets that were compared with the result */
    /* number of checked packets that were received before they were sent, by the estimate */
    uint64_t reversed;
    mrd_dur_ns reversed_max; /* largest amount by which a packet was reversed, in ns */
    /* number of checked packets that are reversed even by the bound; must be 0 */
    uint64_t violations;
    uint64_t jumps; /* number of alarms that the CUSUM test gave for jumps */
    double w;       /* largest w that was used for an epoch, in ppb/s */
} mrd_follow_report;

typedef struct mrd_follow mrd_follow;

/* Creates a follower of one clock. `name` and `clock_id` as in mrd_align_new. NULL if out of
 * memory. */
mrd_follow *mrd_follow_new(const char *name, uint64_t clock_id, const mrd_follow_options *options);
void mrd_follow_free(mrd_follow *follow);
/* Adds one complete probe (both halves joined). Probes may come in any order. A probe of a closed
 * bin changes nothing and is only counted as late. */
void mrd_follow_probe(mrd_follow *follow, const mrd_probe *probe);
uint64_t mrd_follow_probes(const mrd_follow *follow); /* number of probes that were added */
void mrd_follow_break(mrd_follow *follow, const mrd_epoch_break *at);
/*
 * Maps local time `at` with the current data. Returns false before the first estimate, which needs
 * 3 bins. Results for the same time change as more probes arrive, so they can be out of order. Only
 * the offline table keeps times in order.
 */
bool mrd_follow_live(mrd_follow *follow, mrd_local_ns at, mrd_sess_ns *ret_at,
                     mrd_align_bound *ret_bound);
/* Stores the current width of the live bound, and its smallest width in this epoch, in ns; -1 if
 * unknown. If the current width is more than twice the smallest, the agent should probe faster. */
void mrd_follow_width(const mrd_follow *follow, mrd_dur_ns *ret_now, mrd_dur_ns *ret_best);

/* The input from which the table of a finished session is made. */
typedef struct {
    const char *name; /* name of the clock, for messages and reports */
    uint64_t clock_id;
    const mrd_probe *probes; /* the clock's probes, in any order */
    size_t n_probes;
    /* more inequalities, which come from absolute time (absolute.h), a device, or batches */
    const mrd_ineq *ineqs;
    size_t n_ineqs;
    const mrd_epoch_break *breaks; /* the breaks of the clock, in order of time */
    size_t n_breaks;
    const mrd_follow_options *options; /* options; NULL means the values of mrd_follow_defaults */
} mrd_follow_input;

/*
 * Makes the table of a finished session. It depends only on the input, not on earlier live results.
 * Errors: NOMEM, LIMIT, and EMPTY if no epoch could start (*why says what is missing).
 */
mrd_err mrd_follow_offline(const mrd_follow_input *in, mrd_align **ret_align,
                           mrd_follow_report *ret_report, mrd_why *why);
/* Like mrd_follow_offline, but uses only in->ineqs. Probes are ignored, and none is held out. */
mrd_err mrd_follow_solve(const mrd_follow_input *in, mrd_align **ret_align,
                         mrd_follow_report *ret_report, mrd_why *why);
/*
 * Extends a table to times before its first or after its last segment, if a break there has packets
 * on only one side. A suspend or a migration moved the clock by an unknown amount. So times beyond
 * the break get a new segment without a bound (quality "unaligned"). The offset of the new segment
 * assumes that the clock stood still for the time stated in the break. The existing segment is
 * extended up to the break. mrd_follow_solve() calls this function. A table that has these segments
 * already is unchanged. Errors: NOMEM, LIMIT; *align is then unchanged.
 */
mrd_err mrd_follow_open_ends(mrd_align **align, const mrd_epoch_break *breaks, size_t n);
/* Compares the held-out probes (see above) with the alignment `align` and adds the counts to the
 * report. */
void mrd_follow_check(const mrd_align *align, const mrd_probe *probes, size_t n,
                      mrd_follow_report *report);

#endif
