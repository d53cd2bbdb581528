/*
 * trace/analysis/judge/verdict.h - draws two conclusions from the numbers of a report, by fixed
 * rules: the bottleneck, and the worker for which the others wait.
 *
 * Bound    the reasons why the devices did not compute. The time of all workers is divided by them:
 *   skew           waiting for the last worker in a collective. Also waiting in barriers if nothing
 *                  else ran.
 *   transfer       exposed communication after the last worker has begun, and copies.
 *   communication  exposed time that cannot be split, because parts of other workers are not in the
 *                  profile, or the operation lets a member leave early.
 *   host           the part `host`, and idle time because of late launches.
 *   The other bounds are loading of data, other idle time, and time that was not recorded. Together
 *   with compute they add up to all windows.
 *
 * Bottleneck  the largest loss if it is at least 1 / MRD_REPORT_LOSS of all windows or larger than
 *             computation, else computation. A loss need not be half of all time to be the
 *             bottleneck. For example, if one of two workers always computes and the other one
 *             waits for it half of the time, waiting is only a quarter of the time of both.
 * Verdict     considers the worker that made the others wait longest by its own work (own_wait_ns).
 *             The worker has to pass these four tests, in this order.
 *   stands out   it causes more than twice its even share of all waits (of two workers more than
 *                three quarters), and its own waits are at least MRD_VERDICT_IMPACT of all windows.
 *   effect       its own waits are at least MRD_VERDICT_RATIO times those of each other worker,
 *                because healthy workers cause waits by chance, too.
 *   steady       the probability that chance causes this is at most MRD_VERDICT_P, and the lateness
 *                lasts (trace/analysis/series/steady.h).
 *   proven       at least half of the waits for the worker are proven.
 * There is no verdict on lateness if the job stands still at the end of the recording. The same
 * holds if a collective that lacks a member cost the others more time than lateness. A worker that
 * stands out but fails effect or steady is late sometimes. Such a worker contributed, but is not
 * shown to be the cause.
 */
#ifndef MRD_TRACE_VERDICT_H
#define MRD_TRACE_VERDICT_H

#include "trace/analysis/judge/report.h"

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

const char *mrd_bound_by_text(mrd_bound_by by); /* returns a static text such as "skew" */
/* Stores the time of all workers for each MRD_BOUND_*. The values add up to the sum of all
 * windows. */
void mrd_report_bounds(const mrd_report *report, uint64_t ret_ns[MRD_BOUNDS]);
/* Stores the time of one worker for each MRD_BOUND_*. The values add up to the worker's window. */
void mrd_report_bounds_of(const mrd_report_worker *worker, uint64_t ret_ns[MRD_BOUNDS]);
/* Returns true if impossible records hide how at least half of all device time was spent
 * (mrd_credible_hides). */
bool mrd_report_is_hidden(const mrd_report *report);
/* Returns the bottleneck; MRD_BOUNDS if there is no window. */
mrd_bound_by mrd_report_bottleneck(const mrd_report *report);

typedef struct {
    uint32_t worker;
    double share;  /* share of `by` in the worker's window */
    double middle; /* share of `by` in the window of the median worker (the lower median) */
} mrd_report_most;

/*
 * Finds the worker with the largest share of `by` in its window. Returns true if it stands out: its
 * share is at least 1.5 times the median worker's, and exceeds it by 5 % of the window. If `by` is
 * a kind of waiting, this worker waits for others and is not the cause.
 */
bool mrd_report_stands_out(const mrd_report *report, mrd_bound_by by, mrd_report_most *ret);

typedef enum {
    MRD_VERDICT_NOTHING, /* no collective has two parts */
    MRD_VERDICT_NONE,    /* no worker stands out */
    /* the job stood still at the end (trace/analysis/judge/standstill.h, or stuck.h) */
    MRD_VERDICT_STILL,
    MRD_VERDICT_ABSENT, /* `worker` did not begin the last collective (mrd_report_absence) */
    /* in program phases, `worker` computes more (trace/analysis/balance.h) */
    MRD_VERDICT_MORE_WORK,
    /* a worker stands out, but only in a part of the recording, or little more than another one */
    MRD_VERDICT_SOMETIMES,
    MRD_VERDICT_UNPROVEN, /* a worker stands out steadily, but the clocks cannot prove it */
    MRD_VERDICT_LATE,     /* the other workers wait for `worker` */
} mrd_verdict_kind;

typedef struct {
    mrd_verdict_kind kind;
    uint32_t worker;
    double share; /* share of all waits that the worker caused, 0..1 */
    /* The worker's own_wait_ns, divided by the sum of all windows. For ABSENT, the time that the
     * others spent in the collective, divided by the same sum. For MORE_WORK, the worker's
     * computation beyond the median worker's, divided by the worker's computation. */
    double impact;
} mrd_verdict;

mrd_verdict mrd_report_verdict(const mrd_report *report);

#endif
