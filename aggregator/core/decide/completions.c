/* Handles results of the work that the core requested: answers to a survey, a written manifest, an
 * export, a merge. After each result the session takes all steps that are possible. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"

/* delay before a failed export of a session is retried; doubles after each failure, up to
 * EXPORT_AGAIN_MAX */
#define EXPORT_AGAIN     (5 * MRD_SEC)
#define EXPORT_AGAIN_MAX (300 * MRD_SEC)
#define SAVE_EVERY       MRD_SEC
/* writing a session's manifest may use at most 1/SAVE_SHARE of the time, so a slow write delays the
 * next one */
#define SAVE_SHARE 10

/* ---- Answers to surveys ---- */

static void
take_answer(mrd_core *core, mrd_session *session, const mrd_survey *survey, const mrd_node *node,
            const Mrd__ControlReply *reply)
{
    mrd_part *part = mrd_session_part(session, node->instance_id);

    if (part == NULL && reply->selected)
        part = mrd_core_add_part(core, session, node);
    if (part != NULL && reply->type == MRD__CONTROL_TYPE__CONTROL_ARM &&
        session->state == MRD_SESSION_ARMING) {
        bool refused = reply->phase == MRD__NODE_PHASE__NODE_REFUSED || reply->err != 0;

        part->state = refused ? MRD_PART_REFUSED : MRD_PART_ARMED;
        part->err = (mrd_err) reply->err;
        mrd_text_set(part->message, sizeof(part->message), reply->message);
        mrd_clock_quality_take(&part->clock, reply->clock);
    }
    if (part != NULL && reply->type == MRD__CONTROL_TYPE__CONTROL_TRIGGER && reply->err == 0)
        mrd_session_acknowledge_ids(session, part, &survey->trigger, 1);
    if (part != NULL && reply->type == MRD__CONTROL_TYPE__CONTROL_CHANGE && reply->err == 0 &&
        survey->revision > part->revision)
        part->revision = survey->revision;
    if (part != NULL && reply->type == MRD__CONTROL_TYPE__CONTROL_CHANGE && reply->err != 0) {
        part->unchangeable = reply->err == MRD_UNSUPPORTED ? node->run : 0;
        mrd_text_set(part->message, sizeof(part->message), reply->message);
    }
    mrd_session_touch(session);
}

void
mrd_core_answered(mrd_core *core, mrd_core_time now, uint64_t survey,
                  const Mrd__ControlReply *reply)
{
    mrd_survey *v;
    mrd_session *session;
    const mrd_node *node;

    mrd_core_enter(core, now);
    v = mrd_core_survey(core, survey);
    node = mrd_nodes_by_id(&core->nodes, reply->instance_id);
    if (v == NULL || node == NULL || node->run != reply->run || reply->type != v->type ||
        mrd_map_get(&v->answered_by, mrd_id_key(node->instance_id)) != MRD_MAP_NONE ||
        (session = mrd_core_session(core, v->session)) == NULL)
        return;
    (void) mrd_map_put(&v->answered_by, mrd_id_key(node->instance_id), 1);
    v->last = now.local;
    v->answered++;
    take_answer(core, session, v, node, reply);
    if (v->answered < v->asked)
        return;
    if (session->survey == v->id)
        mrd_session_run(core, session);
    else
        mrd_core_survey_end(core, v);
}

/* ---- Written manifests ---- */

/* Undoes the creation of a session whose first manifest could not be written. */
static void
undo_start(mrd_core *core, mrd_session *session, const mrd_why *failed)
{
    session->state = MRD_SESSION_FAILED;
    session->step = MRD_STEP_OVER;
    session->closed = true;
    mrd_text_set(session->message, sizeof(session->message), failed->text);
    /* this also removes the session's directory, if it was created */
    mrd_core_retire(core, session);
}

void
mrd_core_saved(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t version,
               const mrd_why *failed)
{
    mrd_session *s;
    mrd_dur_ns took;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL || s->save.writing != version)
        return;
    took = now.local.ns - s->save.began.ns;
    s->save.writing = 0;
    s->save.tried = version;
    s->save.durable = failed == NULL ? version : s->save.durable;
    s->save.next.ns = now.local.ns + (SAVE_SHARE * took > SAVE_EVERY ? SAVE_SHARE * took : 0);
    core->save_dur = took;
    /* the write is retried every second, so only the first failure is logged */
    if (failed != NULL && !core->manifest_failed)
        mrd_effects_log(&core->out, MRD_LOG_ERROR, "AGG-MANIFEST",
                        "A session's manifest was not written: session=%s reason=%s", s->text,
                        failed->text);
    core->manifest_failed = failed != NULL;
    mrd_core_answer_waiting(core, session, version, failed);
    if (s->deleted)
        return;
    if (failed != NULL && s->step == MRD_STEP_NEW) {
        undo_start(core, s, failed);
        return;
    }
    if (s->save.urgent && s->save.tried < s->save.version)
        mrd_core_save(core, s);
    mrd_session_send_triggers(core, s);
    mrd_session_send_change(core, s);
    mrd_session_run(core, s);
}

/* ---- Finished exports ---- */

void
mrd_core_export_began(mrd_core *core, mrd_core_time now, uint64_t session)
{
    mrd_session *s;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) != NULL && s->copy.state == MRD_EXPORT_PENDING)
        s->copy.state = MRD_EXPORT_RUNNING;
}

void
mrd_core_export_stalled(mrd_core *core, mrd_core_time now, uint64_t session, const char *target,
                        mrd_dur_ns quiet)
{
    mrd_session *s;
    char text[MRD_WHY_MAX] = "";

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL)
        return;
    if (target != NULL)
        snprintf(text, sizeof(text),
                 "the target %.400s has not answered for %lld s: the export goes on when it does",
                 target, (long long) (quiet / MRD_SEC));
    mrd_text_set(s->copy.message, sizeof(s->copy.message), text);
    mrd_session_touch(s);
    if (target != NULL)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-EXPORT-STALLED",
                        "An export waits for its target, see whether its file system hangs: id=%s "
                        "target=%s quiet_s=%lld",
                        s->text, target, (long long) (quiet / MRD_SEC));
    else
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-EXPORT-ANSWERS",
                        "The target of an export answers again: id=%s", s->text);
}

void
mrd_core_exported(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t files,
                  uint64_t bytes, const mrd_why *failed)
{
    mrd_session *s;
    mrd_dur_ns wait = EXPORT_AGAIN;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL)
        return;
    s->copy.state = failed != NULL ? MRD_EXPORT_FAILED
                    : s->copy.old  ? MRD_EXPORT_NONE
                                   : MRD_EXPORT_DONE;
    s->copy.old = false;
    s->copy.files = files;
    s->copy.bytes = bytes;
    s->copy.attempts = failed == NULL ? 0 : s->copy.attempts + 1;
    for (unsigned i = 1; i < s->copy.attempts && wait < EXPORT_AGAIN_MAX; i++)
        wait *= 2;
    s->copy.again.ns = now.local.ns + (wait < EXPORT_AGAIN_MAX ? wait : EXPORT_AGAIN_MAX);
    mrd_text_set(s->copy.message, sizeof(s->copy.message), failed == NULL ? "" : failed->text);
    mrd_session_touch(s);
    if (failed != NULL)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-EXPORT",
                        "A session was not exported, the next attempt is in %lld s: id=%s "
                        "attempts=%u reason=%s",
                        (long long) ((s->copy.again.ns - now.local.ns) / MRD_SEC), s->text,
                        s->copy.attempts, failed->text);
    else
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-EXPORTED",
                        "A session was exported: id=%s files=%llu bytes=%llu", s->text,
                        (unsigned long long) files, (unsigned long long) bytes);
}

/* ---- Closed journals and finished merges ---- */

void
mrd_core_closed(mrd_core *core, mrd_core_time now, uint64_t session)
{
    mrd_session *s;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL)
        return;
    s->closing = false;
    s->closed = true;
    if (!s->deleted)
        mrd_session_run(core, s);
}

void
mrd_core_merge_progress(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t events)
{
    mrd_session *s;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL || !mrd_session_is_merging(s))
        return;
    s->job.state = MRD_MERGE_RUNNING;
    s->job.events = events;
}

/* Stores in the session what its merge found out about the nodes' clocks, and logs
 * contradictions. */
static void
take_verdict(mrd_core *core, mrd_session *session, mrd_clock_verdict *verdict)
{
    core->stats.clock_held_out += verdict->held_out;
    core->stats.clock_held_out_violations += verdict->held_out_violations;
    core->stats.clock_absolute += verdict->absolute;
    core->stats.clock_absolute_violations += verdict->absolute_violations;
    core->stats.clock_collectives += verdict->collectives.collectives;
    core->stats.clock_collective_violations += verdict->collectives.violations;
    if (mrd_clock_verdict_violations(verdict) > 0)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-CLOCK-VIOLATION",
                        "A session's clocks contradict their bounds: id=%s held_out=%llu "
                        "absolute=%llu collectives=%zu links=%llu",
                        session->text, (unsigned long long) verdict->held_out_violations,
                        (unsigned long long) verdict->absolute_violations,
                        verdict->collectives.violations,
                        (unsigned long long) verdict->link_violations);
    mrd_clock_verdict_fini(&session->verdict);
    session->verdict = *verdict;
    *verdict = (mrd_clock_verdict){ 0 };
}

void
mrd_core_part_damaged(mrd_core *core, mrd_session *session, mrd_part *part, const mrd_damage *found,
                      bool whole)
{
    if (!mrd_part_damaged(part, found, whole))
        return;
    mrd_session_touch(session);
    if (part->damage.events > 0 || part->damage.frames > 0)
        mrd_effects_log(&core->out, MRD_LOG_ERROR, "AGG-JOURNAL-DAMAGE",
                        "Stored events cannot be read back: session=%s node=%s events=%llu "
                        "frames=%llu",
                        session->text, part->instance_id, (unsigned long long) part->damage.events,
                        (unsigned long long) part->damage.frames);
    if (part->damage.foreign > 0)
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-FOREIGN",
                        "Batches name another node and are shown as of the node that sent them: "
                        "session=%s node=%s batches=%llu",
                        session->text, part->instance_id,
                        (unsigned long long) part->damage.foreign);
}

void
mrd_core_damaged(mrd_core *core, mrd_core_time now, uint64_t session, const char *instance_id,
                 const mrd_damage *found, bool whole)
{
    mrd_session *s;
    mrd_part *part;

    mrd_core_enter(core, now);
    if ((s = mrd_core_session(core, session)) != NULL &&
        (part = mrd_session_part(s, instance_id)) != NULL)
        mrd_core_part_damaged(core, s, part, found, whole);
}

void
mrd_core_merged(mrd_core *core, mrd_core_time now, uint64_t session, mrd_merge_state state,
                uint64_t events, mrd_clock_verdict *verdict, const mrd_why *why)
{
    mrd_session *s;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL)
        return;
    s->job.state = state;
    s->job.events = events;
    mrd_session_copy_again(s);
    if (state == MRD_MERGE_DONE && verdict != NULL)
        take_verdict(core, s, verdict);
    if (state == MRD_MERGE_FAILED) {
        mrd_text_set(s->job.message, sizeof(s->job.message), why->text);
        mrd_effects_log(&core->out, MRD_LOG_WARN, "AGG-MERGE",
                        "A session was not merged: id=%s reason=%s", s->text, why->text);
    }
    s->measured = false;
    mrd_session_touch(s);
    if (!s->deleted)
        mrd_session_run(core, s);
}

void
mrd_core_measured(mrd_core *core, mrd_core_time now, uint64_t session, uint64_t bytes)
{
    mrd_session *s;

    mrd_core_enter(core, now);
    if ((s = mrd_core_any_session(core, session)) == NULL)
        return;
    s->measuring = false;
    s->folder_bytes = bytes;
}
