/* Moves sessions through their steps: arm, start, record, stop, flush, close, merge. Each step
 * waits for an event. When an input reports it, the step's function chooses the next step. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/decide/jobs.h"
#include "aggregator/core/decide/require.h"
#include "aggregator/core/manifest/conversions.h"

#define DELAY_MAX (4 * MRD_SEC)
/* how long agents may need to reconnect after a restart of the aggregator: the longest delay
 * between two attempts, and the time of a hello */
#define COME_BACK    (12 * MRD_SEC)
#define STOP_TIMEOUT MRD_SEC
#define FAIL_TIMEOUT (500 * MRD_MS)

/* Estimates how long a decision takes to reach the last node: it is written to disk, then sent to
 * all nodes. The estimate is twice the latest measured delays. */
static mrd_dur_ns
delay(const mrd_core *core, const mrd_session *session)
{
    mrd_dur_ns both = 2 * (core->save_dur + session->answer);

    return both < DELAY_MAX ? both : DELAY_MAX;
}

/* Sets the next state and step, and writes the manifest. A decision must be on disk before nodes
 * receive it, so that a restarted aggregator continues from it. */
static void
decide(mrd_core *core, mrd_session *session, mrd_session_state state, mrd_session_step step)
{
    session->state = state;
    session->step = step;
    if (mrd_session_is_over(session))
        session->ended = core->now.wall;
    mrd_session_touch(session);
    session->save.awaited = session->save.version;
    mrd_core_save(core, session);
}

/* Returns true when the manifest for which the session waits is written, or when writing it failed.
 * After a failed write, which is logged and retried, the session continues without waiting. */
static bool
is_written(const mrd_session *session)
{
    return session->save.tried >= session->save.awaited;
}

/* ---- Getting the nodes ready ---- */

/* Returns true if the aggregator has just started, and if nodes that the session lacks may still
 * reconnect. The session then waits for these nodes instead of failing. */
static bool
come_back(const mrd_core *core, const mrd_session *session)
{
    uint64_t want = mrd_require_number(session->params.require), alive = 0, away = 0;

    if (core->now.local.ns > core->opened.local.ns + COME_BACK)
        return false;
    for (size_t i = 0; i < core->nodes.n; i++) {
        const mrd_node *node = core->nodes.v[i];

        if (!mrd_select_matches(&session->select, node->instance_id))
            continue;
        alive += mrd_core_is_alive(core, node);
        away += !mrd_core_is_alive(core, node) && mrd_core_is_expected(core, node);
    }
    return alive < want && away > 0;
}

static bool
ask_arm(mrd_core *core, mrd_session *session, mrd_session_step step, mrd_dur_ns timeout)
{
    mrd_dur_ns give_up = core->limits.arm_timeout + core->limits.lead + 5 * MRD_SEC;

    session->survey =
        mrd_core_ask(core, session, MRD__CONTROL_TYPE__CONTROL_ARM, NULL, timeout, give_up);
    if (session->survey == 0)
        return false; /* all survey slots are in use, so try again in the next round */
    session->step = step;
    return true;
}

/* Waits until the session's job begins. Then mrd_core_job sets the next step. */
static bool
step_expect(mrd_core *core, mrd_session *session)
{
    if (!session->stop_requested)
        return false;
    mrd_text_set(session->message, sizeof(session->message), "stopped before the job had begun");
    decide(core, session, MRD_SESSION_FAILED, MRD_STEP_FAIL);
    return true;
}

void
mrd_session_join(mrd_core *core, mrd_session *session)
{
    decide(core, session, MRD_SESSION_RECORDING, MRD_STEP_JOIN);
}

static bool
step_wait(mrd_core *core, mrd_session *session)
{
    if (core->now.local.ns < session->arm_from.ns || come_back(core, session))
        return false;
    return ask_arm(core, session, MRD_STEP_ARM, core->limits.arm_timeout / 4);
}

static void
begin(mrd_core *core, mrd_session *session, const mrd_survey *survey)
{
    mrd_dur_ns lead;

    session->answer = survey == NULL ? 0 : survey->last.ns - survey->began.ns;
    lead = core->limits.lead + delay(core, session);
    session->go.ns = mrd_core_session_now(core).ns + lead;
    decide(core, session, MRD_SESSION_RECORDING, MRD_STEP_GO);
}

/*
 * Waits until all nodes have answered "get ready", or until the deadline. Nodes without an answer
 * are asked again after a quarter and after half of the time. A new node misses the first survey,
 * because its control connection comes a moment after its data connection. A node that is armed
 * already ignores the repetition.
 */
static bool
step_arm(mrd_core *core, mrd_session *session)
{
    mrd_survey *survey = mrd_core_survey(core, session->survey);
    bool all = survey == NULL || survey->answered >= survey->asked;

    if (!all && core->now.local.ns < survey->deadline.ns)
        return false;
    if (!all && session->step != MRD_STEP_ARM_LAST) {
        bool second = session->step == MRD_STEP_ARM;

        mrd_core_survey_end(core, survey);
        return ask_arm(core, session, second ? MRD_STEP_ARM_AGAIN : MRD_STEP_ARM_LAST,
                       core->limits.arm_timeout / (second ? 4 : 2)) ||
               (session->step = MRD_STEP_WAIT, false);
    }
    mrd_require_mark_absent(core, session);
    if (mrd_require_is_met(session))
        begin(core, session, survey);
    else
        decide(core, session, MRD_SESSION_FAILED, MRD_STEP_FAIL);
    if (survey != NULL)
        mrd_core_survey_end(core, survey);
    session->survey = 0;
    return true;
}

static bool
step_fail(mrd_core *core, mrd_session *session)
{
    if (!is_written(session))
        return false;
    mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-SESSION-FAILED",
                    "A session was not started: id=%s reason=%s", session->text, session->message);
    (void) mrd_core_ask(core, session, MRD__CONTROL_TYPE__CONTROL_CANCEL, NULL, FAIL_TIMEOUT, 0);
    session->step = MRD_STEP_OVER;
    return true;
}

static bool
step_go(mrd_core *core, mrd_session *session)
{
    mrd_dur_ns left = session->go.ns - mrd_core_session_now(core).ns;

    if (!is_written(session))
        return false;
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-SESSION-GO",
                    "A session starts: id=%s name=%s nodes=%u refused=%u", session->text,
                    session->params.name, mrd_session_count(session, MRD_PART_ARMED),
                    mrd_session_count(session, MRD_PART_REFUSED));
    /* a node that misses the survey receives the start with the answer to its heartbeat */
    session->step = MRD_STEP_RECORD;
    (void) mrd_core_ask(core, session, MRD__CONTROL_TYPE__CONTROL_GO, NULL,
                        left > STOP_TIMEOUT ? left : STOP_TIMEOUT, 0);
    return true;
}

/* ---- Recording ---- */

/* Stops a session that has become too large, in the same way as a user would. So its nodes still
 * send the events that they hold. */
static void
bound_size(mrd_core *core, mrd_session *session)
{
    if (core->limits.session_bytes == 0 || session->stop_requested ||
        mrd_session_bytes(session) + session->artifact_bytes <=
            (uint64_t) core->limits.session_bytes)
        return;
    session->stop_requested = true;
    mrd_session_touch(session);
    core->stats.limited[MRD_LIMIT_SESSION_SIZE]++;
    snprintf(session->message, sizeof(session->message),
             "stopped: it reached the %lld MB that --session-size allows",
             (long long) (core->limits.session_bytes / 1000000));
    mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-SESSION-SIZE",
                    "A session is stopped: id=%s reason=%s", session->text, session->message);
}

/* Returns true if a trigger has not been sent yet. It is sent only after a manifest with it is on
 * disk. */
static bool
has_unsent_trigger(const mrd_session *session)
{
    for (size_t i = 0; i < session->n_triggers; i++)
        if (!session->triggers[i].sent)
            return true;
    return false;
}

static bool
step_record(mrd_core *core, mrd_session *session)
{
    int64_t now = mrd_core_session_now(core).ns, end = session->go.ns + session->params.duration;

    mrd_session_gather_reports(core, session);
    mrd_session_send_triggers(core, session);
    mrd_session_send_change(core, session);
    bound_size(core, session);
    if (session->of_job.key.text[0] != '\0' && !session->stop_requested &&
        mrd_job_is_over(core, session))
        session->stop_requested = true;
    if (!session->stop_requested &&
        (session->params.duration == 0 || now < end - core->limits.lead - delay(core, session)))
        return false;
    /* A node that stops recording discards the memory of its flight recorder. So all triggers must
     * have been sent before. */
    if (has_unsent_trigger(session))
        return false;
    session->stop.ns =
        session->stop_requested ? now + core->limits.lead / 4 + delay(core, session) : end;
    /* A reboot of the aggregator's machine begins another timeline. Then the start and stop times
     * cannot be compared. */
    if (session->stop.ns < session->go.ns &&
        strcmp(session->timeline, core->timescale.timeline) == 0)
        session->stop.ns = session->go.ns;
    session->flush_deadline.ns =
        core->now.local.ns + (session->stop.ns - now) + core->limits.flush_timeout;
    decide(core, session, MRD_SESSION_STOPPING, MRD_STEP_STOP);
    return true;
}

static bool
step_stop(mrd_core *core, mrd_session *session)
{
    if (!is_written(session))
        return false;
    session->step = MRD_STEP_FLUSH;
    (void) mrd_core_ask(core, session, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, STOP_TIMEOUT, 0);
    return true;
}

static void
give_up(mrd_core *core, mrd_session *session, mrd_part *part)
{
    const mrd_node *node = mrd_nodes_by_id(&core->nodes, part->instance_id);

    part->state = MRD_PART_LOST;
    if (node != NULL) /* if the node's entry was removed, `lost` already has the time */
        part->lost = node->seen_wall;
    snprintf(part->message, sizeof(part->message), "%s",
             node != NULL && mrd_core_is_alive(core, node)
                 ? "the agent was still sending when --advanced.flush-timeout was over"
                 : "the agent disconnected before all of its data had arrived");
    mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-NODE-LOST",
                    "A session no longer waits for a node: session=%s node=%s reason=%s",
                    session->text, part->instance_id, part->message);
}

/* Waits until each node has sent all its events (is flushed) or is lost. */
static bool
step_flush(mrd_core *core, mrd_session *session)
{
    bool late = core->now.local.ns > session->flush_deadline.ns;

    for (size_t i = 0; i < session->n_parts; i++) {
        if (mrd_part_is_over(session->parts[i]))
            continue;
        if (!late && !mrd_job_part_is_gone(core, session, session->parts[i]))
            return false;
        give_up(core, session, session->parts[i]);
    }
    decide(core, session, MRD_SESSION_MERGING, MRD_STEP_CLOSE);
    return true;
}

/* ---- Closing the journals and merging ---- */

static void
begin_merge(mrd_core *core, mrd_session *session)
{
    session->job = (mrd_merge_job){ .state = MRD_MERGE_WAITING };
    for (size_t i = 0; i < session->n_parts; i++)
        session->job.total += session->parts[i]->events;
    mrd_effects_add(&core->out, MRD_DO_MERGE)->session = session;
}

/* Merges a complete session again. Its manifest on disk says that profile and export are done, and
 * a restarted aggregator would believe that. So the merge begins only after a manifest is on disk
 * that says that both are pending. */
void
mrd_core_merge_again(mrd_core *core, mrd_session *session)
{
    mrd_session_copy_again(session);
    mrd_session_touch(session);
    session->job = (mrd_merge_job){ .state = MRD_MERGE_WAITING, .after = session->save.version };
    mrd_core_save(core, session);
}

static bool
step_close(mrd_core *core, mrd_session *session)
{
    if (!session->closed)
        return false; /* waits until the journals are closed, because the merge reads them */
    if (session->params.merge) {
        begin_merge(core, session);
        session->step = MRD_STEP_MERGE;
    } else {
        decide(core, session, MRD_SESSION_COMPLETE, MRD_STEP_END);
    }
    return true;
}

static bool
step_merge(mrd_core *core, mrd_session *session)
{
    if (mrd_session_is_merging(session))
        return false;
    decide(core, session, MRD_SESSION_COMPLETE, MRD_STEP_END);
    return true;
}

static bool
step_end(mrd_core *core, mrd_session *session)
{
    if (!is_written(session))
        return false;
    session->step = MRD_STEP_OVER;
    mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-SESSION-DONE", "A session is complete: id=%s",
                    session->text);
    return true;
}

/* Requests to close the journals of a session that accepts no more frames. When they are closed,
 * requests to measure the size of the session's directory. */
static void
put_away(mrd_core *core, mrd_session *session)
{
    if (session->state >= MRD_SESSION_MERGING && !session->closing && !session->closed) {
        session->closing = true;
        mrd_effects_add(&core->out, MRD_DO_CLOSE)->session = session;
    }
    if (session->closed && !session->measured && !session->measuring) {
        session->measuring = session->measured = true;
        mrd_effects_add(&core->out, MRD_DO_MEASURE)->session = session;
    }
}

/* ---- Exporting the session ---- */

/* Starts the export of a session that is complete and merged. Also retries a failed export when its
 * time has come. */
static void
send_copy(mrd_core *core, mrd_session *session)
{
    if (!mrd_session_is_exported(session, core->limits.exports) || session->step != MRD_STEP_OVER ||
        session->state != MRD_SESSION_COMPLETE || session->deleted || !session->closed ||
        mrd_session_is_merging(session) || mrd_conversions_are_open(&session->conversions) ||
        (session->copy.state != MRD_EXPORT_NONE &&
         (session->copy.state != MRD_EXPORT_FAILED || core->now.local.ns < session->copy.again.ns)))
        return;
    session->copy.state = MRD_EXPORT_PENDING;
    mrd_session_touch(session);
    mrd_effects_add(&core->out, MRD_DO_EXPORT)->session = session;
}

static bool
step(mrd_core *core, mrd_session *session)
{
    switch (session->step) {
    case MRD_STEP_EXPECT:
        return step_expect(core, session);
    case MRD_STEP_JOIN:
        return is_written(session) && (session->step = MRD_STEP_RECORD, true);
    case MRD_STEP_WAIT:
        return step_wait(core, session);
    case MRD_STEP_ARM:
    case MRD_STEP_ARM_AGAIN:
    case MRD_STEP_ARM_LAST:
        return step_arm(core, session);
    case MRD_STEP_GO:
        return step_go(core, session);
    case MRD_STEP_RECORD:
        return step_record(core, session);
    case MRD_STEP_STOP:
        return step_stop(core, session);
    case MRD_STEP_FLUSH:
        return step_flush(core, session);
    case MRD_STEP_CLOSE:
        return step_close(core, session);
    case MRD_STEP_MERGE:
        return step_merge(core, session);
    case MRD_STEP_END:
        return step_end(core, session);
    case MRD_STEP_FAIL:
        return step_fail(core, session);
    default: /* no step to take: mrd_core_saved ends step NEW, and step OVER is the last one */
        return false;
    }
}

void
mrd_session_run(mrd_core *core, mrd_session *session)
{
    /* a session for a job is not armed, because the job already runs */
    if (session->step == MRD_STEP_NEW && session->save.durable > 0)
        session->step = session->of_job.key.text[0] != '\0'  ? MRD_STEP_RECORD
                        : mrd_session_waits_for_job(session) ? MRD_STEP_EXPECT
                                                             : MRD_STEP_WAIT;
    while (mrd_effects_room(&core->out, 16) && step(core, session))
        ;
    if (mrd_effects_room(&core->out, 2))
        put_away(core, session);
    if (session->job.after != 0 && session->save.durable >= session->job.after &&
        mrd_effects_room(&core->out, 2))
        begin_merge(core, session);
    mrd_session_convert(core, session);
    if (mrd_effects_room(&core->out, 2))
        send_copy(core, session);
}
