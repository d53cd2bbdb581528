/* The commands that a node receives about its sessions, with the answers to its hellos and
 * heartbeats. */
#include "aggregator/core/model/state.h"

#define TRIGGERS_AGAIN 16 /* the latest triggers that are repeated; nodes remember more */
/* an agent that does not know the change sends a heartbeat at once */
#define CHANGE_AGAIN MRD_SEC

static const Mrd__SessionStatus *
status_of(const Mrd__Heartbeat *hb, uint64_t session)
{
    for (size_t i = 0; hb != NULL && i < hb->n_sessions; i++) {
        if (hb->sessions[i]->session == session)
            return hb->sessions[i];
    }
    return NULL;
}

/* Returns the command that the node still needs about an open session, CONTROL_NONE if it needs
 * none. Decisions are sent only when they are on disk. */
static Mrd__ControlType
directive_for(const mrd_core *c, const mrd_session *s, const mrd_node *n,
              const Mrd__SessionStatus *st)
{
    const mrd_part *p = mrd_session_part(s, n->instance_id);
    Mrd__NodePhase phase = st == NULL ? MRD__NODE_PHASE__NODE_IDLE : st->phase;

    /* A node that was away, or did not answer the survey in time, joins late. Its control
     * connection may come back later than its data connection, for example. */
    if (p != NULL && p->state == MRD_PART_REFUSED && p->err != MRD_TIMEOUT)
        return MRD__CONTROL_TYPE__CONTROL_NONE;
    if (p != NULL && p->job_ended && s->step == MRD_STEP_RECORD)
        return MRD__CONTROL_TYPE__CONTROL_NONE; /* it may have removed the session already */
    if (s->step == MRD_STEP_RECORD && mrd_select_matches(&s->select, n->instance_id) &&
        s->changes.version <= s->save.durable && /* the start must contain the pauses */
        (phase == MRD__NODE_PHASE__NODE_IDLE || phase == MRD__NODE_PHASE__NODE_ARMED))
        return MRD__CONTROL_TYPE__CONTROL_GO;
    if (s->step == MRD_STEP_FLUSH &&
        (phase == MRD__NODE_PHASE__NODE_RECORDING || phase == MRD__NODE_PHASE__NODE_ARMED))
        return MRD__CONTROL_TYPE__CONTROL_STOP;
    if (s->step == MRD_STEP_RECORD && phase == MRD__NODE_PHASE__NODE_RECORDING && p != NULL &&
        p->unchangeable != n->run && st->revision < s->changes.revision &&
        s->changes.version <= s->save.durable &&
        (p->told_run != n->run || c->now.local.ns - p->told_change.ns >= CHANGE_AGAIN))
        return MRD__CONTROL_TYPE__CONTROL_CHANGE;
    return MRD__CONTROL_TYPE__CONTROL_NONE;
}

static bool
lists(const Mrd__SessionStatus *st, uint64_t trigger)
{
    for (size_t i = 0; i < st->n_triggers; i++) {
        if (st->triggers[i] == trigger)
            return true;
    }
    return false;
}

/* Returns the first of the latest triggers that the node missed, because it was busy or away, and
 * for which it still holds events of the window. NULL if there is none. */
static mrd_trigger *
missed_trigger(const mrd_core *c, const mrd_session *s, const Mrd__SessionStatus *st)
{
    size_t first = s->n_triggers > TRIGGERS_AGAIN ? s->n_triggers - TRIGGERS_AGAIN : 0;
    int64_t now = mrd_core_session_now(c).ns;

    if (!mrd_session_is_recorder(s) || s->step != MRD_STEP_RECORD || st == NULL ||
        st->phase != MRD__NODE_PHASE__NODE_RECORDING)
        return NULL;
    for (size_t i = first; i < s->n_triggers; i++) {
        mrd_trigger *t = &s->triggers[i];

        if (t->sent && (s->params.recorder_ns == 0 || t->to.ns > now - s->params.recorder_ns) &&
            !lists(st, t->id))
            return t;
    }
    return NULL;
}

static void
add(mrd_effect *to, Mrd__ControlType type, uint64_t id, const mrd_session *s, const mrd_trigger *t)
{
    to->directives[to->n_directives++] = (mrd_directive){
        .type = type,
        .id = id,
        .session = s,
        .trigger = t == NULL ? 0 : (size_t) (t - s->triggers) + 1,
    };
}

/* Cancels sessions that are over or unknown. A session that cannot be read now may still record. */
static void
cancel_others(const mrd_core *c, const Mrd__Heartbeat *hb, mrd_effect *to)
{
    for (size_t i = 0; i < hb->n_sessions && to->n_directives < MRD_DIRECTIVES_MAX; i++) {
        const Mrd__SessionStatus *st = hb->sessions[i];
        const mrd_session *s = mrd_core_session(c, st->session);

        if (s == NULL && mrd_core_withheld(c, st->session) != NULL)
            continue;
        if ((s == NULL || !mrd_session_is_open(s)) && st->phase != MRD__NODE_PHASE__NODE_FLUSHED &&
            st->phase != MRD__NODE_PHASE__NODE_REFUSED)
            add(to, MRD__CONTROL_TYPE__CONTROL_CANCEL, st->session, NULL, NULL);
    }
}

void
mrd_core_directives(mrd_core *c, const mrd_node *n, const Mrd__Heartbeat *hb, mrd_effect *to)
{
    for (size_t i = 0; i < c->n_sessions && to->n_directives < MRD_DIRECTIVES_MAX; i++) {
        const mrd_session *s = c->sessions[i];
        const Mrd__SessionStatus *st = status_of(hb, s->id);
        mrd_trigger *missed;
        Mrd__ControlType type;

        if (!mrd_session_is_open(s))
            continue;
        if ((type = directive_for(c, s, n, st)) != MRD__CONTROL_TYPE__CONTROL_NONE) {
            mrd_part *p = mrd_session_part(s, n->instance_id);

            add(to, type, s->id, s, NULL);
            if (type == MRD__CONTROL_TYPE__CONTROL_CHANGE && p != NULL) {
                p->told_change = c->now.local;
                p->told_run = n->run;
            }
        } else if ((missed = missed_trigger(c, s, st)) != NULL) {
            add(to, MRD__CONTROL_TYPE__CONTROL_TRIGGER, s->id, s, missed);
        }
    }
    if (hb != NULL)
        cancel_others(c, hb, to);
}
