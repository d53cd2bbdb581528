/* Chooses the commands that a node receives about its sessions with the answers to its hellos and
 * heartbeats. */
#include "aggregator/core/model/state.h"

/* A node that missed triggers receives only those among the session's latest TRIGGERS_AGAIN
 * triggers. Nodes remember the ids of more triggers than this, so they recognize a repeated
 * trigger. */
#define TRIGGERS_AGAIN 16
/* Minimum interval between two repetitions of the same change to one agent. An agent sends a
 * heartbeat at once after each directive. An agent that does not support changes reports the old
 * revision in this heartbeat. Without the interval, the aggregator would send the change again at
 * once, in an endless loop. */
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

/* Returns the command that the node needs next for an open session; CONTROL_NONE if none. A
 * decision of the core is sent only after it is on disk. Sets *ret_unlisted if the start of the
 * session has to wait until it is on disk. */
static Mrd__ControlType
directive_for(const mrd_core *core, const mrd_session *session, const mrd_node *node,
              const Mrd__SessionStatus *st, bool *ret_unlisted)
{
    const mrd_part *part = mrd_session_part(session, node->instance_id);
    Mrd__NodePhase phase = st == NULL ? MRD__NODE_PHASE__NODE_IDLE : st->phase;

    /* A node joins late if it was disconnected or did not answer the survey in time. For example,
     * its control connection may return later than its data connection. A node that refused does
     * not join. */
    if (part != NULL && part->state == MRD_PART_REFUSED && part->err != MRD_TIMEOUT)
        return MRD__CONTROL_TYPE__CONTROL_NONE;
    if (part != NULL && part->job_ended && session->step == MRD_STEP_RECORD)
        /* nothing to do: the job ended on this node, which may have removed the session by now */
        return MRD__CONTROL_TYPE__CONTROL_NONE;
    if (session->step == MRD_STEP_RECORD &&
        mrd_select_matches(&session->select, node->instance_id) &&
        (phase == MRD__NODE_PHASE__NODE_IDLE || phase == MRD__NODE_PHASE__NODE_ARMED)) {
        /* the start message contains the pauses, so they must be on disk first */
        if (session->changes.version <= session->save.durable)
            return MRD__CONTROL_TYPE__CONTROL_GO;
        *ret_unlisted = true;
    }
    if (session->step == MRD_STEP_FLUSH &&
        (phase == MRD__NODE_PHASE__NODE_RECORDING || phase == MRD__NODE_PHASE__NODE_ARMED))
        return MRD__CONTROL_TYPE__CONTROL_STOP;
    if (session->step == MRD_STEP_RECORD && phase == MRD__NODE_PHASE__NODE_RECORDING &&
        part != NULL && part->unchangeable != node->run &&
        st->revision < session->changes.revision &&
        session->changes.version <= session->save.durable &&
        (part->told_run != node->run || core->now.local.ns - part->told_change.ns >= CHANGE_AGAIN))
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

/* Returns a trigger that the node missed because it was busy or disconnected: the oldest one of the
 * latest TRIGGERS_AGAIN. Skips triggers for events that have left the node's memory. NULL if there
 * is none. */
static mrd_trigger *
missed_trigger(const mrd_core *core, const mrd_session *session, const Mrd__SessionStatus *st)
{
    size_t first = session->n_triggers > TRIGGERS_AGAIN ? session->n_triggers - TRIGGERS_AGAIN : 0;
    int64_t now = mrd_core_session_now(core).ns;

    if (!mrd_session_is_recorder(session) || session->step != MRD_STEP_RECORD || st == NULL ||
        st->phase != MRD__NODE_PHASE__NODE_RECORDING)
        return NULL;
    for (size_t i = first; i < session->n_triggers; i++) {
        mrd_trigger *trigger = &session->triggers[i];

        if (trigger->sent &&
            (session->params.recorder_ns == 0 ||
             trigger->to.ns > now - session->params.recorder_ns) &&
            !lists(st, trigger->id))
            return trigger;
    }
    return NULL;
}

static void
add(mrd_effect *to, Mrd__ControlType type, uint64_t id, const mrd_session *session,
    const mrd_trigger *trigger)
{
    to->directives[to->n_directives++] = (mrd_directive){
        .type = type,
        .id = id,
        .session = session,
        .trigger = trigger == NULL ? 0 : (size_t) (trigger - session->triggers) + 1,
    };
}

/* Adds the command CANCEL for each session that the node records, but that is over or unknown to
 * the aggregator. A session that cannot be read now may still record, so it is not cancelled. */
static void
cancel_others(const mrd_core *core, const Mrd__Heartbeat *hb, mrd_effect *to)
{
    for (size_t i = 0; i < hb->n_sessions && to->n_directives < MRD_DIRECTIVES_MAX; i++) {
        const Mrd__SessionStatus *st = hb->sessions[i];
        const mrd_session *session = mrd_core_session(core, st->session);

        if (session == NULL && mrd_core_withheld(core, st->session) != NULL)
            continue;
        if ((session == NULL || !mrd_session_is_open(session)) &&
            st->phase != MRD__NODE_PHASE__NODE_FLUSHED &&
            st->phase != MRD__NODE_PHASE__NODE_REFUSED)
            add(to, MRD__CONTROL_TYPE__CONTROL_CANCEL, st->session, NULL, NULL);
    }
}

void
mrd_core_directives(mrd_core *core, const mrd_node *node, const Mrd__Heartbeat *hb, mrd_effect *to)
{
    to->unlisted = mrd_core_withholds(core);
    for (size_t i = 0; i < core->n_sessions; i++) {
        const mrd_session *session = core->sessions[i];
        const Mrd__SessionStatus *st = status_of(hb, session->id);
        mrd_trigger *missed;
        Mrd__ControlType type;

        if (!mrd_session_is_open(session))
            continue;
        if (to->n_directives == MRD_DIRECTIVES_MAX) {
            to->unlisted = true;
            break;
        }
        if ((type = directive_for(core, session, node, st, &to->unlisted)) !=
            MRD__CONTROL_TYPE__CONTROL_NONE) {
            mrd_part *part = mrd_session_part(session, node->instance_id);

            add(to, type, session->id, session, NULL);
            if (type == MRD__CONTROL_TYPE__CONTROL_CHANGE && part != NULL) {
                part->told_change = core->now.local;
                part->told_run = node->run;
            }
        } else if ((missed = missed_trigger(core, session, st)) != NULL) {
            add(to, MRD__CONTROL_TYPE__CONTROL_TRIGGER, session->id, session, missed);
        }
    }
    if (hb != NULL)
        cancel_others(core, hb, to);
}
