/*
 * trace/analysis/verdict.h - what the numbers of a report say, by stated rules: what the time was bound by,
 * and whom the others wait for.
 *
 * Bound    what kept the devices from computing, over all workers: waiting for the last to come to a
 *          collective (barriers too, as far as nothing else ran), transfer (exposed from then on, and
 *          copies), communication (exposed of which neither is told: parts of others are not in the
 *          profile, or the operation lets those leave who are done), the host (its part, and idle because
 *          of late launches), loading of data, other idle time, and what was not recorded. With compute
 *          they add up to all windows.
 * Bottleneck   the largest loss where it is at least one part in MRD_REPORT_LOSS or takes more time than
 *          computation does, else computation: of two workers one can wait for the other for half of all
 *          time at most, while both compute for the other half.
 * Verdict  looks at the worker that made the others wait longest by its own work (own_wait_ns). It has to pass
 *          four tests, in this order:
 *            stands out   more than twice its even share of all waits (of two workers more than three
 *                         quarters), and own waits of at least MRD_VERDICT_IMPACT of all windows
 *            effect       MRD_VERDICT_RATIO times the own waits of any other worker: what healthy workers
 *                         cause is the noise
 *            steady       by chance somebody would reach this with a probability of at most MRD_VERDICT_P, and
 *                         it lasts (trace/analysis/steady.h)
 *            proven       at least half of the waits for it are proven
 *          A recording in which the job stands still gets no verdict on lateness, nor does one in which the
 *          others spent more time in a collective to which somebody did not come than lateness cost.
 *          A worker that stands out and fails effect or steady is late sometimes: it had its share, but
 *          nothing shows that it is the cause.
 */
#ifndef MRD_TRACE_VERDICT_H
#define MRD_TRACE_VERDICT_H

#include "trace/analysis/report.h"

#define MRD_VERDICT_IMPACT 0.01
#define MRD_VERDICT_RATIO  2
#define MRD_VERDICT_P      0.002

typedef enum {
    MRD_BOUND_COMPUTE,
    MRD_BOUND_SKEW,
    MRD_BOUND_TRANSFER,
    MRD_BOUND_COMMUNICATION,
    MRD_BOUND_HOST,
    MRD_BOUND_LOADING,
    MRD_BOUND_IDLE,
    MRD_BOUND_UNRECORDED,
    MRD_BOUNDS
} mrd_bound_by;

const char *mrd_bound_by_text(mrd_bound_by by); /* "skew", static */
/* Time of all workers by what they were bound by, in order of MRD_BOUND_*; they add up to the windows. */
void mrd_report_bounds(const mrd_report *r, uint64_t ret_ns[MRD_BOUNDS]);
/* The same of one worker. */
void mrd_report_bounds_of(const mrd_report_worker *w, uint64_t ret_ns[MRD_BOUNDS]);
/* Returns true if impossible records hide what half of all device time went to. */
bool mrd_report_is_hidden(const mrd_report *r);
/* MRD_BOUNDS without a window. */
mrd_bound_by mrd_report_bottleneck(const mrd_report *r);

typedef struct {
    uint32_t worker;
    double share;  /* of its window */
    double middle; /* the share of the worker in the middle (the lower median) */
} mrd_report_most;

/*
 * Finds the worker whose window has the largest share bound so. Returns true if it stands out: at least
 * half again as much as in the middle, and 5 % of the window more. For waiting, this is the worker that
 * suffers, not the cause.
 */
bool mrd_report_stands_out(const mrd_report *r, mrd_bound_by by, mrd_report_most *ret);

typedef enum {
    MRD_VERDICT_NOTHING,   /* no collective had two parts */
    MRD_VERDICT_NONE,      /* no worker stands out */
    MRD_VERDICT_STILL,     /* the job stood still at the end (trace/analysis/standstill.h) */
    MRD_VERDICT_ABSENT,    /* `worker` did not come to the last collective (mrd_report_absence) */
    MRD_VERDICT_MORE_WORK, /* program phases: `worker` computes more (trace/analysis/balance.h) */
    MRD_VERDICT_SOMETIMES, /* one does, but not steadily, or hardly more than another one */
    MRD_VERDICT_UNPROVEN,  /* one does, steadily, but the clocks cannot prove it */
    MRD_VERDICT_LATE,      /* `worker` is the one the others wait for */
} mrd_verdict_kind;

typedef struct {
    mrd_verdict_kind kind;
    uint32_t worker;
    double share; /* of all waits caused by it, 0..1 */
    /* Its own_wait_ns over all workers' windows. ABSENT: what the others spent. MORE_WORK: its computation beyond that
     * of the median worker, over its own. */
    double impact;
} mrd_verdict;

mrd_verdict mrd_report_verdict(const mrd_report *r);

#endif
