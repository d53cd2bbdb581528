/* Sums the event counts that all agents of a part reported. A part may have several agents with the
 * same instance id, one after the other or alternating. Each of them is a run, which Counters.since
 * identifies. `last_run` has the counts of the current run, `before` the sum over all earlier
 * runs. */
#include "aggregator/core/node/part.h"

#include <stdio.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

/* ---- Agents that other agents replaced ---- */

/* Adds `events` to the lost events in *to. The cause of this loss is that their agent ended
 * (MRD_DROP_RESTART). */
static void
add_gone(const mrd_part *part, mrd_counts *to, uint64_t events)
{
    mrd_loss gone = { .count = events };

    mrd_text_set(gone.cause, sizeof(gone.cause), mrd_drop_text(MRD_DROP_RESTART));
    if (part->last.ns >= part->first.ns)
        gone.first = gone.last = part->last;
    if (events > 0)
        mrd_counts_add_loss(to, &gone);
}

/* Returns the counts of a run that has ended, in the form in which they are added to `before`: the
 * events that the agent still held count as lost. */
static mrd_counts
without_held(const mrd_part *part, const mrd_counts *run)
{
    mrd_counts counts = *run;

    counts.held = 0;
    add_gone(part, &counts, run->held);
    return counts;
}

static void
count_behind(mrd_uncounted *uncounted, mrd_dur_ns behind, int runs)
{
    uncounted->runs += (unsigned) runs;
    if (behind < 0)
        uncounted->unknown += (unsigned) runs;
    else
        uncounted->within = mrd_sat_add(uncounted->within, runs * behind);
}

/* Stores the counts of the last run, which another agent replaced at the time `now`, because its
 * agent may return. Only MRD_RUNS_MAX runs are stored. Older runs, and all runs if out of memory,
 * are only in the sum `before`. */
static void
remember(mrd_part *part, mrd_local_ns now)
{
    bool known = part->told.ns != 0 && !mrd_local_before(now, part->told);
    mrd_dur_ns behind = known ? mrd_local_diff(now, part->told) : -1;

    count_behind(&part->uncounted, behind, 1);
    if (part->n_runs == MRD_RUNS_MAX)
        memmove(part->runs, part->runs + 1, --part->n_runs * sizeof(*part->runs));
    if (part->since > 1 && MRD_VEC_NEXT(part->runs, part->n_runs))
        part->runs[part->n_runs++] = (mrd_part_run){ part->since, part->last_run, behind };
}

/* The agent of an earlier run has returned: moves its counts from `before` to `last_run`. */
static void
recall(mrd_part *part, uint64_t since)
{
    for (unsigned i = 0; i < part->n_runs; i++) {
        mrd_counts run;

        if (part->runs[i].since != since)
            continue;
        part->last_run = part->runs[i].counts;
        run = without_held(part, &part->last_run);
        mrd_counts_subtract(&part->before, &run);
        mrd_counts_tidy(&part->before);
        count_behind(&part->uncounted, part->runs[i].behind, -1);
        memmove(part->runs + i, part->runs + i + 1, (--part->n_runs - i) * sizeof(*part->runs));
        return;
    }
}

/* Returns how many events in the sum `before` belong to runs that are not stored in `runs`. */
static uint64_t
counted_before_runs(const mrd_part *part)
{
    uint64_t sum = part->before.delivered + mrd_counts_lost(&part->before);

    for (unsigned i = 0; i < part->n_runs; i++) {
        const mrd_counts *counts = &part->runs[i].counts;
        uint64_t of_run = counts->delivered + mrd_counts_lost(counts) + counts->held;

        sum -= of_run < sum ? of_run : sum;
    }
    return sum;
}

/* Returns a lower bound for the number of events of the last run that are stored. Three things are
 * taken into account:
 * - A stored frame counts records of losses as events, so the losses are subtracted.
 * - A spool that no heartbeat has named yet belongs to the last run, unless it is `next`, the spool
 *   of the next run.
 * - Such a spool may contain events of earlier runs. So the number of events that were counted for
 *   earlier runs is subtracted. */
static uint64_t
stored_of_run(mrd_part *part, uint64_t next)
{
    uint64_t own = 0, unnamed = 0, others = counted_before_runs(part);
    uint64_t lost = mrd_counts_lost(&part->last_run);

    for (unsigned i = 0; i < part->n_epochs; i++) {
        mrd_part_epoch *epoch = &part->epochs[i];

        if (epoch->since == 0 && epoch->epoch != next && others == 0)
            epoch->since = part->since;
        if (epoch->since == part->since && part->since != 0)
            own += epoch->events;
        else if (epoch->since == 0 && epoch->epoch != next)
            unnamed += epoch->events;
    }
    own += unnamed > others ? unnamed - others : 0;
    return own > lost ? own - lost : 0;
}

/* Ends the last run because the run of another agent begins. Events that the ended agent held at
 * its last report are lost, unless they have arrived in the store since then. */
static void
count_anew(mrd_part *part, uint64_t epoch, mrd_local_ns now)
{
    mrd_counts *run = &part->last_run, gone;
    uint64_t stored = stored_of_run(part, epoch), known;

    if (run->delivered < stored)
        run->delivered = stored;
    known = run->delivered + mrd_counts_lost(run);
    if (run->begun < known)
        run->begun = known;
    run->held = run->begun - known;
    gone = without_held(part, run);
    mrd_counts_add(&part->before, &gone);
    remember(part, now);
    mrd_counts_clear(run);
}

/* ---- Counts after the machine restarted ---- */

static bool
is_older(const mrd_counts *a, const mrd_counts *b)
{
    uint64_t x = a->delivered + mrd_counts_lost(a), y = b->delivered + mrd_counts_lost(b);

    return a->begun != b->begun ? a->begun < b->begun : x < y;
}

/* Handles that the node's machine restarted. The agent continues with the counts that its spool had
 * on disk (at_boot). These counts may be older or newer than the counts in the last heartbeat. The
 * newer ones of both tell how many events had begun. Events that are not delivered, not lost and
 * not in the spool any more are lost with the restart. */
static void
count_from(mrd_part *part, const Mrd__Counters *counters)
{
    mrd_counts base = { 0 }, come = part->last_run;
    uint64_t start, known;

    mrd_counts_take_at_boot(&base, counters->at_boot);
    start = base.delivered + mrd_counts_lost(&base) + base.held;
    if (base.begun < start)
        base.begun = start;
    if (is_older(&come, &base))
        come = base;
    if (come.delivered < part->last_run.delivered)
        come.delivered = part->last_run.delivered;
    come.held = 0;
    come.clock_lost = come.clock_lost > counters->clock_frames_lost
                          ? come.clock_lost - counters->clock_frames_lost
                          : 0;
    known = come.delivered + mrd_counts_lost(&come) + base.held;
    /* The sum can exceed `begun`. The aggregator counts an event as delivered when it is stored,
     * but the agent counts it as held until the acknowledgement arrives. */
    if (come.begun < known)
        come.begun = known;
    add_gone(part, &part->before, come.begun - known);
    part->before.begun += come.begun - start;
    part->before.delivered += come.delivered - base.delivered;
    part->before.clock_lost += come.clock_lost;
    mrd_counts_move(&part->before, &come, &base);
}

/* ---- Counts in heartbeats ---- */

void
mrd_part_count(mrd_part *part, uint64_t epoch, mrd_local_ns now, const Mrd__Counters *counters)
{
    mrd_part_epoch *part_epoch;
    bool anew;

    if (counters == NULL)
        return;
    anew = counters->since != part->since ||
           (counters->since <= 1 && counters->begun < part->last_run.begun);
    if (anew && counters->at_boot != NULL) {
        count_from(part, counters);
    } else if (anew) {
        if (part->last_run.begun > 0 || part->since != 0)
            count_anew(part, epoch, now);
        recall(part, counters->since);
    }
    part->since = counters->since;
    part->told = now;
    if ((part_epoch = mrd_part_epoch_find(part, epoch)) != NULL)
        part_epoch->since = counters->since;
    mrd_counts_take(&part->last_run, counters);
    mrd_counts_copy(&part->counts, &part->before);
    mrd_counts_add(&part->counts, &part->last_run);
}

/* ---- Delivered events that the store does not contain ---- */

uint64_t
mrd_part_store_missing(const mrd_part *part)
{
    if (!mrd_part_is_over(part) || part->counts.delivered <= part->events)
        return 0;
    return part->counts.delivered - part->events;
}

bool
mrd_part_store_missing_text(const mrd_part *part, char text[MRD_WHY_MAX])
{
    uint64_t missing = mrd_part_store_missing(part);

    text[0] = '\0';
    if (missing > 0)
        snprintf(text, MRD_WHY_MAX,
                 "at least %llu events that its agent delivered are not in the store "
                 "(store-missing): the store was restored from an older copy, or its disk "
                 "lost them",
                 (unsigned long long) missing);
    return missing > 0;
}

uint64_t
mrd_part_lost(const mrd_part *part)
{
    return mrd_counts_lost(&part->counts) + mrd_part_store_missing(part);
}

/* ---- Counts in the manifest ---- */

/* Returns the part's event counts as JSON. Delivered events that the store does not contain are
 * counted as lost. */
static mrd_json *
counters_json(const mrd_part *part)
{
    mrd_loss missing = { .count = mrd_part_store_missing(part) };
    mrd_counts counts;

    mrd_text_set(missing.cause, sizeof(missing.cause), mrd_drop_text(MRD_DROP_STORE_MISSING));
    mrd_counts_copy(&counts, &part->counts);
    counts.delivered -= missing.count;
    if (missing.count > 0)
        mrd_counts_add_loss(&counts, &missing);
    return mrd_counts_json(&counts);
}

bool
mrd_part_uncounted_text(const mrd_part *part, char text[MRD_WHY_MAX])
{
    const mrd_uncounted *uncounted = &part->uncounted;
    char within[48] = "";

    text[0] = '\0';
    if (uncounted->runs == 0)
        return false;
    if (uncounted->unknown == 0)
        snprintf(within, sizeof(within), " (%.1f s at most)", (double) uncounted->within / MRD_SEC);
    snprintf(text, MRD_WHY_MAX,
             "%u run%s of the agent ended without a successor that knows the counts. Events that "
             "the agent read after its last heartbeat%s and had not sent are in no count. Give it "
             "a directory (--spool-dir)",
             uncounted->runs, mrd_plural(uncounted->runs), within);
    return true;
}

static void
put_uncounted(const mrd_part *part, mrd_json *to)
{
    char text[MRD_WHY_MAX];
    mrd_json *json;

    if (!mrd_part_uncounted_text(part, text))
        return;
    json = mrd_json_new_object();
    mrd_json_set(json, "runs", mrd_json_new_int(part->uncounted.runs));
    if (part->uncounted.unknown > 0)
        mrd_json_set(json, "unknown", mrd_json_new_int(part->uncounted.unknown));
    mrd_json_set(json, "within_ns", mrd_json_new_int(part->uncounted.within));
    mrd_json_set(json, "message", mrd_json_new_str(text));
    mrd_json_set(to, "uncounted", json);
}

static mrd_json *
runs_json(const mrd_part *part)
{
    mrd_json *list = mrd_json_new_array();

    for (unsigned i = 0; i < part->n_runs; i++) {
        mrd_json *json = mrd_json_new_object();

        mrd_json_put_hex(json, "since", part->runs[i].since);
        mrd_json_set(json, "behind_ns", mrd_json_new_int(part->runs[i].behind));
        mrd_json_set(json, "counters", mrd_counts_json(&part->runs[i].counts));
        mrd_json_append(list, json);
    }
    return list;
}

void
mrd_part_counts_put(const mrd_part *part, mrd_json *to)
{
    mrd_json_set(to, "counters", counters_json(part));
    if (part->before.begun > 0)
        mrd_json_set(to, "counters_of_last_run", mrd_counts_json(&part->last_run));
    if (part->n_runs > 0)
        mrd_json_set(to, "counters_of_runs", runs_json(part));
    put_uncounted(part, to);
    if (part->since != 0)
        mrd_json_put_hex(to, "counters_since", part->since);
    if (part->told.ns != 0)
        mrd_json_set(to, "counters_local_ns", mrd_json_new_int(part->told.ns));
}

static void
runs_load(mrd_part *part, const mrd_json *list)
{
    for (size_t i = 0; list != NULL && i < mrd_json_size(list) && i < MRD_RUNS_MAX; i++) {
        const mrd_json *json = mrd_json_at(list, i);
        mrd_part_run run = { .since = mrd_json_get_hex(json, "since"),
                             .behind = mrd_time_checked(mrd_json_int(json, "behind_ns", -1)) };

        mrd_counts_load(&run.counts, mrd_json_get(json, "counters"));
        if (run.since > 1 && MRD_VEC_NEXT(part->runs, part->n_runs))
            part->runs[part->n_runs++] = run;
    }
}

void
mrd_part_counts_load(mrd_part *part, const mrd_json *json)
{
    const mrd_json *last = mrd_json_get(json, "counters_of_last_run");
    const mrd_json *uncounted = mrd_json_get(json, "uncounted");

    part->since = mrd_json_get_hex(json, "counters_since");
    part->told.ns = mrd_time_checked(mrd_json_int(json, "counters_local_ns", 0));
    part->uncounted = (mrd_uncounted){ mrd_json_get_u32(uncounted, "runs"),
                                       mrd_json_get_u32(uncounted, "unknown"),
                                       mrd_time_checked(mrd_json_int(uncounted, "within_ns", 0)) };
    mrd_counts_load(&part->counts, mrd_json_get(json, "counters"));
    mrd_counts_load(&part->last_run, last != NULL ? last : mrd_json_get(json, "counters"));
    runs_load(part, mrd_json_get(json, "counters_of_runs"));
    if (last == NULL)
        return;
    part->before = part->counts;
    mrd_counts_subtract(&part->before, &part->last_run);
}
