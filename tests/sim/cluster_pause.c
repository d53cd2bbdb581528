/*
 * Pauses of sessions that real agents record. Users request pauses and their ends. Some nodes miss
 * these changes, die, or are not connected. Every connected node must apply the last change. A
 * revision must mean the same pauses for all nodes. A node that has applied a revision must record
 * all events outside of its pauses, and none inside.
 */
#include <stdlib.h>

#include "agent/record/record_int.h"
#include "aggregator/core/model/state.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

/* A connected node must have received a change after this time, in which the aggregator makes more
 * than two further surveys. */
#define TOLD_AFTER (12 * MRD_SEC)
/* maximum drift of a clock in a run, which is added to the error bounds of times */
#define MARGIN (100 * MRD_MS)

/* ---- Requests ---- */

static void
change_session(mrd_core *c, mrd_core_time now, uint64_t ticket, void *arg)
{
    const uint64_t *id = arg;
    const mrd_session *s = mrd_core_session(c, *id);
    mrd_session_change k = { .paused = s == NULL || !mrd_session_is_paused(s) };

    mrd_core_change(c, now, ticket, *id, &k);
}

void
pause_some(world *w)
{
    const mrd_session *s;

    if (!w->up || w->core->n_sessions == 0)
        return;
    s = w->core->sessions[sim_below(w, w->core->n_sessions)];
    if (s->deleted || s->state != MRD_SESSION_RECORDING)
        return;
    loop_command(w, change_session, &s->id, sizeof(s->id));
}

/* ---- Changes sent to nodes ---- */

static const told_change *
told_of(const world *w, uint64_t id, unsigned revision)
{
    for (size_t i = w->n_changes; i-- > 0;)
        if (w->changes[i].session == id && w->changes[i].revision == revision)
            return &w->changes[i];
    return NULL;
}

static int64_t
end_of(const Mrd__Pause *p)
{
    return p->to_session_ns == 0 ? INT64_MAX : p->to_session_ns; /* the pause has no end yet */
}

void
pause_told(world *w, const Mrd__Control *c)
{
    const told_change *before = told_of(w, c->session, c->revision);
    told_change *t;
    bool same = before != NULL && before->n == c->n_pauses;

    if (c->revision == 0 || c->n_pauses > MRD_PAUSES_MAX)
        return;
    for (size_t i = 0; i < c->n_pauses && same; i++)
        same = before->from[i] == c->pauses[i]->from_session_ns &&
               before->to[i] == end_of(c->pauses[i]);
    if (before != NULL && !same)
        sim_fail(w, "session %llx: change %u was told with other pauses before",
                 (unsigned long long) c->session, c->revision);
    if (before != NULL)
        return;
    if (!MRD_VEC_NEXT(w->changes, w->n_changes))
        abort();
    t = &w->changes[w->n_changes++];
    *t = (told_change){ .session = c->session, .revision = c->revision, .n = c->n_pauses };
    for (size_t i = 0; i < c->n_pauses; i++) {
        t->from[i] = c->pauses[i]->from_session_ns;
        t->to[i] = end_of(c->pauses[i]);
    }
}

/* Checks that every node that is present has applied the last change. */
void
pause_check(world *w)
{
    if (!w->plan->pauses || !w->healing || w->now < w->plan->duration + 19 * MRD_SEC ||
        w->now >= w->plan->duration + 20 * MRD_SEC || !w->up)
        return;
    for (size_t i = 0; i < w->core->n_sessions; i++) {
        const mrd_session *s = w->core->sessions[i];

        for (size_t k = 0; k < s->n_parts && s->step == MRD_STEP_RECORD && !s->deleted; k++) {
            const mrd_part *p = s->parts[k];
            const mrd_node *n = mrd_nodes_by_id(&w->core->nodes, p->instance_id);
            const sim_node *node = w->agents[strtoul(p->instance_id + 2, NULL, 10)].node;

            if (p->state == MRD_PART_RECORDING && p->revision < s->changes.revision && n != NULL &&
                node->agent != NULL && !node->suspended && w->now - node->woken_at > TOLD_AFTER &&
                server_now(w).local.ns - n->hello_local.ns > TOLD_AFTER)
                sim_fail(w, "session %s node %s: it was not told change %u, only %u", s->text,
                         p->instance_id, s->changes.revision, p->revision);
        }
    }
}

/* ---- Recorded events and times ---- */

bool
pause_leaves_out(const sim_node *n, size_t at, const source_event *ev)
{
    const session *s = &n->opened->record->sessions[at];

    for (size_t i = 0; i < s->n_pauses; i++)
        if (ev->ts_ns >= s->pauses[i].from.ns && ev->ts_ns + ev->dur_ns < s->pauses[i].to.ns)
            return true;
    return false;
}

/* Notes how precisely the node knew session time when it applied the last change. Below 0 if
 * unknown. */
static void
note_change(sim_node *n, const session *s, session_truth *t)
{
    mrd_clock_sync_view v;

    if (t->revision == s->st.revision)
        return;
    t->revision = s->st.revision;
    mrd_clock_sync_get(n->opened->clock, &v);
    t->pause_margin = v.known && v.bound_ns >= 0 && v.bound_ns < MRD_SEC && n->timeline != 0 &&
                              n->w->n_timelines == 1 && n->boot == 1 && n->woken_at == 0
                          ? v.bound_ns + MARGIN
                          : -1;
}

/* Returns true if the range is certainly within the pauses sent to the node, or possibly if not
 * `certain`. */
static bool
lies_in(const told_change *told, long double from, long double to, bool certain, int64_t margin)
{
    long double by = certain ? (long double) margin : -(long double) margin;

    for (size_t i = 0; told != NULL && i < told->n; i++)
        if (from >= (long double) told->from[i] + by && to < (long double) told->to[i] - by)
            return true;
    return false;
}

void
pause_given(sim_node *n, size_t at, session_truth *t, const source_event *ev)
{
    const session *s = &n->opened->record->sessions[at];
    const told_change *told = told_of(n->w, s->st.id, s->st.revision);
    bool left_out = pause_leaves_out(n, at, ev);
    long double from, to;

    note_change(n, s, t);
    if (s->st.revision > 0 && told == NULL)
        sim_fail(n->w, "node %s session %llx: nobody told it change %u", n->a->id,
                 (unsigned long long) s->st.id, s->st.revision);
    if (t->pause_margin <= 0 || n->timeline == 0 || n->w->n_timelines != 1 || n->boot != 1 ||
        n->woken_at != 0)
        return;
    to = session_time(n, (long double) ev->at);
    from = to - (long double) ev->dur_ns;
    n->w->r->paused_events += left_out;
    if (!left_out && lies_in(told, from, to, true, t->pause_margin))
        sim_fail(n->w, "node %s session %llx: it records in a pause that it carried out", n->a->id,
                 (unsigned long long) s->st.id);
    if (left_out && !lies_in(told, from, to, false, t->pause_margin))
        sim_fail(n->w, "node %s session %llx: it leaves out what is in no pause", n->a->id,
                 (unsigned long long) s->st.id);
}
