/* Checks what must hold in every run of the simulated cluster. Cheap checks are made at each step,
 * expensive ones at the end of the run. */
#include <stdio.h>
#include <stdlib.h>

#include "base/obj.h"
#include "tests/sim/cluster_node.h"

/* maximum time that any request waits for its answer, even with a slow disk */
#define ANSWER_MAX (10 * MRD_SEC)

static uint64_t
losses(const mrd_counts *c)
{
    return mrd_counts_lost(c);
}

/* For every node of every session, begun = delivered + lost + held at any time. */
static void
check_counts(world *w, const mrd_session *s, const mrd_part *p)
{
    const mrd_counts *c = &p->counts;

    if (mrd_core_withheld(w->core, s->id) != NULL)
        return; /* the session is still being read from the store */
    if (mrd_part_store_missing(p) > 0)
        sim_fail(w, "session %s node %s: delivered events are not in the store", s->text,
                 p->instance_id);
    if (c->begun != c->delivered + losses(c) + c->held)
        sim_fail(w, "session %s node %s: begun %llu, delivered %llu, lost %llu, held %llu", s->text,
                 p->instance_id, (unsigned long long) c->begun, (unsigned long long) c->delivered,
                 (unsigned long long) losses(c), (unsigned long long) c->held);
}

void
check_step(world *w)
{
    unsigned surveys = 0;

    if (!w->up)
        return;
    if (w->core->n_pending > w->r->most_pending)
        w->r->most_pending = w->core->n_pending;
    if (w->core->out.n != w->core->out.first)
        sim_fail(w, "effects were left");
    if ((w->r->steps & 63) != 0)
        return;
    loop_check(w);
    pause_check(w);
    limits_check(w);
    for (size_t i = 0; i < w->n_tickets; i++) {
        if (w->now - w->tickets[i].came > ANSWER_MAX)
            sim_fail(w, "a request of node %u has had no answer for 10 s", w->tickets[i].node);
    }
    for (unsigned i = 0; i < MRD_SURVEYS_MAX; i++) {
        const mrd_survey *v = &w->core->surveys[i];

        surveys += v->id != 0;
        if (v->id != 0 && server_now(w).local.ns > v->deadline.ns + 2 * MRD_SEC)
            sim_fail(w, "a question to all nodes does not end");
    }
    w->r->most_surveys = surveys > w->r->most_surveys ? surveys : w->r->most_surveys;
    if (surveys > 64)
        sim_fail(w, "%u questions are under way: they are not ended", surveys);
    if (w->plan->nodes > 50)
        return;
    for (size_t i = 0; i < w->core->n_sessions; i++) {
        for (size_t k = 0; k < w->core->sessions[i]->n_parts; k++)
            check_counts(w, w->core->sessions[i], w->core->sessions[i]->parts[k]);
    }
}

static const append_model *
append_of(const world *w, uint64_t ticket)
{
    for (size_t i = 0; i < w->n_queue; i++) {
        if (w->queue[i].ticket == ticket)
            return &w->queue[i];
    }
    return NULL;
}

/* A frame acknowledged as stored must be on disk and synced. */
void
check_ack(world *w, const ticket_model *t, const mrd_effect *e, const batch *b)
{
    const append_model *a;
    const disk_session *d;

    (void) b;
    if (w->store != NULL) {
        if (e->kind == MRD_DO_ACK && t->numbered &&
            (e->status == MRD__ACK_STATUS__ACK_STORED ||
             e->status == MRD__ACK_STATUS__ACK_DUPLICATE))
            store_promised(w, t, e->status == MRD__ACK_STATUS__ACK_DUPLICATE);
        return;
    }
    if (e->kind != MRD_DO_ACK || e->status != MRD__ACK_STATUS__ACK_STORED)
        return;
    a = append_of(w, e->ticket);
    d = a == NULL ? NULL : disk_of(w, a->session);
    for (size_t i = d == NULL ? 0 : d->n_frames; i-- > 0;) {
        const stored_frame *f = &d->frames[i];

        if (f->node == a->f.node && f->epoch == a->f.epoch && f->seq == a->f.seq) {
            if (!f->synced)
                break;
            return;
        }
    }
    sim_fail(w, "acknowledged before it was durable");
}

/* A start or stop may be sent only after it is on disk. */
void
check_reported(world *w, const agent *a, Mrd__ControlType type, uint64_t session)
{
    const disk_session *d = disk_of(w, session);

    if (a != NULL && !w->up)
        return; /* the message was in flight when the aggregator stopped */
    if (type == MRD__CONTROL_TYPE__CONTROL_GO && (d == NULL || !d->durable_go))
        sim_fail(w, "a start was told before it was on disk");
    if (type == MRD__CONTROL_TYPE__CONTROL_STOP && (d == NULL || !d->durable_stop))
        sim_fail(w, "a stop was told before it was on disk");
}

/* All nodes must receive the same window (time around a trigger) for the trigger `id`, even if they
 * receive it at different times. */
void
check_window(world *w, const agent *a, uint64_t id, int64_t from, int64_t to)
{
    for (size_t i = w->n_windows; i-- > 0;) {
        if (w->windows[i].id != id)
            continue;
        if (w->windows[i].from != from || w->windows[i].to != to)
            sim_fail(w, "node %s was told another window of a trigger", a->id);
        return;
    }
    if (w->n_windows < MRD_COUNT(w->windows))
        w->windows[w->n_windows++] = (window_model){ id, from, to };
}

/* The aggregator's bound of a node's clock must contain the true offset. */
void
check_estimate(world *w, const agent *a, const Mrd__ClockEstimate *e, const char *state,
               int64_t local)
{
    long double t = sim_clock_true(&a->clock, local);
    long double session = t * (1.0L + w->server_ppm / 1e6L) + (long double) w->server_offset +
                          (long double) w->scale.offset;
    long double off = session - ((long double) local + (long double) e->offset_ns);

    if (e->bound_ns < 0)
        return;
    w->r->bounds_checked++;
    if (off > (long double) e->bound_ns + 2 || -off > (long double) e->bound_ns + 2)
        sim_fail(w, "node %s: its clock (%s) is %.0Lf ns from the truth, the bound says %lld",
                 a->id, state, off, (long long) e->bound_ns);
}

/* ---- The end ---- */

typedef struct {
    uint64_t session, epoch, seq;
    uint32_t node;
} number;

static int
by_number(const void *a, const void *b)
{
    const number *x = a, *y = b;

    return x->node != y->node     ? (x->node < y->node ? -1 : 1)
           : x->epoch != y->epoch ? (x->epoch < y->epoch ? -1 : 1)
           : x->seq != y->seq     ? (x->seq < y->seq ? -1 : 1)
                                  : 0;
}

static void
check_once(world *w, const disk_session *d)
{
    number *v = calloc(d->n_frames + 1, sizeof(*v));

    for (size_t i = 0; i < d->n_frames; i++)
        v[i] = (number){ d->id, d->frames[i].epoch, d->frames[i].seq, d->frames[i].node };
    qsort(v, d->n_frames, sizeof(*v), by_number);
    for (size_t i = 1; i < d->n_frames; i++) {
        if (by_number(&v[i - 1], &v[i]) == 0)
            sim_fail(w, "node %u: frame %llu is in the journal twice", v[i].node,
                     (unsigned long long) v[i].seq);
    }
    free(v);
}

/* Sums of a node's events in the journal of a session. Records of losses do not count as delivered
 * events. */
typedef struct {
    uint64_t events, delivered;
    uint64_t unacknowledged; /* the part of `delivered` that the node may count as lost instead */
} journal_sum;

static journal_sum *
journal_sums(const world *w, const disk_session *d)
{
    journal_sum *sums = calloc(w->plan->nodes, sizeof(*sums));

    for (size_t i = 0; d != NULL && i < d->n_frames; i++) {
        const stored_frame *f = &d->frames[i];

        if (f->type != MRD_FRAME_BATCH)
            continue;
        sums[f->node].events += f->events;
        sums[f->node].delivered += w->plan->real ? wire_events(w, f->node, f) : f->events;
        if (w->plan->real && truth_is_unacknowledged(w->agents[f->node].node, f))
            sums[f->node].unacknowledged += wire_events(w, f->node, f);
    }
    return sums;
}

static void
check_part(world *w, const mrd_session *s, const mrd_part *p, const journal_sum *sums)
{
    unsigned node = (unsigned) strtoul(p->instance_id + 2, NULL, 10);
    uint64_t all = sums[node].events, stored = sums[node].delivered;

    check_counts(w, s, p);
    if (p->events != all)
        sim_fail(w, "session %s node %s: %llu events in the journal, %llu in the manifest", s->text,
                 p->instance_id, (unsigned long long) all, (unsigned long long) p->events);
    if (p->counts.delivered > (w->agents[node].spools_lost > 0 ? all : stored))
        sim_fail(w, "session %s node %s: %llu events acknowledged, %llu in the journal", s->text,
                 p->instance_id, (unsigned long long) p->counts.delivered,
                 (unsigned long long) stored);
    if (p->state == MRD_PART_FLUSHED && p->counts.held > 0)
        sim_fail(w, "session %s node %s: flushed, but it holds events", s->text, p->instance_id);
    /* A flushed node has reported everything: events that it did not deliver are lost with a cause.
     * If acknowledgements were lost with the agent's spool, events may be stored and counted as not
     * delivered. */
    if (p->state == MRD_PART_FLUSHED && w->agents[node].spools_lost == 0 &&
        stored - p->counts.delivered > sums[node].unacknowledged)
        sim_fail(w, "session %s node %s: %llu events in the journal, %llu delivered", s->text,
                 p->instance_id, (unsigned long long) stored,
                 (unsigned long long) p->counts.delivered);
}

static void
check_session(world *w, const mrd_session *s)
{
    journal_sum *sums;

    if (s->step != MRD_STEP_OVER || !mrd_session_is_over(s) || !s->closed) {
        sim_fail(w, "session %s does not end: %s, step %d", s->text,
                 mrd_session_state_text(s->state), (int) s->step);
        return;
    }
    w->r->complete += s->state == MRD_SESSION_COMPLETE;
    w->r->failed += s->state == MRD_SESSION_FAILED;
    sums = journal_sums(w, disk_of(w, s->id));
    for (size_t i = 0; i < s->n_parts && w->r->ok; i++) {
        if (s->state == MRD_SESSION_COMPLETE && !mrd_part_is_over(s->parts[i]))
            sim_fail(w, "session %s is over and node %s is %s", s->text, s->parts[i]->instance_id,
                     mrd_part_state_text(s->parts[i]->state));
        check_part(w, s, s->parts[i], sums);
    }
    for (unsigned i = 0; i < w->plan->nodes && w->r->ok; i++) {
        char id[24];

        snprintf(id, sizeof(id), "i-%u", i);
        if (sums[i].events > 0 && mrd_session_part(s, id) == NULL)
            sim_fail(w, "session %s: node %s has events in the journal and is not listed", s->text,
                     id);
    }
    free(sums);
}

void
check_end(world *w)
{
    if (!w->up) {
        sim_fail(w, "the aggregator is not there at the end");
        return;
    }
    if (w->store != NULL)
        store_read_back(w);
    for (size_t i = 0; i < w->core->n_sessions && w->r->ok; i++) {
        if (w->core->sessions[i]->deleted)
            sim_fail(w, "session %s is deleted and does not go", w->core->sessions[i]->text);
        else
            check_session(w, w->core->sessions[i]);
    }
    for (size_t i = 0; i < w->n_disk && w->r->ok; i++) {
        if (!w->disk[i].removed)
            check_once(w, &w->disk[i]);
    }
    for (size_t i = 0; i < w->n_asked && w->r->ok;
         i++) { /* every session whose start was answered must exist, or must have been deleted */
        const disk_session *d = disk_of(w, w->asked[i].session);

        if (d == NULL || (!d->removed && mrd_core_session(w->core, w->asked[i].session) == NULL))
            sim_fail(w, "a session whose start was answered is not there");
    }
    for (unsigned i = 0; i < w->plan->nodes && w->r->ok; i++) {
        const mrd_node *n = mrd_nodes_by_id(&w->core->nodes, w->agents[i].id);

        if (n == NULL || n->conn == 0)
            sim_fail(w, "node %s is not connected at the end", w->agents[i].id);
        if (w->agents[i].node == NULL && w->agents[i].n_spool > 0)
            sim_fail(w, "node %s still holds %zu batches", w->agents[i].id, w->agents[i].n_spool);
    }
    if (!w->plan->real && w->r->ok)
        export_end(w);
    if (w->plan->real && w->r->ok)
        truth_end(w);
    if (w->plan->real && w->r->ok)
        files_end(w);
    if (w->plan->real && w->r->ok)
        merge_end(w);
    if (w->plan->real && w->r->ok)
        shared_end(w);
    limits_end(w);
}
