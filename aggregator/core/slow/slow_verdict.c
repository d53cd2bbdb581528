/* Gives and withdraws the verdicts about jobs with slow ranks. */
#include "aggregator/core/slow/slow_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/core/common/text.h"
#include "base/vec.h"

/* the least part of the delay by which the slowest rank exceeds the ranks that are not slow */
#define LONGEST 0.25F
#define CONFIRM 2 /* number of judgements in a row that must find the same rank */
/* A verdict is withdrawn after this number of judgements in a row in which the delay was over. */
#define OVER 8
/* ... or in which the rank could not be judged */
#define UNJUDGED 60
/* The judgements of long windows change slowly, so fewer of them suffice. */
#define OVER_LONG 2
#define SCALES    3
#define GROUPS    64 /* maximum number of groups of ranks that are judged in one job */

static const unsigned scales[SCALES] = { 1, 4, SLOW_SCALE_MAX };

static void
note(mrd_slow *slow, const mrd_slow_verdict *verdict)
{
    if (MRD_VEC_ROOM(slow->changed, slow->n_changed, slow->cap_changed, 1))
        slow->changed[slow->n_changed++] = *verdict;
}

void
mrd_slow_withdraw(mrd_slow *slow, slow_job *job, mrd_local_ns now)
{
    if (job->verdict.cls == MRD_SLOW_NO_VERDICT)
        return;
    job->verdict.withdrawn = now;
    slow->counts.withdrawn++;
    note(slow, &job->verdict);
    slow->history[slow->history_at] = job->verdict;
    slow->history_at = (slow->history_at + 1) % MRD_SLOW_HISTORY;
    slow->n_history += slow->n_history < MRD_SLOW_HISTORY;
    job->verdict.cls = MRD_SLOW_NO_VERDICT;
    job->over = job->unjudged = 0;
    job->candidate.pid = 0;
}

/* ---- The text ---- */

static const char *
what_of(mrd_slow_class slow_class)
{
    switch (slow_class) {
    case MRD_SLOW_IS_DEVICE:
        return "in its cores' own work";
    case MRD_SLOW_IS_RUNTIME:
        return "in loads and other operations that wait for no rank";
    case MRD_SLOW_IS_EXECUTION:
        return "inside executions";
    default:
        return "outside of executions and collectives";
    }
}

static void
explain(mrd_slow_verdict *verdict)
{
    const mrd_slow_culprit *first = &verdict->named[0];
    char who[48], more[48] = "", text[512];

    if (first->rank >= 0)
        snprintf(who, sizeof(who), "rank %lld", (long long) first->rank);
    else
        snprintf(who, sizeof(who), "process %lld", (long long) first->pid);
    if (verdict->n_culprits > 1)
        snprintf(more, sizeof(more), "; %zu more rank%s slow", verdict->n_culprits - 1,
                 verdict->n_culprits == 2 ? " is" : "s are");
    snprintf(text, sizeof(text),
             "%s on %.80s spends %.1f ms of each step of %.1f ms %s, its peers %.1f ms%s%s", who,
             first->node, (double) first->own / 1e6, (double) verdict->step / 1e6,
             what_of(verdict->cls), (double) first->peers / 1e6,
             verdict->cls == MRD_SLOW_STARVED ? ", because it waits for a CPU" : "", more);
    mrd_text_set(verdict->reason, sizeof(verdict->reason), text);
}

/* ---- Giving a verdict ---- */

static int
order_of_findings(const void *a, const void *b)
{
    const slow_finding *x = a, *y = b;

    if (x->excess != y->excess)
        return x->excess > y->excess ? -1 : 1;
    return x->process->member < y->process->member ? -1 : x->process->member > y->process->member;
}

static bool
is_process(const slow_watched *watched, const slow_process *process)
{
    return watched->pid == process->pid && watched->start_ticks == process->start_ticks &&
           watched->node == process->node;
}

/* Keeps the longest delay of each rank, in the order of the delays. */
static void
one_for_each_rank(mrd_slow *slow)
{
    size_t n = 0;

    if (slow->n_findings == 0)
        return;
    qsort(slow->findings, slow->n_findings, sizeof(*slow->findings), order_of_findings);
    for (size_t i = 0; i < slow->n_findings; i++) {
        bool known = false;

        for (size_t k = 0; k < n && !known; k++)
            known = slow->findings[k].process == slow->findings[i].process;
        if (!known)
            slow->findings[n++] = slow->findings[i];
    }
    slow->n_findings = n;
}

static void
name_rank(const mrd_slow *slow, mrd_slow_verdict *verdict, const slow_finding *finding)
{
    mrd_slow_culprit *culprit = &verdict->named[verdict->n_named++];

    *culprit = (mrd_slow_culprit){ .rank = finding->process->rank,
                                   .pid = finding->process->pid,
                                   .part = finding->part,
                                   .own = (mrd_dur_ns) (finding->peers + finding->excess),
                                   .peers = (mrd_dur_ns) finding->peers };
    mrd_text_set(culprit->node, sizeof(culprit->node), slow->nodes[finding->process->node].name);
}

/* Lists the slow ranks. The rank with the index `first` in the findings comes first. */
static void
name_ranks(const mrd_slow *slow, mrd_slow_verdict *verdict, size_t first)
{
    verdict->n_named = 0;
    name_rank(slow, verdict, &slow->findings[first]);
    for (size_t i = 0; i < slow->n_findings && verdict->n_named < MRD_SLOW_NAMED; i++)
        if (i != first)
            name_rank(slow, verdict, &slow->findings[i]);
    verdict->n_culprits = slow->n_findings;
    verdict->step = (mrd_dur_ns) slow->findings[first].step;
}

static void
date(mrd_slow *slow, slow_window *window, const slow_finding *finding, mrd_slow_verdict *verdict)
{
    const slow_series *series = finding->process->series;
    float noise = finding->spread / finding->excess;

    verdict->since = mrd_slow_onset(slow, window, finding, &verdict->since_first);
    verdict->since_bound = MRD_SLOW_SLOT + (mrd_dur_ns) finding->step + series->last.bound +
                           (mrd_dur_ns) (12 * noise * noise * (float) MRD_SLOW_SLOT);
}

static void
give(mrd_slow *slow, slow_job *job, slow_window *window, mrd_local_ns now)
{
    mrd_slow_verdict *verdict = &job->verdict;
    const slow_finding *first = &slow->findings[0];

    *verdict = (mrd_slow_verdict){ .id = ++slow->last_id,
                                   .job = job->key,
                                   .confirmed = job->confirmed,
                                   .uid = job->key.uid,
                                   .cls = first->cls,
                                   .given = now };
    mrd_text_set(verdict->identity, sizeof(verdict->identity), job->identity.text);
    name_ranks(slow, verdict, 0);
    verdict->loss = (mrd_dur_ns) mrd_slow_loss(slow, window, first);
    date(slow, window, first, verdict);
    explain(verdict);
    slow->counts.given[verdict->cls]++;
    note(slow, verdict);
    job->over = job->unjudged = 0;
}

/* ---- Judging ---- */

/* Returns true if the job waits for the first of slow->findings. It does not wait for this rank
 * if the work of another rank is as long, even if that rank is not found yet. */
static bool
is_longest(mrd_slow *slow, slow_job *job, mrd_local_ns now, slow_window *window)
{
    const slow_finding *first = slow->findings;

    return slow->n_findings > 0 &&
           mrd_slow_window_open(slow, job, first->process, now, first->scale, window) &&
           mrd_slow_loss(slow, window, first) >= LONGEST * first->excess;
}

/* A verdict needs the same rank in CONFIRM judgements. */
static void
propose(mrd_slow *slow, slow_job *job, unsigned scale, mrd_local_ns now)
{
    slow_watched *candidate = &job->candidate;
    const slow_finding *first = slow->findings;
    slow_window window;

    if (!is_longest(slow, job, now, &window)) {
        if (candidate->scale == scale)
            candidate->pid = 0;
        return;
    }
    if (!is_process(candidate, first->process) || candidate->scale != scale)
        *candidate = (slow_watched){ .pid = first->process->pid,
                                     .start_ticks = first->process->start_ticks,
                                     .node = first->process->node,
                                     .part = first->part,
                                     .scale = scale };
    if (++candidate->seen >= CONFIRM) {
        candidate->part = first->part;
        give(slow, job, &window, now);
    }
}

/* Returns true if two living processes have the same rank. Their counts cannot be compared. */
static bool
has_duplicates(const mrd_slow *slow, const slow_job *job, mrd_local_ns now)
{
    const slow_process *last = NULL;

    for (size_t i = 0; i < job->n; i++) {
        const slow_process *process = job->members[i];

        if (!mrd_slow_is_comparable(slow, process, now))
            continue;
        if (last != NULL && process->rank >= 0 && process->rank == last->rank)
            return true;
        last = process;
    }
    return false;
}

static bool
has_device(const slow_job *job)
{
    for (size_t i = 0; i < job->n; i++) {
        const slow_series *series = job->members[i]->series;

        if (series != NULL && series->last.device >= 0 && series->last.executions > 0)
            return true;
    }
    return false;
}

/* Stores in slow->findings the slow ranks of all groups of the job. */
static void
find_all(mrd_slow *slow, slow_job *job, unsigned scale, mrd_local_ns now)
{
    const slow_process *group[GROUPS];
    bool device = has_device(job);
    size_t n = 0;

    slow->n_findings = 0;
    for (size_t i = 0; i < job->n && n < GROUPS; i++) {
        const slow_process *process = job->members[i];
        bool known = !mrd_slow_is_comparable(slow, process, now);
        slow_window window;

        for (size_t k = 0; k < n && !known; k++)
            known = mrd_slow_has_same_lead(process, group[k]);
        if (known)
            continue;
        group[n++] = process;
        if (mrd_slow_window_open(slow, job, process, now, scale, &window))
            mrd_slow_find(slow, &window, device);
    }
    one_for_each_rank(slow);
}

/* Shows the present delay of the rank in the verdict, and the other ranks that are slow now. */
static void
show(mrd_slow *slow, slow_job *job, const slow_finding *finding, mrd_local_ns now)
{
    mrd_slow_verdict *verdict = &job->verdict;
    size_t culprits = verdict->n_culprits;

    verdict->step = (mrd_dur_ns) finding->step;
    verdict->named[0].own = (mrd_dur_ns) (finding->peers + finding->excess);
    verdict->named[0].peers = (mrd_dur_ns) finding->peers;
    find_all(slow, job, finding->scale, now);
    for (size_t i = 0; i < slow->n_findings; i++)
        if (slow->findings[i].process == finding->process &&
            slow->findings[i].part == finding->part)
            name_ranks(slow, verdict, i);
    if (verdict->n_culprits != culprits)
        explain(verdict);
}

/* Updates the verdict, and withdraws it when the delay is over. */
static void
hold(mrd_slow *slow, slow_job *job, unsigned scale, mrd_local_ns now)
{
    const slow_watched *watched = &job->candidate;
    slow_finding finding = { .part = watched->part, .scale = watched->scale };
    slow_window window;

    for (size_t i = 0; i < job->n && finding.process == NULL; i++)
        if (is_process(watched, job->members[i]))
            finding.process = job->members[i];
    if (finding.process == NULL || finding.process->state == MRD_HANG_GONE ||
        finding.process->state == MRD_HANG_ZOMBIE) {
        mrd_slow_withdraw(slow, job, now);
        return;
    }
    if (watched->scale != scale)
        return;
    if (!mrd_slow_is_comparable(slow, finding.process, now) ||
        !mrd_slow_window_open(slow, job, finding.process, now, scale, &window) ||
        !mrd_slow_check(slow, &window, finding.process, finding.part, &finding)) {
        if (++job->unjudged * scale >= UNJUDGED)
            mrd_slow_withdraw(slow, job, now);
        return;
    }
    job->unjudged = 0;
    job->over = finding.excess < finding.threshold / 2 ? job->over + 1 : 0;
    if (job->over >= (scale == 1 ? OVER : OVER_LONG)) {
        mrd_slow_withdraw(slow, job, now);
        return;
    }
    if (job->over == 0)
        show(slow, job, &finding, now);
}

void
mrd_slow_judge(mrd_slow *slow, slow_job *job, mrd_local_ns now)
{
    bool duplicates = has_duplicates(slow, job, now);

    job->judged++;
    for (size_t i = 0; i < SCALES; i++) {
        if (job->judged % scales[i] != 0)
            continue;
        if (job->verdict.cls != MRD_SLOW_NO_VERDICT) {
            hold(slow, job, scales[i], now);
            continue;
        }
        slow->n_findings = 0;
        if (!duplicates)
            find_all(slow, job, scales[i], now);
        propose(slow, job, scales[i], now);
        if (job->verdict.cls != MRD_SLOW_NO_VERDICT)
            return;
    }
}
