/* agent/daemon/control.c - handles requests of the aggregator: arms, starts, changes, stops and
 * triggers sessions. */
#include <stdio.h>
#include <string.h>

#include "agent/daemon/agent_int.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/num.h"
#include "proto/wire.h"

/* ---- Conversion of a session's times to this node's clock ---- */

void
mrd_agent_clock(void *self, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received)
{
    mrd_agent *agent = self;

    mrd_clock_sync_ack(agent->clock, sent, ack, received);
    if (agent->models_sent != 0 && ack->status == MRD__ACK_STATUS__ACK_STORED)
        agent->models_reported = agent->models_sent;
    if (agent->features.sent != 0 && ack->status == MRD__ACK_STATUS__ACK_STORED)
        agent->features.reported = agent->features.sent;
    if (agent->ranks_sent != 0 && ack->status == MRD__ACK_STATUS__ACK_STORED) {
        agent->ranks_reported = agent->ranks_sent;
        agent->paces_reported = agent->paces_sent;
    }
    if (agent->ranks != NULL && agent->stacks != NULL)
        mrd_stacks_ask(agent->stacks, ack->stacks, ack->n_stacks);
}

/* Corrects a time for the last suspend of the machine, during which the RAW clock stood still. Adds
 * the length of the suspend to times before the suspend. A time during the suspend becomes the time
 * of the wake-up. */
static mrd_local_ns
before_sleep(mrd_local_ns at, const mrd_clock_sync_view *view)
{
    mrd_local_ns earlier = { mrd_sat_add(at.ns, view->slept) };

    if (view->woke.ns == 0 || !mrd_local_before(at, view->woke))
        return at;
    return mrd_local_before(earlier, view->woke) ? earlier : view->woke;
}

/* Converts `session_ns` to this node's RAW clock. Uses `wall` instead if `session_ns` is 0 or the
 * session clock is unknown. If both are 0, returns the present time. An aggregator may send any
 * number, so the result is limited to times that can be subtracted without overflow. */
static mrd_local_ns
local_time(const mrd_agent *agent, mrd_sess_ns session_ns, mrd_wall_ns wall, int64_t *ret_bound)
{
    mrd_clock_sync_view view;

    session_ns = (mrd_sess_ns){ mrd_time_clamp(session_ns.ns) };
    wall = (mrd_wall_ns){ mrd_time_clamp(wall.ns) };
    mrd_clock_sync_get(agent->clock, &view);
    *ret_bound = view.bound_ns;
    if (session_ns.ns == 0 && wall.ns == 0)
        return mrd_local_now();
    if (session_ns.ns != 0 && view.known) {
        /* Use the clock offset at the time that is converted. It may differ by 100 us from the
         * offset now. */
        mrd_clock_sync_at(agent->clock, (mrd_local_ns){ session_ns.ns - view.offset_ns }, &view);
        *ret_bound = view.bound_ns;
        return before_sleep((mrd_local_ns){ mrd_time_clamp(session_ns.ns - view.offset_ns) },
                            &view);
    }
    *ret_bound = -1;
    return (mrd_local_ns){ mrd_time_clamp(
        mrd_drain_to_raw(agent->drain, (mrd_wall_ns){ wall.ns != 0 ? wall.ns : session_ns.ns })
            .ns) };
}

void
mrd_agent_welcome(void *self, const Mrd__Welcome *welcome)
{
    mrd_agent *agent = self;

    mrd_clock_sync_welcome(agent->clock, welcome);
    if (agent->jobs != NULL)
        mrd_jobs_welcome(agent->jobs);
    agent->models_reported = agent->features.reported = agent->ranks_reported =
        /* send all models, features and ranks again, because this may be another aggregator than
         * before */
        0;
    mrd_log(MRD_LOG_INFO, "AGT-CONNECTED", "The aggregator accepted this agent: id=%s release=%s",
            welcome->aggregator_id, welcome->release);
}

/* ---- Does a session select this node? ---- */

typedef struct {
    const mrd_select *select;
    bool found;
} search;

static void
match(void *self, mrd_drain_process *process)
{
    search *s = self;

    s->found = s->found || mrd_record_takes(s->select, &process->ident);
}

/* Returns true if the session selects this node even if none of its processes match. This is so if
 * it selects only by jobs, and one of these jobs is the default job of this node. */
static bool
takes_any_process(const mrd_agent *agent, const mrd_select *select)
{
    mrd_select others = *select;

    if (agent->o.job != NULL && mrd_strlist_has(&select->jobs, mrd_str_of(agent->o.job)))
        others.jobs = (mrd_strlist){ 0 };
    return !mrd_select_is_partial(&others);
}

static bool
selects_node(const mrd_agent *agent, const Mrd__Selection *from)
{
    mrd_select select = { 0 };
    search s = { .select = &select };

    /* A selection that cannot be copied counts as a match. When the session begins, it is refused
     * with the reason. */
    s.found = mrd_select_from_wire(&select, from) != MRD_OK || select.instances.n == 0 ||
              mrd_strlist_has(&select.instances, mrd_str_of(agent->node.instance_id));
    if (s.found && !takes_any_process(agent, &select)) {
        s.found = false;
        mrd_drain_each(agent->drain, match, &s);
    }
    mrd_select_fini(&select);
    return s.found;
}

/* ---- Control messages ---- */

/* Begins the session in all collectors. If any of them cannot collect its part on this node, the
 * whole session is refused. */
static mrd_err
begin(mrd_agent *agent, uint64_t session, mrd_why *why)
{
    mrd_err err = mrd_collectors_begin(agent, session, why);

    if (err != MRD_OK)
        mrd_record_cancel(agent->record, session);
    return err;
}

/* Returns true if the change is already applied and must not be applied again. An aggregator
 * repeats a change until all nodes have answered. After a reconnection the session clock may be
 * unknown for a while. The change's times would then be converted by the wall clock, which is less
 * exact. */
static bool
keeps_change(const mrd_agent *agent, const Mrd__Control *control)
{
    mrd_clock_sync_view view;
    mrd_record_status st;

    mrd_clock_sync_get(agent->clock, &view);
    return !view.known && control->revision > 0 &&
           mrd_record_find(agent->record, control->session, &st) &&
           st.phase == MRD__NODE_PHASE__NODE_RECORDING && st.revision == control->revision;
}

/* Applies a change of the session: its pauses, cores and event types. */
static mrd_err
change(mrd_agent *agent, const Mrd__Control *control, mrd_why *why)
{
    mrd_record_pause pauses[MRD_RECORD_PAUSES] = { { { 0 }, { 0 } } };
    size_t count = control->n_pauses < MRD_RECORD_PAUSES ? control->n_pauses : MRD_RECORD_PAUSES;
    int64_t bound;
    char id[MRD_SESSION_TEXT];
    mrd_err err;

    if (keeps_change(agent, control))
        return MRD_OK;
    for (size_t i = 0; i < count; i++) {
        int64_t from = control->pauses[i]->from_session_ns, to = control->pauses[i]->to_session_ns;

        pauses[i].from = local_time(agent, (mrd_sess_ns){ from }, (mrd_wall_ns){ from }, &bound);
        pauses[i].to = to == 0
                           ? ((mrd_local_ns){ INT64_MAX })
                           : local_time(agent, (mrd_sess_ns){ to }, (mrd_wall_ns){ to }, &bound);
    }
    err = mrd_record_change(agent->record, control->session, control->revision, pauses, count,
                            control->select);
    if (err == MRD_OK)
        mrd_log(MRD_LOG_INFO, "AGT-CHANGE", "A session is changed: id=%s revision=%u paused=%s",
                mrd_session_id_text(control->session, id), control->revision,
                count > 0 && pauses[count - 1].to.ns == INT64_MAX ? "yes" : "no");
    else
        mrd_why_set(why, err, 0, "the session cannot be changed: %s",
                    err == MRD_STATE ? "it does not record on this node" : mrd_err_text(err));
    return err;
}

static mrd_err
go(mrd_agent *agent, const Mrd__Control *control, mrd_why *why)
{
    int64_t bound, start = local_time(agent, (mrd_sess_ns){ control->at_session_ns },
                                      (mrd_wall_ns){ control->at_wall_ns }, &bound)
                               .ns;
    char id[MRD_SESSION_TEXT];
    mrd_record_status st;
    bool again = mrd_record_find(agent->record, control->session, &st) &&
                 st.phase == MRD__NODE_PHASE__NODE_RECORDING;
    mrd_err err = mrd_record_go(agent->record, control, (mrd_local_ns){ start }, bound, why);

    if (err == MRD_OK && !again)
        err = begin(agent, control->session, why);
    if (err == MRD_OK && !again)
        mrd_trigger_session(agent->errors, (mrd_local_ns){ start });
    if (err == MRD_OK && !again && control->revision > 0)
        err = change(agent, control, why);

    if (err == MRD_OK && !again)
        mrd_log(MRD_LOG_INFO, "AGT-GO", "A session starts: id=%s name=%s in_ms=%lld bound_us=%lld",
                mrd_session_id_text(control->session, id), control->name,
                (long long) ((start - mrd_local_now().ns) / MRD_MS), (long long) (bound / MRD_US));
    return err;
}

mrd_err
mrd_agent_job_go(void *self, const Mrd__Control *control, const mrd_job_times *times, mrd_why *why)
{
    mrd_agent *agent = self;
    mrd_clock_sync_view view;
    mrd_record_status st;
    bool found = mrd_record_find(agent->record, control->session, &st);
    bool again = found && st.phase == MRD__NODE_PHASE__NODE_RECORDING;
    char id[MRD_SESSION_TEXT];
    mrd_err err;

    mrd_clock_sync_get(agent->clock, &view);
    err = mrd_record_go(agent->record, control, times->start, view.bound_ns, why);
    if (err != MRD_OK)
        return found && err == MRD_STATE ? MRD_OK : err;
    if (!again && (err = begin(agent, control->session, why)) != MRD_OK)
        return err;
    /* The job's rings were not read until now, so the session misses no events. This is also true
     * if the aggregator began the session here in the meantime. It is not true for a session that
     * began before this agent started. The saved state of such a session says what it misses. */
    if (!again || !mrd_local_before(st.reported, times->known))
        mrd_record_whole(agent->record, control->session, times->whole);
    if (again)
        return MRD_OK;
    mrd_trigger_session(agent->errors, times->start);
    mrd_log(MRD_LOG_INFO, "AGT-GO", "The session of a job starts: id=%s name=%s",
            mrd_session_id_text(control->session, id), control->name);
    if (agent->publish != NULL)
        mrd_publish_heartbeat_now(agent->publish);
    return MRD_OK;
}

void
mrd_agent_job_stop(void *self, uint64_t session, mrd_local_ns stop)
{
    mrd_agent *agent = self;

    (void) mrd_record_stop(agent->record, session, stop);
    if (agent->publish != NULL)
        mrd_publish_heartbeat_now(agent->publish);
}

static mrd_err
trigger(mrd_agent *agent, const Mrd__Control *control, mrd_why *why)
{
    char id[MRD_SESSION_TEXT];
    const Mrd__Trigger *t = control->trigger;
    int64_t bound, from, to;
    mrd_err err;

    if (t == NULL)
        return mrd_why_set(why, MRD_INVALID, 0, "the trigger has no window");
    from = local_time(agent, (mrd_sess_ns){ t->from_session_ns }, (mrd_wall_ns){ t->from_wall_ns },
                      &bound)
               .ns;
    to =
        local_time(agent, (mrd_sess_ns){ t->to_session_ns }, (mrd_wall_ns){ t->to_wall_ns }, &bound)
            .ns;
    err = mrd_record_trigger(agent->record, control->session, t->id, (mrd_local_ns){ from },
                             (mrd_local_ns){ to });
    if (err == MRD_EXISTS)
        return MRD_OK;
    if (err != MRD_OK)
        return mrd_why_set(why, err, 0, "trigger: %s",
                           err == MRD_NOTFOUND ? "the session is not known on this node"
                           : err == MRD_STATE
                               ? "the session is not a flight recorder (its mode is stream)"
                               : "too many windows of flight recorders are not over yet: trigger "
                                 "again when they are");
    mrd_collectors_save(agent, control->session, mrd_local_now());
    mrd_log(MRD_LOG_INFO, "AGT-WINDOW", "A flight recorder's window is being sent: id=%s reason=%s",
            mrd_session_id_text(control->session, id), t->reason);
    return MRD_OK;
}

static mrd_err
apply(mrd_agent *agent, const Mrd__Control *control, mrd_why *why)
{
    int64_t bound;
    mrd_err err;

    switch (control->type) {
    case MRD__CONTROL_TYPE__CONTROL_ARM:
        err = mrd_record_arm(agent->record, control, why);
        return err == MRD_EXISTS ? MRD_OK
               : err != MRD_OK   ? err
                                 : begin(agent, control->session, why);
    case MRD__CONTROL_TYPE__CONTROL_GO:
        return go(agent, control, why);
    case MRD__CONTROL_TYPE__CONTROL_STOP:
        err = mrd_record_stop(agent->record, control->session,
                              local_time(agent, (mrd_sess_ns){ control->at_session_ns },
                                         (mrd_wall_ns){ control->at_wall_ns }, &bound));
        return err == MRD_NOTFOUND ? MRD_OK : err;
    case MRD__CONTROL_TYPE__CONTROL_FLUSH:
        mrd_record_flush(agent->record);
        return MRD_OK;
    case MRD__CONTROL_TYPE__CONTROL_TRIGGER:
        return trigger(agent, control, why);
    case MRD__CONTROL_TYPE__CONTROL_CANCEL:
        mrd_record_cancel(agent->record, control->session);
        return MRD_OK;
    case MRD__CONTROL_TYPE__CONTROL_CHANGE:
        return change(agent, control, why);
    case MRD__CONTROL_TYPE__CONTROL_STATUS:
        return MRD_OK;
    default:
        return mrd_why_set(why, MRD_UNSUPPORTED, 0,
                           "this agent (release %s) does not know the request", MRD_RELEASE);
    }
}

/* ---- Sessions that this node refused ---- */

static void
refusal_drop(mrd_agent *agent, uint64_t session)
{
    size_t n = 0;

    for (size_t i = 0; i < agent->n_refusals; i++) {
        if (agent->refusals[i].session != session)
            agent->refusals[n++] = agent->refusals[i];
    }
    agent->n_refusals = n;
}

static void
refusal_note(mrd_agent *agent, uint64_t session, mrd_err err, const char *message)
{
    mrd_refusal *to;

    refusal_drop(agent, session);
    if (agent->n_refusals == MRD_RECORD_SESSIONS)
        refusal_drop(agent, agent->refusals[0].session);
    to = &agent->refusals[agent->n_refusals++];
    *to = (mrd_refusal){ .session = session, .err = err, .at = mrd_local_now() };
    snprintf(to->message, sizeof(to->message), "%s", message);
}

/* Returns the name of a control message's type for log messages, such as "ARM". */
static const char *
type_text(Mrd__ControlType type)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&mrd__control_type__descriptor, (int) type);

    return v == NULL ? "unknown" : v->name + strlen("CONTROL_");
}

void
mrd_agent_control(mrd_agent *agent, const Mrd__Control *control, Mrd__ControlReply *ret_reply,
                  char message[MRD_WHY_MAX])
{
    char id[MRD_SESSION_TEXT];
    mrd_record_status st;
    mrd_why why = { 0 };
    mrd_err err = MRD_OK;
    bool begins = control->type == MRD__CONTROL_TYPE__CONTROL_ARM ||
                  control->type == MRD__CONTROL_TYPE__CONTROL_GO;

    message[0] = '\0';
    ret_reply->type = control->type;
    ret_reply->session = control->session;
    ret_reply->instance_id = agent->node.instance_id;
    ret_reply->run = agent->run;
    ret_reply->selected = mrd_record_find(agent->record, control->session, &st) ||
                          selects_node(agent, control->select);
    if (ret_reply->selected || control->type == MRD__CONTROL_TYPE__CONTROL_STATUS)
        err = apply(agent, control, &why);
    if (err != MRD_OK) {
        snprintf(message, MRD_WHY_MAX, "%s", why.text);
        mrd_log(MRD_LOG_WARN, "AGT-CONTROL",
                "A request of the aggregator failed: type=%s session=%s reason=%s",
                type_text(control->type), mrd_session_id_text(control->session, id), why.text);
    }
    if (err != MRD_OK && begins && !mrd_record_find(agent->record, control->session, &st))
        refusal_note(agent, control->session, err, why.text);
    else if (begins || control->type == MRD__CONTROL_TYPE__CONTROL_CANCEL)
        refusal_drop(agent, control->session);
    ret_reply->err = (uint32_t) err;
    ret_reply->message = message;
    ret_reply->phase = mrd_record_find(agent->record, control->session, &st) ? st.phase
                       : err != MRD_OK ? MRD__NODE_PHASE__NODE_REFUSED
                                       : MRD__NODE_PHASE__NODE_IDLE;
    if (err != MRD_OK && control->type == MRD__CONTROL_TYPE__CONTROL_ARM)
        ret_reply->phase = MRD__NODE_PHASE__NODE_REFUSED;
    if (agent->publish != NULL)
        /* report this at once, so that the aggregator's manifest lists a refusal */
        mrd_publish_heartbeat_now(agent->publish);
}

void
mrd_agent_directive(void *self, const Mrd__Control *control)
{
    mrd_agent *agent = self;
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    char message[MRD_WHY_MAX];

    mrd_agent_control(agent, control, &reply, message);
}

void
mrd_agent_survey(void *self, const Mrd__Control *control, mrd_buf *to)
{
    mrd_agent *agent = self;
    mrd_frame frame = { .type = MRD_FRAME_CONTROL_REPLY,
                        .agent = agent->key,
                        .session = control->session };
    Mrd__ControlReply reply = MRD__CONTROL_REPLY__INIT;
    Mrd__ClockQuality clock = MRD__CLOCK_QUALITY__INIT;
    mrd_clock_sync_view view;
    char message[MRD_WHY_MAX];

    mrd_agent_control(agent, control, &reply, message);
    mrd_agent_clock_quality(agent, &view, &clock);
    reply.clock = &clock;
    if (mrd_msg_pack(&frame, &reply, to, NULL) != MRD_OK)
        mrd_buf_reset(to);
}

/* Removes sessions and refusals that ended at least MRD_WAIT_FORGET ago. In this time the
 * aggregator normally received their state. An aggregator that was unreachable for longer requests
 * the session again. */
void
mrd_agent_forget_flushed(mrd_agent *agent, mrd_local_ns now)
{
    for (size_t i = mrd_record_sessions(agent->record); i-- > 0;) {
        mrd_record_status st;

        mrd_record_get(agent->record, i, &st);
        if (st.phase == MRD__NODE_PHASE__NODE_FLUSHED &&
            mrd_local_after(now, mrd_local_add(st.flushed, MRD_WAIT_FORGET)))
            mrd_record_cancel(agent->record, st.id);
    }
    while (agent->n_refusals > 0 &&
           mrd_local_after(now, mrd_local_add(agent->refusals[0].at, MRD_WAIT_FORGET)))
        refusal_drop(agent, agent->refusals[0].session);
}
