#include "trace/analysis/judge/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

const char *
mrd_bound_by_text(mrd_bound_by by)
{
    static const char *const text[] = {
        [MRD_BOUND_COMPUTE] = "compute",   [MRD_BOUND_SKEW] = "skew",
        [MRD_BOUND_TRANSFER] = "transfer", [MRD_BOUND_COMMUNICATION] = "communication",
        [MRD_BOUND_HOST] = "host",         [MRD_BOUND_LOADING] = "loading",
        [MRD_BOUND_IDLE] = "idle",         [MRD_BOUND_UNRECORDED] = "not_recorded",
    };

    return (unsigned) by < MRD_BOUNDS ? text[by] : "?";
}

void
mrd_report_bounds_of(const mrd_report_worker *worker, uint64_t ret_ns[MRD_BOUNDS])
{
    ret_ns[MRD_BOUND_COMPUTE] =
        worker->part_ns[MRD_REPORT_COMPUTE] + worker->part_ns[MRD_REPORT_BOTH];
    ret_ns[MRD_BOUND_SKEW] = worker->part_ns[MRD_REPORT_WAITING] + worker->exposed_wait_ns;
    ret_ns[MRD_BOUND_TRANSFER] = worker->exposed_transfer_ns + worker->part_ns[MRD_REPORT_COPY];
    ret_ns[MRD_BOUND_COMMUNICATION] =
        worker->part_ns[MRD_REPORT_EXPOSED] - worker->exposed_wait_ns - worker->exposed_transfer_ns;
    ret_ns[MRD_BOUND_HOST] = worker->part_ns[MRD_REPORT_HOST] + worker->idle_ns[MRD_IDLE_LAUNCH];
    ret_ns[MRD_BOUND_LOADING] = worker->idle_ns[MRD_IDLE_LOADING];
    ret_ns[MRD_BOUND_IDLE] = worker->idle_ns[MRD_IDLE_SHORT] + worker->idle_ns[MRD_IDLE_QUEUED] +
                             worker->idle_ns[MRD_IDLE_UNKNOWN];
    ret_ns[MRD_BOUND_UNRECORDED] = worker->part_ns[MRD_REPORT_UNRECORDED];
}

void
mrd_report_bounds(const mrd_report *report, uint64_t ret_ns[MRD_BOUNDS])
{
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(report, &n);

    memset(ret_ns, 0, MRD_BOUNDS * sizeof(*ret_ns));
    for (size_t i = 0; i < n; i++) {
        uint64_t one[MRD_BOUNDS];

        mrd_report_bounds_of(&worker[i], one);
        for (unsigned k = 0; k < MRD_BOUNDS; k++)
            ret_ns[k] += one[k];
    }
}

bool
mrd_report_is_hidden(const mrd_report *report)
{
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(report, &n);
    uint64_t hidden = 0;

    for (size_t i = 0; i < n; i++)
        if (mrd_credible_hides(mrd_report_credible(report, worker[i].process)))
            hidden += mrd_report_window(&worker[i]);
    return hidden > 0 && hidden >= mrd_report_totals_of(report)->window_ns / 2;
}

mrd_bound_by
mrd_report_bottleneck(const mrd_report *report)
{
    uint64_t ns[MRD_BOUNDS], window = mrd_report_totals_of(report)->window_ns;
    mrd_bound_by loss = MRD_BOUND_COMPUTE + 1;

    if (window == 0)
        return MRD_BOUNDS;
    mrd_report_bounds(report, ns);
    for (unsigned k = loss + 1; k < MRD_BOUNDS; k++)
        loss = ns[k] > ns[loss] ? (mrd_bound_by) k : loss;
    return ns[loss] > ns[MRD_BOUND_COMPUTE] || ns[loss] > (window - 1) / MRD_REPORT_LOSS
               ? loss
               : MRD_BOUND_COMPUTE;
}

bool
mrd_report_stands_out(const mrd_report *report, mrd_bound_by by, mrd_report_most *ret)
{
    size_t count;
    const mrd_report_worker *worker = mrd_report_workers(report, &count);
    double *share = calloc(count + 1, sizeof(*share));
    mrd_report_most most = { .share = -1 };

    if (share == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t ns[MRD_BOUNDS], window = mrd_report_window(&worker[i]);

        mrd_report_bounds_of(&worker[i], ns);
        share[i] = window == 0 ? 0 : (double) ns[by] / (double) window;
        if (share[i] > most.share)
            most = (mrd_report_most){ .worker = (uint32_t) i, .share = share[i] };
    }
    if (count > 0) {
        qsort(share, count, sizeof(*share), mrd_double_order);
        most.middle = share[(count - 1) / 2];
        *ret = most;
    }
    free(share);
    return count > 1 && most.share >= 1.5 * most.middle && most.share >= most.middle + 0.05;
}

/* ---- The late worker ---- */

/* Finds the worker with the largest own_wait_ns, and the second largest own_wait_ns. Returns how
 * many workers took part in collectives. */
static size_t
find_most(const mrd_report_worker *worker, size_t n, uint32_t *ret_most, uint64_t *ret_next_ns)
{
    uint64_t most = 0, next = 0;
    size_t took_part = 0;

    for (size_t i = 0; i < n; i++) {
        if (worker[i].took_part == 0)
            continue;
        if (took_part++ == 0 || worker[i].own_wait_ns > most) {
            next = took_part == 1 ? 0 : most;
            most = worker[i].own_wait_ns;
            *ret_most = (uint32_t) i;
        } else if (worker[i].own_wait_ns > next) {
            next = worker[i].own_wait_ns;
        }
    }
    *ret_next_ns = next;
    return took_part;
}

/* Finds the late worker, without considering standstills and absences. */
static mrd_verdict
judge_lateness(const mrd_report *report)
{
    mrd_verdict verdict = { .kind = MRD_VERDICT_NOTHING };
    const mrd_report_totals *totals = mrd_report_totals_of(report);
    uint64_t next_ns;
    size_t n;
    const mrd_report_worker *worker = mrd_report_workers(report, &n);
    double even = 1.0 / (double) find_most(worker, n, &verdict.worker, &next_ns), much;

    if (even > 1 || totals->window_ns == 0)
        return verdict;
    worker += verdict.worker;
    verdict.kind = MRD_VERDICT_NONE;
    if (totals->wait_ns == 0)
        return verdict;
    verdict.share = (double) worker->caused_ns / (double) totals->wait_ns;
    verdict.impact = (double) worker->own_wait_ns / (double) totals->window_ns;
    much = 2 * even < (1 + even) / 2 ? 2 * even : (1 + even) / 2;
    if (verdict.share <= much || verdict.impact < MRD_VERDICT_IMPACT)
        return verdict;
    verdict.kind = worker->own_wait_ns / MRD_VERDICT_RATIO < next_ns || !worker->steady.lasts ||
                           worker->steady.p > MRD_VERDICT_P
                       ? MRD_VERDICT_SOMETIMES
                   : worker->proven_ns >= worker->caused_ns - worker->proven_ns
                       ? MRD_VERDICT_LATE
                       : MRD_VERDICT_UNPROVEN;
    return verdict;
}

mrd_verdict
mrd_report_verdict(const mrd_report *report)
{
    mrd_verdict verdict = judge_lateness(report);
    const mrd_report_absence *absence = &mrd_report_totals_of(report)->absence;
    const mrd_imbalance *imbalance = &mrd_report_totals_of(report)->imbalance;
    double window = (double) mrd_report_totals_of(report)->window_ns,
           spent = window > 0 ? (double) absence->spent_ns / window : 0;
    mrd_ev_ns since;
    mrd_ended kind;

    if (mrd_report_stuck(report)->n > 0 ||
        (mrd_standstill_since(mrd_report_standstill(report), &since, &kind) &&
         (absence->workers == 0 || !absence->is_open)))
        return (mrd_verdict){ .kind = MRD_VERDICT_STILL };
    if (absence->workers > 0 &&
        (absence->is_split || (spent >= MRD_VERDICT_IMPACT &&
                               (verdict.kind < MRD_VERDICT_SOMETIMES || spent > verdict.impact))))
        verdict = (mrd_verdict){ .kind = MRD_VERDICT_ABSENT,
                                 .worker = absence->absents[0].worker,
                                 .impact = spent };
    if (verdict.kind < MRD_VERDICT_ABSENT && imbalance->workers > 0)
        verdict = (mrd_verdict){ .kind = MRD_VERDICT_MORE_WORK,
                                 .worker = imbalance->worker,
                                 .impact = (double) (imbalance->ns - imbalance->median_ns) /
                                           (double) imbalance->ns };
    return verdict;
}

const char *
mrd_idle_cause_text(mrd_idle_cause cause)
{
    static const char *const text[] = {
        [MRD_IDLE_LOADING] = "loading", [MRD_IDLE_LAUNCH] = "launch",   [MRD_IDLE_SHORT] = "short",
        [MRD_IDLE_QUEUED] = "queued",   [MRD_IDLE_UNKNOWN] = "unknown",
    };

    return (unsigned) cause < MRD_IDLE_CAUSES ? text[cause] : "?";
}
