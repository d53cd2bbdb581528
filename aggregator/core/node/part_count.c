/* The counts of a part: combines the reports of all agents that recorded it, one after another or
 * in turn. */
#include "aggregator/core/node/part.h"

#include <stdio.h>

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

/* ---- Agents that were succeeded ---- */

/* Counts this many events as lost with their agent. */
static void
add_gone(const mrd_part *p, mrd_counts *to, uint64_t events)
{
    mrd_loss gone = { .count = events };

    mrd_text_set(gone.cause, sizeof(gone.cause), mrd_drop_text(MRD_DROP_RESTART));
    if (p->last.ns >= p->first.ns)
        gone.first = gone.last = p->last;
    if (events > 0)
        mrd_counts_add_loss(to, &gone);
}

/* Returns the counts of a run in `before`, with its held events counted as lost. */
static mrd_counts
without_held(const mrd_part *p, const mrd_counts *run)
{
    mrd_counts c = *run;

    c.held = 0;
    add_gone(p, &c, run->held);
    return c;
}

static void
count_behind(mrd_uncounted *u, mrd_dur_ns behind, int runs)
{
    u->runs += (unsigned) runs;
    if (behind < 0)
        u->unknown += (unsigned) runs;
    else
        u->within = mrd_sat_add(u->within, runs * behind);
}

/* Another agent took over at `now`. Without memory, or beyond the limit, the counts of the previous
 * runs are summed. */
static void
remember(mrd_part *p, mrd_local_ns now)
{
    bool known = p->told.ns != 0 && !mrd_local_before(now, p->told);
    mrd_dur_ns behind = known ? mrd_local_diff(now, p->told) : -1;

    count_behind(&p->uncounted, behind, 1);
    if (p->n_runs == MRD_RUNS_MAX)
        memmove(p->runs, p->runs + 1, --p->n_runs * sizeof(*p->runs));
    if (p->since > 1 && MRD_VEC_NEXT(p->runs, p->n_runs))
        p->runs[p->n_runs++] = (mrd_part_run){ p->since, p->last_run, behind };
}

/* The run continues with its counts, so it is removed from `before`. */
static void
recall(mrd_part *p, uint64_t since)
{
    for (unsigned i = 0; i < p->n_runs; i++) {
        mrd_counts run;

        if (p->runs[i].since != since)
            continue;
        p->last_run = p->runs[i].counts;
        run = without_held(p, &p->last_run);
        mrd_counts_subtract(&p->before, &run);
        mrd_counts_tidy(&p->before);
        count_behind(&p->uncounted, p->runs[i].behind, -1);
        memmove(p->runs + i, p->runs + i + 1, (--p->n_runs - i) * sizeof(*p->runs));
        return;
    }
}

/* Returns the events that were counted in `before` for runs that are not kept separately. */
static uint64_t
counted_before_runs(const mrd_part *p)
{
    uint64_t sum = p->before.delivered + mrd_counts_lost(&p->before);

    for (unsigned i = 0; i < p->n_runs; i++) {
        const mrd_counts *c = &p->runs[i].counts;
        uint64_t of_run = c->delivered + mrd_counts_lost(c) + c->held;

        sum -= of_run < sum ? of_run : sum;
    }
    return sum;
}

/* Returns a lower bound of the stored events of the last run. Records of losses are among the
 * frames' events; they never outnumber the losses that they report. Epochs that no heartbeat named
 * belong to this run, except the epoch of the next run, which has sent frames already, and events
 * that were counted otherwise. */
static uint64_t
stored_of_run(mrd_part *p, uint64_t next)
{
    uint64_t own = 0, unnamed = 0, others = counted_before_runs(p);
    uint64_t lost = mrd_counts_lost(&p->last_run);

    for (unsigned i = 0; i < p->n_epochs; i++) {
        mrd_part_epoch *e = &p->epochs[i];

        if (e->since == 0 && e->epoch != next && others == 0)
            e->since = p->since;
        if (e->since == p->since && p->since != 0)
            own += e->events;
        else if (e->since == 0 && e->epoch != next)
            unnamed += e->events;
    }
    own += unnamed > others ? unnamed - others : 0;
    return own > lost ? own - lost : 0;
}

/* The next run begins. Events that the previous run held when it was last seen, and that are not
 * stored, are lost. */
static void
count_anew(mrd_part *p, uint64_t epoch, mrd_local_ns now)
{
    mrd_counts *run = &p->last_run, gone;
    uint64_t stored = stored_of_run(p, epoch), known;

    if (run->delivered < stored)
        run->delivered = stored;
    known = run->delivered + mrd_counts_lost(run);
    if (run->begun < known)
        run->begun = known;
    run->held = run->begun - known;
    gone = without_held(p, run);
    mrd_counts_add(&p->before, &gone);
    remember(p, now);
    mrd_counts_clear(run);
}

/* ---- A machine that restarted ---- */

static bool
is_older(const mrd_counts *a, const mrd_counts *b)
{
    uint64_t x = a->delivered + mrd_counts_lost(a), y = b->delivered + mrd_counts_lost(b);

    return a->begun != b->begun ? a->begun < b->begun : x < y;
}

/* The node's machine restarted, and the counts of its spool fell back to `base` or stayed. The
 * counts that we received before may be newer or older than the spool's. The newer of the two shows
 * how far the run had come. Events in it that are neither counted nor held any more are lost. */
static void
count_from(mrd_part *p, const Mrd__Counters *c)
{
    mrd_counts base = { 0 }, come = p->last_run;
    uint64_t start, known;

    mrd_counts_take_at_boot(&base, c->at_boot);
    start = base.delivered + mrd_counts_lost(&base) + base.held;
    if (base.begun < start)
        base.begun = start;
    if (is_older(&come, &base))
        come = base;
    if (come.delivered < p->last_run.delivered)
        come.delivered = p->last_run.delivered;
    come.held = 0;
    come.clock_lost =
        come.clock_lost > c->clock_frames_lost ? come.clock_lost - c->clock_frames_lost : 0;
    known = come.delivered + mrd_counts_lost(&come) + base.held;
    if (come.begun < known) /* delivered, and held again until the answer arrives */
        come.begun = known;
    add_gone(p, &p->before, come.begun - known);
    p->before.begun += come.begun - start;
    p->before.delivered += come.delivered - base.delivered;
    p->before.clock_lost += come.clock_lost;
    mrd_counts_move(&p->before, &come, &base);
}

/* ---- Heartbeats ---- */

void
mrd_part_count(mrd_part *p, uint64_t epoch, mrd_local_ns now, const Mrd__Counters *c)
{
    mrd_part_epoch *e;
    bool anew;

    if (c == NULL)
        return;
    anew = c->since != p->since || (c->since <= 1 && c->begun < p->last_run.begun);
    if (anew && c->at_boot != NULL) {
        count_from(p, c);
    } else if (anew) {
        if (p->last_run.begun > 0 || p->since != 0)
            count_anew(p, epoch, now);
        recall(p, c->since);
    }
    p->since = c->since;
    p->told = now;
    if ((e = mrd_part_epoch_find(p, epoch)) != NULL)
        e->since = c->since;
    mrd_counts_take(&p->last_run, c);
    mrd_counts_copy(&p->counts, &p->before);
    mrd_counts_add(&p->counts, &p->last_run);
}

/* ---- Delivered events that the store does not contain ---- */

uint64_t
mrd_part_store_missing(const mrd_part *p)
{
    if (!mrd_part_is_over(p) || p->counts.delivered <= p->events)
        return 0;
    return p->counts.delivered - p->events;
}

bool
mrd_part_store_missing_text(const mrd_part *p, char text[MRD_WHY_MAX])
{
    uint64_t missing = mrd_part_store_missing(p);

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
mrd_part_lost(const mrd_part *p)
{
    return mrd_counts_lost(&p->counts) + mrd_part_store_missing(p);
}

/* ---- The manifest ---- */

/* Returns the counts, with the delivered events that the store does not contain as lost. */
static mrd_json *
counters_json(const mrd_part *p)
{
    mrd_loss missing = { .count = mrd_part_store_missing(p) };
    mrd_counts counts;

    mrd_text_set(missing.cause, sizeof(missing.cause), mrd_drop_text(MRD_DROP_STORE_MISSING));
    mrd_counts_copy(&counts, &p->counts);
    counts.delivered -= missing.count;
    if (missing.count > 0)
        mrd_counts_add_loss(&counts, &missing);
    return mrd_counts_json(&counts);
}

bool
mrd_part_uncounted_text(const mrd_part *p, char text[MRD_WHY_MAX])
{
    const mrd_uncounted *u = &p->uncounted;
    char within[48] = "";

    text[0] = '\0';
    if (u->runs == 0)
        return false;
    if (u->unknown == 0)
        snprintf(within, sizeof(within), " (%.1f s at most)", (double) u->within / MRD_SEC);
    snprintf(text, MRD_WHY_MAX,
             "%u run%s of the agent ended without a successor that knows the counts. Events that "
             "the agent read after its last heartbeat%s and had not sent are in no count. Give it "
             "a directory (--spool-dir)",
             u->runs, mrd_plural(u->runs), within);
    return true;
}

static void
put_uncounted(const mrd_part *p, mrd_json *to)
{
    char text[MRD_WHY_MAX];
    mrd_json *o;

    if (!mrd_part_uncounted_text(p, text))
        return;
    o = mrd_json_new_object();
    mrd_json_set(o, "runs", mrd_json_new_int(p->uncounted.runs));
    if (p->uncounted.unknown > 0)
        mrd_json_set(o, "unknown", mrd_json_new_int(p->uncounted.unknown));
    mrd_json_set(o, "within_ns", mrd_json_new_int(p->uncounted.within));
    mrd_json_set(o, "message", mrd_json_new_str(text));
    mrd_json_set(to, "uncounted", o);
}

static mrd_json *
runs_json(const mrd_part *p)
{
    mrd_json *list = mrd_json_new_array();

    for (unsigned i = 0; i < p->n_runs; i++) {
        mrd_json *o = mrd_json_new_object();

        mrd_json_put_hex(o, "since", p->runs[i].since);
        mrd_json_set(o, "behind_ns", mrd_json_new_int(p->runs[i].behind));
        mrd_json_set(o, "counters", mrd_counts_json(&p->runs[i].counts));
        mrd_json_append(list, o);
    }
    return list;
}

void
mrd_part_counts_put(const mrd_part *p, mrd_json *to)
{
    mrd_json_set(to, "counters", counters_json(p));
    if (p->before.begun > 0)
        mrd_json_set(to, "counters_of_last_run", mrd_counts_json(&p->last_run));
    if (p->n_runs > 0)
        mrd_json_set(to, "counters_of_runs", runs_json(p));
    put_uncounted(p, to);
    if (p->since != 0)
        mrd_json_put_hex(to, "counters_since", p->since);
    if (p->told.ns != 0)
        mrd_json_set(to, "counters_local_ns", mrd_json_new_int(p->told.ns));
}

static void
runs_load(mrd_part *p, const mrd_json *list)
{
    for (size_t i = 0; list != NULL && i < mrd_json_size(list) && i < MRD_RUNS_MAX; i++) {
        const mrd_json *o = mrd_json_at(list, i);
        mrd_part_run run = { .since = mrd_json_get_hex(o, "since"),
                             .behind = mrd_time_checked(mrd_json_int(o, "behind_ns", -1)) };

        mrd_counts_load(&run.counts, mrd_json_get(o, "counters"));
        if (run.since > 1 && MRD_VEC_NEXT(p->runs, p->n_runs))
            p->runs[p->n_runs++] = run;
    }
}

void
mrd_part_counts_load(mrd_part *p, const mrd_json *o)
{
    const mrd_json *last = mrd_json_get(o, "counters_of_last_run");
    const mrd_json *uncounted = mrd_json_get(o, "uncounted");

    p->since = mrd_json_get_hex(o, "counters_since");
    p->told.ns = mrd_time_checked(mrd_json_int(o, "counters_local_ns", 0));
    p->uncounted = (mrd_uncounted){ mrd_json_get_u32(uncounted, "runs"),
                                    mrd_json_get_u32(uncounted, "unknown"),
                                    mrd_time_checked(mrd_json_int(uncounted, "within_ns", 0)) };
    mrd_counts_load(&p->counts, mrd_json_get(o, "counters"));
    mrd_counts_load(&p->last_run, last != NULL ? last : mrd_json_get(o, "counters"));
    runs_load(p, mrd_json_get(o, "counters_of_runs"));
    if (last == NULL)
        return;
    p->before = p->counts;
    mrd_counts_subtract(&p->before, &p->last_run);
}
