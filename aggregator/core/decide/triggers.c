/* Triggers of flight recorders. A trigger makes all nodes keep and send the events in a window of
 * time. It is written to disk, then a survey sends it to all nodes. A node that misses the survey
 * receives it with the answer to its heartbeat. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/vec.h"

#define REPORT_WINDOW (20 * MRD_SEC)
#define REPORT_GATHER (500 * MRD_MS)
#define REPORT_PERIOD MRD_SEC
/* a node that misses the survey receives the trigger with the answer to its heartbeat */
#define ASK_TIMEOUT MRD_SEC

mrd_err
mrd_session_add_trigger(mrd_session *session, const mrd_trigger *trigger, mrd_why *why)
{
    if (session->n_triggers >= MRD_TRIGGERS_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "session %s was triggered %d times: start a new one",
                           session->text, MRD_TRIGGERS_MAX);
    if (!MRD_VEC_NEXT(session->triggers, session->n_triggers))
        return mrd_why_set(why, MRD_NOMEM, 0, "trigger");
    mrd_session_touch(session);
    session->triggers[session->n_triggers] = *trigger;
    session->triggers[session->n_triggers++].version = session->save.version;
    return MRD_OK;
}

/* Returns true if the session is a flight recorder that accepts triggers, and if its id is `id` or
 * `id` is 0. A session accepts triggers as soon as its state is "recording". Nodes receive them
 * after the start is on disk. */
static bool
is_triggered(const mrd_session *session, uint64_t id)
{
    return !session->deleted && mrd_session_is_recorder(session) &&
           (session->step == MRD_STEP_GO || session->step == MRD_STEP_RECORD) &&
           (id == 0 || session->id == id);
}

/* Schedules a trigger of the session because a node reported a cause. All reports within half a
 * second form one trigger, and a session has at most one of these per second. The trigger's window
 * ends after the last report, so it covers all causes. */
void
mrd_session_report(mrd_core *core, mrd_session *session, const mrd_node *node, const char *reason)
{
    int64_t now = mrd_core_session_now(core).ns;

    if (!is_triggered(session, 0) || session->report_at.ns != 0 ||
        mrd_session_part(session, node->instance_id) == NULL)
        return;
    session->report_at.ns = now + REPORT_GATHER;
    if (session->report_last.ns != 0 &&
        session->report_at.ns < session->report_last.ns + REPORT_PERIOD)
        session->report_at.ns = session->report_last.ns + REPORT_PERIOD;
    snprintf(session->report, sizeof(session->report), "%.100s: %.150s", node->instance_id, reason);
}

void
mrd_session_gather_reports(mrd_core *core, mrd_session *session)
{
    mrd_trigger trigger = { .to = mrd_core_session_now(core) };
    mrd_why why = { 0 };

    if (session->report_at.ns == 0 ||
        (trigger.to.ns < session->report_at.ns && !session->stop_requested))
        return;
    session->report_at.ns = 0;
    session->report_last = trigger.to;
    trigger.from.ns =
        trigger.to.ns -
        (session->params.recorder_ns < REPORT_WINDOW ? session->params.recorder_ns : REPORT_WINDOW);
    trigger.id = mrd_core_random(core);
    mrd_text_set(trigger.reason, sizeof(trigger.reason), session->report);
    if (mrd_session_add_trigger(session, &trigger, &why) != MRD_OK) {
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-TRIGGER",
                        "A trigger was refused: session=%s reason=%s", session->text, why.text);
        return;
    }
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-TRIGGER",
                    "A flight recorder's window is collected: session=%s reason=%s", session->text,
                    trigger.reason);
    mrd_core_save(core, session);
}

/* Returns true while the survey that sends the session's start to the nodes is running. A trigger
 * has to wait for the end of this survey. Otherwise a node could receive the trigger before the
 * start. */
static bool
is_starting(const mrd_core *core, const mrd_session *session)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++)
        if (core->surveys[i].id != 0 && core->surveys[i].session == session->id &&
            core->surveys[i].type == MRD__CONTROL_TYPE__CONTROL_GO)
            return true;
    return false;
}

void
mrd_session_send_triggers(mrd_core *core, mrd_session *session)
{
    if (session->step != MRD_STEP_RECORD || is_starting(core, session))
        return;
    for (size_t i = 0; i < session->n_triggers; i++) {
        mrd_trigger *trigger = &session->triggers[i];

        if (trigger->sent || trigger->version > session->save.tried ||
            !mrd_effects_room(&core->out, MRD_EFFECTS_ROOM))
            continue;
        trigger->sent = true;
        (void) mrd_core_ask(core, session, MRD__CONTROL_TYPE__CONTROL_TRIGGER, trigger, ASK_TIMEOUT,
                            0);
    }
}

/* Appends to an error message in how many other sessions the trigger succeeded. This tells users
 * not to repeat the command for all sessions. */
static void
say_others(mrd_why *why, size_t triggered)
{
    mrd_why first = *why;

    if (why->err != MRD_OK && triggered > 0)
        mrd_why_set(why, first.err, 0, "%.400s; %zu other session%s triggered", first.text,
                    triggered, triggered == 1 ? " was" : "s were");
}

void
mrd_core_trigger(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id, mrd_dur_ns last,
                 const char *reason)
{
    mrd_trigger trigger = { 0 };
    mrd_why why = { 0 }, refused = { 0 };
    size_t triggered = 0, awaited = 0;

    mrd_core_enter(core, now);
    trigger.to = mrd_core_session_now(core);
    trigger.from.ns = trigger.to.ns - last;
    trigger.id = mrd_core_random(core);
    mrd_text_set(trigger.reason, sizeof(trigger.reason), reason);
    /* a failure in one session must not affect the others */
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        if (!is_triggered(session, id))
            continue;
        if (mrd_session_add_trigger(session, &trigger, &refused) != MRD_OK) {
            if (why.err == MRD_OK)
                why = refused;
            continue;
        }
        triggered++;
        awaited += mrd_core_await(core, ticket, session, trigger.id) == MRD_OK;
        mrd_core_save(core, session);
    }
    if (triggered == 0 && why.err == MRD_OK)
        mrd_why_set(&why, MRD_STATE, 0,
                    "no recorder session is running%s: start one with --mode recorder",
                    id == 0 ? "" : " under this id");
    say_others(&why, triggered);
    if (why.err == MRD_OK && awaited < triggered)
        mrd_why_set(&why, MRD_LIMIT, 0,
                    "too many commands wait for the disk: windows are collected, but the answer "
                    "does not wait for it");
    if (awaited == 0)
        mrd_core_answer(core, ticket, &why, 0);
    else if (why.err != MRD_OK)
        mrd_core_await_failed(core, ticket, &why);
}
