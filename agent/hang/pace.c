#include "agent/hang/pace.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

/* time in which calls are counted before the first choice of a leading operation */
#define FIRST_WINDOW (2 * MRD_SEC)
/* An operation with shorter steps cannot lead. Executions may be shorter than other operations,
 * which are often called several times in a step. */
#define PERIOD_MIN         MRD_MS
#define PERIOD_MIN_EXECUTE (100 * MRD_US)
/* a call counts as begun since the last look if it began at most this long before it */
#define LOOK_BOUND (10 * MRD_MS)
/* how much the times may differ from the clock, for the conversion of ticks */
#define MISFIT_BOUND(elapsed) (100 * MRD_US + (elapsed) / 10000)

/* ---- The leading operation ---- */

static bool
is_op(const mrd_rank_pace_op *op, const char *name, uint64_t group)
{
    return op->group == group && strcmp(op->name, name) == 0;
}

static void
set_op(mrd_rank_pace_op *to, const mrd_drain_op *op)
{
    snprintf(to->name, sizeof(to->name), "%s", op->name);
    to->group = op->group;
    to->entered = op->entered;
    to->inside = 0;
}

static bool
is_execution(const char *name)
{
    return strstr(name, "execute") != NULL;
}

static void
begin_window(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops, mrd_local_ns now)
{
    tracker->window = now;
    tracker->n_starts = ops->n;
    for (size_t i = 0; i < ops->n; i++)
        set_op(&tracker->starts[i], &ops->v[i]);
}

/* Returns how often the process entered the operation since the window began, or since the
 * operation appeared. */
static uint64_t
calls_of(mrd_rank_pace_tracker *tracker, const mrd_drain_op *op)
{
    for (size_t i = 0; i < tracker->n_starts; i++)
        if (is_op(&tracker->starts[i], op->name, op->group))
            return op->entered - tracker->starts[i].entered;
    if (tracker->n_starts < MRD_DRAIN_OPS)
        set_op(&tracker->starts[tracker->n_starts++], op);
    return 0;
}

/* Returns true if `a` with n_a calls is to lead rather than `b` with n_b calls. Numbers that differ
 * little count as equal, so that all ranks choose the same one of several models. */
static bool
leads(const mrd_drain_op *a, uint64_t n_a, const mrd_drain_op *b, uint64_t n_b)
{
    bool executes_a = is_execution(a->name), executes_b = is_execution(b->name);
    int order = strcmp(a->name, b->name);

    if (executes_a != executes_b)
        return executes_a;
    if (n_a / 10 * 9 > n_b || n_b / 10 * 9 > n_a || (n_a < 10 && n_a > n_b + 1) ||
        (n_b < 10 && n_b > n_a + 1))
        return n_a > n_b;
    return order < 0 || (order == 0 && a->group < b->group);
}

/* Returns the operation that is to lead according to the calls of the window, or NULL. */
static const mrd_drain_op *
best_of(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops, mrd_dur_ns elapsed)
{
    const mrd_drain_op *best = NULL;
    bool rare_execution = false;
    uint64_t best_n = 0;

    for (size_t i = 0; i < ops->n; i++) {
        const mrd_drain_op *op = &ops->v[i];
        uint64_t n = calls_of(tracker, op);
        mrd_dur_ns least = is_execution(op->name) ? PERIOD_MIN_EXECUTE : PERIOD_MIN;

        rare_execution = rare_execution || (is_execution(op->name) && n < 2);
        if (n < 2 || n > (uint64_t) (elapsed / least))
            continue;
        if (best == NULL || leads(op, n, best, best_n)) {
            best = op;
            best_n = n;
        }
    }
    /* give the executions more time to show how often they are entered */
    if (rare_execution && elapsed < MRD_RANK_PACE_WINDOW && best != NULL &&
        !is_execution(best->name))
        return NULL;
    return best;
}

static const mrd_drain_op *
lead_of(const mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops)
{
    for (size_t i = 0; i < ops->n; i++)
        if (tracker->lead.name[0] != '\0' && is_op(&tracker->lead, ops->v[i].name, ops->v[i].group))
            return &ops->v[i];
    return NULL;
}

/* Chooses the leading operation at the end of a window. */
static void
choose_lead(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops, mrd_local_ns now)
{
    const mrd_drain_op *lead = lead_of(tracker, ops), *best;
    mrd_dur_ns elapsed = mrd_local_diff(now, tracker->window);
    bool has_lead = tracker->lead.name[0] != '\0';

    if (tracker->window.ns == 0)
        begin_window(tracker, ops, now);
    for (size_t i = 0; i < ops->n; i++)
        (void) calls_of(tracker, &ops->v[i]); /* those that appeared are counted from now on */
    if (elapsed < (has_lead ? MRD_RANK_PACE_WINDOW : FIRST_WINDOW) || tracker->window.ns == now.ns)
        return;
    best = best_of(tracker, ops, elapsed);
    if (lead != NULL && calls_of(tracker, lead) > 0 &&
        (best == NULL || is_execution(lead->name) || !is_execution(best->name)))
        best = lead;
    if (best == NULL && mrd_local_diff(now, tracker->window) < 60 * MRD_RANK_PACE_WINDOW)
        return; /* the steps are long; count on */
    if (best != NULL && best != lead) {
        set_op(&tracker->lead, best);
        tracker->last.at.ns = 0;
        tracker->thread = 0;
        if (tracker->valid) /* time to report that the process has no pace */
            tracker->due = mrd_local_add(now, MRD_RANK_PACE_EVERY);
        tracker->valid = false;
    }
    begin_window(tracker, ops, now);
}

/* ---- Reading the times ---- */

/* Returns the index of the leading operation in the thread's operations, or n_ops. */
static size_t
lead_in(const mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops,
        const mrd_drain_thread *thread)
{
    size_t i = 0;

    while (i < thread->n_ops &&
           !is_op(&tracker->lead, ops->v[thread->ops[i].op].name, ops->v[thread->ops[i].op].group))
        i++;
    return i;
}

/* Returns the main thread: the one of the last reading if it still exists. */
static const mrd_drain_thread *
main_thread(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops,
            const mrd_drain_threads *threads)
{
    const mrd_drain_thread *lowest = NULL;

    for (size_t i = 0; i < threads->n; i++) {
        const mrd_drain_thread *thread = &threads->v[i];

        if (lead_in(tracker, ops, thread) == thread->n_ops)
            continue;
        if (thread->ring.thread == tracker->thread)
            return thread;
        if (lowest == NULL || thread->ring.thread < lowest->ring.thread)
            lowest = thread;
    }
    if (lowest != NULL)
        tracker->thread = lowest->ring.thread;
    return lowest;
}

/* Returns true if the thread's times describe all calls that its operations show as ended. */
static bool
is_consistent(const mrd_drain_thread *thread)
{
    if (!thread->ring.steady)
        return false;
    for (size_t i = 0; i < thread->n_ops; i++)
        if (!thread->ops[i].open && mrd_local_before(thread->ring.ended, thread->ops[i].begin))
            return false;
    return true;
}

/* Returns true if the thread's newest call of operation `lead` is the only open call, or the newest
 * call and ended. Only then do the times tell what the thread had done when the call began. After
 * another call has begun, its slot does not show whether there were earlier ones. */
static bool
is_newest(const mrd_drain_thread *thread, size_t lead)
{
    const mrd_drain_thread_op *op = &thread->ops[lead];

    for (size_t i = 0; i < thread->n_ops; i++) {
        const mrd_drain_thread_op *other = &thread->ops[i];

        if (i != lead && (other->open || (!op->open && !mrd_local_before(other->begin, op->begin))))
            return false;
    }
    return op->open || (thread->ring.flags & MRD_RING_OPS_NESTED) == 0;
}

/* Reads what the thread had done when its newest call of operation `lead` began. */
static void
read_pace(const mrd_drain_ops_kept *ops, const mrd_drain_thread *thread, size_t lead,
          mrd_rank_pace *ret_pace)
{
    const mrd_drain_thread_op *op = &thread->ops[lead];
    mrd_rank_pace_op *lead_op = &ret_pace->ops[lead];

    *ret_pace = (mrd_rank_pace){ .at = op->begin,
                                 .thread = thread->ring.thread,
                                 .outside = thread->ring.outside,
                                 .n_ops = thread->n_ops,
                                 .lead = lead };
    for (size_t i = 0; i < thread->n_ops; i++) {
        set_op(&ret_pace->ops[i], &ops->v[thread->ops[i].op]);
        ret_pace->ops[i].entered = thread->ops[i].calls + (uint64_t) thread->ops[i].open;
        ret_pace->ops[i].inside = thread->ops[i].inside;
    }
    if (op->open && thread->ring.ended.ns != 0)
        ret_pace->outside =
            mrd_sat_add(ret_pace->outside, mrd_local_diff(op->begin, thread->ring.ended));
    if (!op->open)
        lead_op->inside =
            mrd_sat_sub(lead_op->inside, mrd_local_diff(thread->ring.ended, op->begin));
    lead_op->inside = lead_op->inside > 0 ? lead_op->inside : 0; /* ticks are rounded to ns */
}

static mrd_dur_ns
sum_of(const mrd_rank_pace *pace)
{
    mrd_dur_ns sum = pace->outside;

    for (size_t i = 0; i < pace->n_ops; i++)
        sum = mrd_sat_add(sum, pace->ops[i].inside);
    return sum;
}

/* Returns true if the times of two readings grew as fast as the clock. */
static bool
fits(const mrd_rank_pace *before, const mrd_rank_pace *pace)
{
    mrd_dur_ns elapsed = mrd_local_diff(pace->at, before->at);
    mrd_dur_ns misfit =
        mrd_sat_abs(mrd_sat_sub(mrd_sat_sub(sum_of(pace), sum_of(before)), elapsed));

    return before->thread == pace->thread && misfit <= MISFIT_BOUND(elapsed);
}

/* The ring counts calls modulo 2^32. Continues the counts of the reading before. */
static void
continue_counts(const mrd_rank_pace *before, mrd_rank_pace *pace)
{
    for (size_t i = 0; i < pace->n_ops; i++)
        for (size_t k = 0; k < before->n_ops; k++) {
            uint64_t last = before->ops[k].entered;
            uint32_t more = (uint32_t) (pace->ops[i].entered - last);

            /* a lower count is an operation that got another slot */
            if (is_op(&before->ops[k], pace->ops[i].name, pace->ops[i].group) && more < INT32_MAX)
                pace->ops[i].entered = last + more;
        }
}

/* Reads a pace if the leading operation has begun a call since the look before at `looked`. */
static void
read_next(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops,
          const mrd_drain_threads *threads, mrd_local_ns looked)
{
    const mrd_drain_thread *thread = main_thread(tracker, ops, threads);
    const mrd_drain_thread_op *op;
    mrd_rank_pace pace;
    size_t lead;

    if (thread == NULL)
        return;
    lead = lead_in(tracker, ops, thread);
    op = &thread->ops[lead];
    if (!mrd_local_after(op->begin, mrd_local_sub(looked, LOOK_BOUND)) ||
        !mrd_local_after(op->begin, tracker->last.at) || !is_consistent(thread) ||
        !is_newest(thread, lead))
        return;
    read_pace(ops, thread, lead, &pace);
    tracker->valid = tracker->last.at.ns == 0 || fits(&tracker->last, &pace);
    if (tracker->valid)
        continue_counts(&tracker->last, &pace);
    tracker->last = pace;
    tracker->due = mrd_local_add(pace.at, MRD_RANK_PACE_EVERY);
}

bool
mrd_rank_pace_look(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops,
                   const mrd_drain_threads *threads, mrd_local_ns now)
{
    mrd_local_ns before = { tracker->valid ? tracker->last.at.ns : 0 };
    mrd_local_ns looked = tracker->looked;

    tracker->looked = now;
    choose_lead(tracker, ops, now);
    if (looked.ns != 0 && tracker->lead.name[0] != '\0' && !mrd_local_before(now, tracker->due))
        read_next(tracker, ops, threads, looked);
    return before.ns != (tracker->valid ? tracker->last.at.ns : 0);
}

const mrd_rank_pace *
mrd_rank_pace_of(const mrd_rank_pace_tracker *tracker)
{
    return tracker->valid ? &tracker->last : NULL;
}
