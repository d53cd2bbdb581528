/* Checks the invariants of a node that runs the real agent: after each turn of its loop, and at the
 * end for the contents of the journals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

/* bytes by which a spool may exceed its limit: two notes per session, and a new segment */
#define SPOOL_SLACK 65536u
#define FAR                                                                                        \
    (30 *                                                                                          \
     MRD_SEC) /* extent of a batch beyond a window: an agent that was down reads on in one batch */

session_truth *
truth_of(sim_node *n, uint64_t id)
{
    for (size_t i = 0; i < n->n_truths; i++) {
        if (n->truths[i].session == id)
            return &n->truths[i];
    }
    if (!MRD_VEC_NEXT(n->truths, n->n_truths))
        abort();
    n->truths[n->n_truths] = (session_truth){ .session = id };
    return &n->truths[n->n_truths++];
}

void
truth_weaken(sim_node *n)
{
    for (size_t i = 0; i < n->n_truths; i++) {
        n->truths[i].weak = true;
        n->truths[i].anew = false;
    }
}

void
truth_spool_gone(sim_node *n)
{
    n->spool_gone = true;
    for (size_t i = 0; i < n->n_truths; i++) {
        n->truths[i].anew = n->truths[i].anew || !n->truths[i].weak;
        n->truths[i].weak = true;
    }
}

void
truth_begin(sim_node *n)
{
    for (size_t i = 0; i < n->n_truths; i++) {
        session_truth *t = &n->truths[i];

        if (n->spool_gone)
            t->before = t->begun;
        t->known = false;
        t->late = 0;
    }
    n->spool_gone = n->checked = false;
}

void
truth_free(sim_node *n)
{
    for (size_t i = 0; i < n->n_truths; i++)
        free(n->truths[i].has);
    free(n->truths);
    free(n->unacknowledged.v);
    free(n->sent.v);
}

bool
truth_is_unacknowledged(const sim_node *n, const stored_frame *f)
{
    for (size_t i = 0; i < n->unacknowledged.n; i++) {
        const frame_number *of = &n->unacknowledged.v[i];

        if (of->session == f->session && of->epoch == f->epoch && of->seq == f->seq)
            return true;
    }
    return false;
}

/* ---- Events ---- */

static bool
records(const mrd_record_status *st)
{
    return st->phase == MRD__NODE_PHASE__NODE_RECORDING ||
           st->phase == MRD__NODE_PHASE__NODE_STOPPING;
}

static uint64_t
count_of(const source_event *ev)
{
    return ev->lost > 0 ? ev->lost : 1;
}

/* Adds an event to the expected contents of all sessions of the node that record and overlap its
 * time (as agent/record/record.h defines). */
void
truth_give(sim_node *n, size_t event)
{
    const source_event *ev = &n->source.v[event];

    for (size_t i = 0; i < mrd_record_sessions(n->opened->record) && !node_dead(n); i++) {
        mrd_record_status st;
        session_truth *t;

        mrd_record_get(n->opened->record, i, &st);
        if (!records(&st) || ev->ts_ns + ev->dur_ns < st.start.ns || ev->ts_ns > st.stop.ns)
            continue;
        t = truth_of(n, st.id);
        pause_given(n, i, t, ev);
        if (pause_leaves_out(n, i, ev))
            continue;
        if (!MRD_VEC_REACH(t->has, t->n_has, event))
            abort();
        t->begun += t->has[event] ? 0 : count_of(ev);
        t->has[event] = 1;
    }
}

/* Events that the agent had not committed when its process died are read again by the next process.
 * If the session was stopped meanwhile, the later ones of them do not belong to it. */
void
truth_void(sim_node *n)
{
    for (size_t i = 0; i < n->n_truths; i++) {
        session_truth *t = &n->truths[i];

        for (size_t k = n->source.committed; k < t->n_has; k++) {
            t->begun -= t->has[k] ? count_of(&n->source.v[k]) : 0;
            t->has[k] = 0;
        }
    }
}

/* ---- After each turn ---- */

static void
check_agent(sim_node *n)
{
    mrd_agent_counts c;
    uint64_t sum;

    mrd_agent_counters(n->agent, &c);
    sum = c.delivered + c.held;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        sum += c.dropped[i];
    if (c.begun != sum)
        sim_fail(n->w, "node %s: its agent began %llu events and accounts for %llu", n->a->id,
                 (unsigned long long) c.begun, (unsigned long long) sum);
    if (c.spool.file_bytes > (uint64_t) n->w->plan->spool_bytes + SPOOL_SLACK)
        sim_fail(n->w, "node %s: its spool has %llu bytes", n->a->id,
                 (unsigned long long) c.spool.file_bytes);
}

long double
session_time(const sim_node *n, long double now)
{
    const sim_timeline *t = &n->w->timelines[n->timeline - 1];

    return now * (1.0L + t->server_ppm / 1e6L) + (long double) t->server_offset +
           (long double) t->offset;
}

/* Returns how far `local` is from the value of this clock at a session time. A stopped clock shows
 * one value. */
static long double
shown_off_by(const sim_node *n, int64_t local, int64_t taken)
{
    const sim_timeline *t = &n->w->timelines[n->timeline - 1];
    long double at =
        ((long double) taken - (long double) t->server_offset - (long double) t->offset) /
        (1.0L + t->server_ppm / 1e6L);

    return (long double) (local - sim_clock_local(&n->a->clock, (int64_t) at));
}

/* Returns how far `local` is from the session time that it is mapped to. */
static long double
off_by(const sim_node *n, int64_t local, int64_t taken)
{
    return session_time(n, sim_clock_true(&n->a->clock, local)) - (long double) taken;
}

static void
check_clock(sim_node *n)
{
    int64_t local = agent_local(n->a, node_now(n));
    mrd_clock_sync_view v;
    long double off;

    if (n->timeline == 0)
        return;
    turn_of(n->w, n);
    mrd_clock_sync_get(n->agent->clock, &v);
    turn_of(n->w, NULL);
    if (!v.known || v.bound_ns < 0)
        return;
    n->w->r->bounds_checked++;
    off = off_by(n, local, local + v.offset_ns);
    if (off > (long double) v.bound_ns + 2 || -off > (long double) v.bound_ns + 2)
        sim_fail(n->w,
                 "node %s: it takes its clock (%s, by %s) for %.0Lf ns from the truth, within %lld",
                 n->a->id, v.state, v.method, off, (long long) v.bound_ns);
}

static const window_model *
told_window(const world *w, uint64_t id)
{
    for (size_t i = 0; i < w->n_windows; i++) {
        if (w->windows[i].id == id)
            return &w->windows[i];
    }
    return NULL;
}

/* The time window of a trigger that a node just applied must equal the window that all nodes
 * receive, within the bound of the node's clock. */
static void
check_windows(sim_node *n, const session *s, session_truth *t)
{
    for (size_t i = 0; i < s->n_windows; i++) {
        const window_model *told = told_window(n->w, s->windows[i].id);
        mrd_clock_sync_view v;
        bool known = false;

        for (unsigned k = 0; k < t->n_windows; k++)
            known = known || t->windows[k] == s->windows[i].id;
        if (known)
            continue;
        if (t->n_windows == MRD_RECORD_TRIGGERS)
            t->n_windows = 0;
        t->windows[t->n_windows++] = s->windows[i].id;
        n->w->r->windows++;
        if (told == NULL) {
            sim_fail(n->w, "node %s: a window that nobody asked for", n->a->id);
            return;
        }
        turn_of(n->w, n);
        mrd_clock_sync_at(n->agent->clock, s->windows[i].from, &v);
        turn_of(n->w, NULL);
        if (n->timeline == 0 || !v.known || v.bound_ns < 0)
            continue;
        if (fabsl(shown_off_by(n, s->windows[i].from.ns, told->from)) >
                (long double) v.bound_ns + 2 ||
            fabsl(shown_off_by(n, s->windows[i].to.ns, told->to)) >
                (long double) v.bound_ns + MRD_MS)
            sim_fail(
                n->w,
                "node %s: a trigger's window is %.0Lf ns from the one all were told, bound %lld",
                n->a->id, shown_off_by(n, s->windows[i].from.ns, told->from),
                (long long) v.bound_ns);
    }
}

/* Each session must start on each node at the agreed time. The error may be the node's stated clock
 * bound. */
static void
check_start(sim_node *n, const mrd_record_status *st, session_truth *t)
{
    const mrd_session *s = n->w->up ? mrd_core_session(n->w->core, st->id) : NULL;
    bool first = records(st) && t->checked_start != st->start.ns;

    if (first)
        /* Checked only once, because later the start may be a time of another timeline. */
        t->checked_start = st->start.ns;
    if (!first || s == NULL || n->timeline == 0 || st->start_bound_ns < 0 || s->go.ns == 0 ||
        t->weak)
        return;
    n->w->r->bounds_checked++;
    if (fabsl(off_by(n, st->start.ns, s->go.ns)) > (long double) st->start_bound_ns + 2)
        sim_fail(n->w, "node %s: session %s starts %.0Lf ns from the agreed time, within %lld",
                 n->a->id, s->text, off_by(n, st->start.ns, s->go.ns),
                 (long long) st->start_bound_ns);
}

/* An agent that received a session's stop request must have saved it at the end of the turn of its
 * loop. The next agent process on this node then does not continue to record, even without a
 * connection. */
static void
check_stopped(sim_node *n, const mrd_record_status *st, session_truth *t)
{
    bool before_stop =
        st->phase == MRD__NODE_PHASE__NODE_ARMED || st->phase == MRD__NODE_PHASE__NODE_RECORDING;

    if (st->phase == MRD__NODE_PHASE__NODE_FLUSHED || t->weak)
        t->stop = STOP_NOT_TOLD; /* the node forgets the stop, and may receive it again */
    else if (!before_stop && t->stop == STOP_NOT_TOLD)
        t->stop = n->disk_failed ? STOP_NOT_SAVED : STOP_SAVED;
    else if (before_stop && t->stop == STOP_SAVED)
        sim_fail(n->w, "node %s session %llx: it was told to stop, and records again", n->a->id,
                 (unsigned long long) st->id);
}

/* Counts the events that this process read before it received the session, and that ended at `from`
 * or later. */
static uint64_t
missed(const sim_node *n, const session_truth *t, int64_t from)
{
    uint64_t sum = 0;

    for (size_t k = n->source.first; k < n->source.given; k++) {
        const source_event *ev = &n->source.v[k];

        if ((k >= t->n_has || !t->has[k]) && ev->ts_ns + ev->dur_ns >= from)
            sum += count_of(ev);
    }
    return sum;
}

/* A session that arrives after its start must count all events read since. The count may exceed
 * that by the length of one bucket (agent/record/late_histogram.h). */
static void
check_late(sim_node *n, const mrd_record_status *st, session_truth *t)
{
    int64_t now = agent_local(n->a, node_now(n)), since, slack;
    uint64_t least, most, late;

    if (!n->checked) /* a predecessor's */
        t->late = st->drops[MRD_DROP_LATE].count;
    if (t->known || !records(st))
        return;
    t->known = true;
    if (!n->checked || n->source.first == n->source.given || st->revision > 0 || n->suspended ||
        n->woken_at != 0 || st->start_bound_ns < 0 || st->start_bound_ns > 100 * MRD_MS)
        return;
    since = n->source.v[n->source.first].ts_ns;
    slack = 40 * MRD_MS + (now - since) / 15;
    least = missed(n, t, st->start.ns);
    most = missed(n, t, st->start.ns - slack);
    late = st->drops[MRD_DROP_LATE].count - t->late;
    n->w->r->late += late;
    if (late < least || late > most)
        sim_fail(n->w,
                 "node %s session %llx: it read %llu events before it was told, and counts %llu",
                 n->a->id, (unsigned long long) st->id, (unsigned long long) least,
                 (unsigned long long) late);
}

static void
check_session(sim_node *n, size_t at)
{
    const mrd_record *r = n->agent->record;
    mrd_record_status st;
    session_truth *t;
    uint64_t sum, begun;

    mrd_record_get(r, at, &st);
    t = truth_of(n, st.id);
    sum = st.delivered + st.held;
    for (int i = 0; i < MRD_DROP_CAUSES; i++)
        sum += st.drops[i].count;
    if (st.begun != sum)
        sim_fail(n->w, "node %s session %llx: begun %llu, delivered, held and lost %llu", n->a->id,
                 (unsigned long long) st.id, (unsigned long long) st.begun,
                 (unsigned long long) sum);
    check_late(n, &st, t);
    begun = st.begun - st.drops[MRD_DROP_LATE].count;
    if ((!t->weak || t->anew) && n->source.given == n->source.n && begun != t->begun - t->before)
        sim_fail(n->w, "node %s session %llx: %llu events were given to it, it began %llu",
                 n->a->id, (unsigned long long) st.id, (unsigned long long) (t->begun - t->before),
                 (unsigned long long) begun);
    if (n->w->plan->verbose && t->shown != st.begun * 64 + st.delivered * 8 + (uint64_t) st.phase) {
        t->shown = st.begun * 64 + st.delivered * 8 + (uint64_t) st.phase;
        printf(
            "%10.3f %s session %llx: phase %d, begun %llu, delivered %llu, held %llu, given %llu\n",
            (double) n->w->now / 1e9, n->a->id, (unsigned long long) st.id, (int) st.phase,
            (unsigned long long) st.begun, (unsigned long long) st.delivered,
            (unsigned long long) st.held, (unsigned long long) t->begun);
        for (int k = 0; k < MRD_DROP_CAUSES; k++) {
            if (st.drops[k].count > 0)
                printf("           %s: %llu\n", mrd_drop_text((mrd_drop_cause) k),
                       (unsigned long long) st.drops[k].count);
        }
    }
    if (!t->over && st.phase == MRD__NODE_PHASE__NODE_FLUSHED && !t->weak)
        files_flushed(n, &st);
    t->over = st.phase == MRD__NODE_PHASE__NODE_FLUSHED;
    check_stopped(n, &st, t);
    check_start(n, &st, t);
    check_windows(n, &r->sessions[at], t);
}

/* Handles sessions that the agent no longer lists. A session that disappears before its end was
 * cancelled, and its events do not count. */
static void
check_gone(sim_node *n)
{
    for (size_t i = 0; i < n->n_truths; i++) {
        session_truth *t = &n->truths[i];
        mrd_record_status st;

        if (t->over || (t->anew && !t->known) || mrd_record_find(n->agent->record, t->session, &st))
            continue;
        t->weak = t->over = true;
        t->anew = false;
    }
}

void
truth_step(sim_node *n)
{
    check_agent(n);
    for (size_t i = 0; i < mrd_record_sessions(n->agent->record) && n->w->r->ok; i++)
        check_session(n, i);
    n->checked = true;
    check_gone(n);
    check_clock(n);
    if (!mrd_spool_uncommitted(n->agent->spool))
        n->source.committed = n->source.told;
}

/* ---- Contents of the journals ---- */

typedef struct {
    world *w;
    sim_node *n;
    const mrd_session *s; /* NULL: it is deleted */
    session_truth *t;
    uint8_t *seen;
    mrd_batch_reader *reader;
    mrd_catalog *cat;
} journal_check;

static bool
of_a_window(const world *w, const mrd_session *s, long double at)
{
    for (size_t i = 0; i < s->n_triggers; i++) {
        const window_model *told = told_window(w, s->triggers[i].id);

        if (told != NULL && at > (long double) (told->from - FAR) &&
            at < (long double) (told->to + FAR))
            return true;
    }
    return s->n_triggers == 0; /* they are no longer listed */
}

static void
check_event(journal_check *c, const mrd_event *ev)
{
    uint64_t at = ev->id - 1;
    const source_event *from;

    if (ev->kind == MRD_LOSS)
        return;
    if (at >= c->n->source.n) {
        sim_fail(c->w, "node %s: an event that was never there", c->n->a->id);
        return;
    }
    from = &c->n->source.v[at];
    if (from->lost > 0 || from->ts_ns != ev->ts.ns || from->dur_ns != ev->dur_ns)
        sim_fail(c->w, "node %s: event %llu is another", c->n->a->id, (unsigned long long) at);
    if (c->seen[at])
        sim_fail(c->w, "node %s session %llx: event %llu is in the journal twice", c->n->a->id,
                 (unsigned long long) c->t->session, (unsigned long long) at);
    c->seen[at] = 1;
    if (!c->t->weak && (at >= c->t->n_has || !c->t->has[at]))
        sim_fail(c->w, "node %s session %llx: event %llu is not of it", c->n->a->id,
                 (unsigned long long) c->t->session, (unsigned long long) at);
}

static void
check_frame(journal_check *c, const mrd_buf *data)
{
    mrd_batch_info info;
    const mrd_event *ev;
    mrd_bytes body;
    mrd_frame f;

    if (mrd_frame_check((mrd_bytes){ data->p, data->len }, &f, &body, NULL) != MRD_OK ||
        mrd_batch_open(c->reader, &f, body, c->cat, &info, NULL) != MRD_OK) {
        sim_fail(c->w, "node %s: a frame in the journal cannot be read", c->n->a->id);
        return;
    }
    while (mrd_batch_next(c->reader, &ev, NULL) == MRD_MORE)
        check_event(c, ev);
}

static void
check_journal(world *w, sim_node *n, const disk_session *d, mrd_codec *codec)
{
    journal_check c = { .w = w,
                        .n = n,
                        .s = mrd_core_session(w->core, d->id),
                        .t = truth_of(n, d->id),
                        .seen = calloc(n->source.n + 1, 1),
                        .reader = mrd_batch_reader_new(codec),
                        .cat = mrd_catalog_new() };

    if (c.seen == NULL || c.reader == NULL || c.cat == NULL)
        abort();
    for (size_t i = 0; i < d->n_frames && w->r->ok; i++) {
        const stored_frame *f = &d->frames[i];
        const mrd_buf *data = f->node == n->a->index ? wire_bytes(w, f->node, f) : NULL;

        if (f->node != n->a->index || f->type != MRD_FRAME_BATCH)
            continue;
        if (data == NULL)
            sim_fail(w, "node %s: a frame in the journal that it never sent", n->a->id);
        else
            check_frame(&c, data);
    }
    for (size_t i = 0; i < n->source.n && c.s != NULL && mrd_session_is_recorder(c.s); i++) {
        if (c.seen[i] && n->timeline != 0 && n->boot == 1 && n->woken_at == 0 &&
            w->n_timelines == 1 &&
            !of_a_window(w, c.s, session_time(n, (long double) n->source.v[i].at)))
            sim_fail(w, "node %s session %s: event %zu is in no window", n->a->id, c.s->text, i);
    }
    free(c.seen);
    mrd_batch_reader_free(c.reader);
    mrd_catalog_free(c.cat);
}

void
truth_end(world *w)
{
    mrd_codec *codec = mrd_codec_new();

    if (codec == NULL)
        abort();
    for (unsigned i = 0; i < w->plan->nodes && w->r->ok; i++) {
        sim_node *n = w->agents[i].node;
        mrd_agent_counts c = { 0 };

        if (n->agent == NULL) {
            sim_fail(w, "node %s: its agent is not there at the end", n->a->id);
            break;
        }
        mrd_agent_counters(n->agent, &c);
        if (c.held > 0 || c.spool.items > 0)
            sim_fail(w, "node %s still holds %llu events and %llu frames", n->a->id,
                     (unsigned long long) c.held, (unsigned long long) c.spool.items);
        for (size_t k = 0; k < w->n_disk && w->r->ok; k++) {
            if (!w->disk[k].removed)
                check_journal(w, n, &w->disk[k], codec);
        }
    }
    mrd_codec_free(codec);
}
