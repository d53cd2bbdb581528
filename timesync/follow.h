/*
 * timesync/follow.h - one clock followed from its probes: bound, estimate and epochs put together.
 *
 *   live      mrd_follow_live answers from what is known now, extrapolated from the last bin. It
 *             assumes w_live for a minute, then 4 times the bend of the estimate so far, at least
 *             w
 *   lagged    a table that grows: bins older than the lag, from a window of a minute that ends now.
 *             For the merge, whose watermark is later anyway. Never changes once written
 *   offline   mrd_follow_offline: both directions over everything. For finished sessions;
 *             recomputable from the stored probes
 *
 * One probe pair in ten is held out of the fit and checks it: a packet that would have arrived
 * before it was sent by the estimate is "reversed" (by how much is published), by the bound is a
 * violation. The number of violations must be 0.
 *
 * Units, sign  as align.h.
 * Threads  a mrd_follow belongs to one thread; so does the table it lends.
 * Memory   live and lagged: about 100 KiB for the window, plus 64 B per bin of the lagged table,
 *          which keeps between lagged_keep and twice as many.
 * Source   docs/timesync.md sections 4 to 7.
 */
#ifndef MRD_TIMESYNC_FOLLOW_H
#define MRD_TIMESYNC_FOLLOW_H

#include "timesync/align.h"
#include "timesync/bound.h"
#include "timesync/epoch.h"
#include "timesync/probe.h"
#include "timesync/smooth.h"

#define MRD_FOLLOW_LAG      (5 * MRD_SEC)
#define MRD_FOLLOW_WINDOW   (60 * MRD_SEC)
#define MRD_FOLLOW_ADAPT    (60 * MRD_SEC) /* then the live w follows the data */
#define MRD_FOLLOW_DENSE    30             /* ... if there are so many bins in the window */
#define MRD_FOLLOW_W_MAX    5000.0         /* ppb/s */
#define MRD_FOLLOW_SETTLING (30 * MRD_SEC) /* live answers of the first 30 s say "settling" */
#define MRD_FOLLOW_SUSPECT  (30 * MRD_SEC) /* how long a jump lowers the quality */

typedef struct {
    double w_live, w, w_estimate, w_estimate_live; /* ppb/s */
    double rate_max;                               /* ppb */
    size_t lagged_keep; /* bins that the lagged table keeps at least; 0: all of them */
} mrd_follow_options;

extern const mrd_follow_options mrd_follow_defaults;

typedef struct {
    mrd_bound_counts bound;
    uint64_t probes;
    uint64_t checked;        /* packets held out and compared */
    uint64_t reversed;       /* of these: impossible by the estimate */
    mrd_dur_ns reversed_max; /* by how much, at most */
    uint64_t violations;     /* of these: impossible by the bound */
    uint64_t jumps;          /* alarms of the CUSUM test */
    double w;                /* largest w used, ppb/s */
} mrd_follow_report;

typedef struct mrd_follow mrd_follow;

/* NULL without memory. name and clock_id as mrd_align_new. */
mrd_follow *mrd_follow_new(const char *name, uint64_t clock_id, const mrd_follow_options *options);
void mrd_follow_free(mrd_follow *follow);
/* One joined probe, in any order; one whose bin is closed already only counts (late). */
void mrd_follow_probe(mrd_follow *follow, const mrd_probe *probe);
void mrd_follow_break(mrd_follow *follow, const mrd_epoch_break *at);
/* Closes the open bin: no probe will come for a while, or the session ended. */
void mrd_follow_flush(mrd_follow *follow);
/*
 * What is believed now about `at`. False before the first answer (3 bins). Successive answers for
 * the same time differ as more is learned; order is only kept inside the lagged and the offline
 * table.
 */
bool mrd_follow_live(mrd_follow *follow, mrd_local_ns at, mrd_sess_ns *ret_at,
                     mrd_align_bound *ret_bound);
/* The lagged table, lent until the next call on it; grows at its end only. */
const mrd_align *mrd_follow_borrow_lagged(const mrd_follow *follow);
/* Width of the live bound now and at its best in this epoch, ns; -1 unknown. Above twice the best
 * the agent should probe faster. */
void mrd_follow_width(const mrd_follow *follow, mrd_dur_ns *ret_now, mrd_dur_ns *ret_best);
mrd_follow_report mrd_follow_counters(const mrd_follow *follow);

/* What a table is solved from. */
typedef struct {
    const char *name; /* of the clock, for people */
    uint64_t clock_id;
    const mrd_probe *probes; /* any order */
    size_t n_probes;
    const mrd_ineq *ineqs; /* beside the probes: of absolute time (absolute.h), a device, batches */
    size_t n_ineqs;
    const mrd_epoch_break *breaks; /* ascending */
    size_t n_breaks;
    const mrd_follow_options *options; /* NULL: mrd_follow_defaults */
} mrd_follow_input;

/*
 * The table of a finished session. Fully determined by its input. Errors: EMPTY when no epoch could
 * start (*why says what was missing), NOMEM, LIMIT.
 */
mrd_err mrd_follow_offline(const mrd_follow_input *in, mrd_align **ret_align,
                           mrd_follow_report *ret_report, mrd_why *why);
/* The same from the inequalities alone; probes are not looked at, none is held out. */
mrd_err mrd_follow_solve(const mrd_follow_input *in, mrd_align **ret_align,
                         mrd_follow_report *ret_report, mrd_why *why);
/*
 * What lies behind a break without evidence there: before the first segment of a table, or after its
 * last. A suspend or a migration moved the clock by what nobody measured, so these times get a segment
 * of their own without a bound (quality "unaligned"), shown where what was lost would put them; up to
 * the node's looks before and after the break the line beside it holds. mrd_follow_solve does it; a
 * table that has it stays as it is. An error leaves *align as it was: NOMEM, LIMIT.
 */
mrd_err mrd_follow_open_ends(mrd_align **align, const mrd_epoch_break *breaks, size_t n);
/* Adds the comparison of held-out probes with a table to the report. */
void mrd_follow_check(const mrd_align *align, const mrd_probe *probes, size_t n,
                      mrd_follow_report *report);

#endif
