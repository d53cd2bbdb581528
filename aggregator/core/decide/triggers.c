/* Triggers of flight recorders: windows of time that all nodes keep. A trigger is sent when it is
 * on disk: first by a survey, then with heartbeats to nodes that missed it. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "base/vec.h"

#define REPORT_WINDOW (20 * MRD_SEC)
#define REPORT_GATHER (500 * MRD_MS)
#define REPORT_PERIOD MRD_SEC
/* a node that misses the survey receives the trigger with its heartbeats */
#define ASK_TIMEOUT MRD_SEC

mrd_err
mrd_session_add_trigger(mrd_session *s, const mrd_trigger *t, mrd_why *why)
{
    if (s->n_triggers >= MRD_TRIGGERS_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "session %s was triggered %d times: start a new one",
                           s->text, MRD_TRIGGERS_MAX);
    if (!MRD_VEC_NEXT(s->triggers, s->n_triggers))
        return mrd_why_set(why, MRD_NOMEM, 0, "trigger");
    mrd_session_touch(s);
    s->triggers[s->n_triggers] = *t;
    s->triggers[s->n_triggers++].version = s->save.version;
    return MRD_OK;
}

/* A session accepts triggers as soon as its state is "recording". The nodes receive the trigger
 * when the start is on disk. */
static bool
is_triggered(const mrd_session *s, uint64_t id)
{
    return !s->deleted && mrd_session_is_recorder(s) &&
           (s->step == MRD_STEP_GO || s->step == MRD_STEP_RECORD) && (id == 0 || s->id == id);
}

/* All reports within half a second, from all nodes, become one trigger, and a session has at most
 * one trigger a second. No report is lost, because the window ends after the last of them. */
void
mrd_session_report(mrd_core *c, mrd_session *s, const mrd_node *n, const char *reason)
{
    int64_t now = mrd_core_session_now(c).ns;

    if (!is_triggered(s, 0) || s->report_at.ns != 0 || mrd_session_part(s, n->instance_id) == NULL)
        return;
    s->report_at.ns = now + REPORT_GATHER;
    if (s->report_last.ns != 0 && s->report_at.ns < s->report_last.ns + REPORT_PERIOD)
        s->report_at.ns = s->report_last.ns + REPORT_PERIOD;
    snprintf(s->report, sizeof(s->report), "%.100s: %.150s", n->instance_id, reason);
}

void
mrd_session_gather_reports(mrd_core *c, mrd_session *s)
{
    mrd_trigger t = { .to = mrd_core_session_now(c) };
    mrd_why why = { 0 };

    if (s->report_at.ns == 0 || t.to.ns < s->report_at.ns)
        return;
    s->report_at.ns = 0;
    s->report_last = t.to;
    t.from.ns =
        t.to.ns - (s->params.recorder_ns < REPORT_WINDOW ? s->params.recorder_ns : REPORT_WINDOW);
    t.id = mrd_core_random(c);
    mrd_text_set(t.reason, sizeof(t.reason), s->report);
    if (mrd_session_add_trigger(s, &t, &why) != MRD_OK) {
        mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-TRIGGER",
                        "A trigger was refused: session=%s reason=%s", s->text, why.text);
        return;
    }
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-TRIGGER",
                    "A flight recorder's window is collected: session=%s reason=%s", s->text,
                    t.reason);
    mrd_core_save(c, s);
}

/* Returns true while nodes still receive the start. Surveys of a session run in parallel, so a
 * trigger could reach a node that does not have the session yet. */
static bool
is_starting(const mrd_core *c, const mrd_session *s)
{
    for (size_t i = 0; i < MRD_SURVEYS_MAX; i++)
        if (c->surveys[i].id != 0 && c->surveys[i].session == s->id &&
            c->surveys[i].type == MRD__CONTROL_TYPE__CONTROL_GO)
            return true;
    return false;
}

void
mrd_session_send_triggers(mrd_core *c, mrd_session *s)
{
    if (s->step != MRD_STEP_RECORD || is_starting(c, s))
        return;
    for (size_t i = 0; i < s->n_triggers; i++) {
        mrd_trigger *t = &s->triggers[i];

        if (t->sent || t->version > s->save.tried || !mrd_effects_room(&c->out, MRD_EFFECTS_ROOM))
            continue;
        t->sent = true;
        (void) mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_TRIGGER, t, ASK_TIMEOUT, 0);
    }
}

/* Adds to an error how many sessions were triggered, so that users do not repeat the whole command. */
static void
say_others(mrd_why *why, size_t triggered)
{
    mrd_why first = *why;

    if (why->err != MRD_OK && triggered > 0)
        mrd_why_set(why, first.err, 0, "%.400s; %zu other session%s triggered", first.text,
                    triggered, triggered == 1 ? " was" : "s were");
}

void
mrd_core_trigger(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id, mrd_dur_ns last,
                 const char *reason)
{
    mrd_trigger t = { 0 };
    mrd_why why = { 0 }, refused = { 0 };
    size_t triggered = 0, awaited = 0;

    mrd_core_enter(c, now);
    t.to = mrd_core_session_now(c);
    t.from.ns = t.to.ns - last;
    t.id = mrd_core_random(c);
    mrd_text_set(t.reason, sizeof(t.reason), reason);
    /* a failure in one session does not affect the others */
    for (size_t i = 0; i < c->n_sessions; i++) {
        mrd_session *s = c->sessions[i];

        if (!is_triggered(s, id))
            continue;
        if (mrd_session_add_trigger(s, &t, &refused) != MRD_OK) {
            if (why.err == MRD_OK)
                why = refused;
            continue;
        }
        triggered++;
        awaited += mrd_core_await(c, ticket, s, t.id) == MRD_OK;
        mrd_core_save(c, s);
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
        mrd_core_answer(c, ticket, &why, 0);
    else if (why.err != MRD_OK)
        mrd_core_await_failed(c, ticket, &why);
}
