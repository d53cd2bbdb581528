/* The steps of a session: arm, start, record, stop, flush, close, merge. A decision begins each
 * step. The step waits for its end, and an input moves the session to the next step. */
#include "aggregator/core/model/state.h"

#include <stdio.h>

#include "aggregator/core/common/text.h"
#include "aggregator/core/decide/jobs.h"
#include "aggregator/core/decide/require.h"
#include "aggregator/core/manifest/conversions.h"

#define DELAY_MAX    (4 * MRD_SEC)
#define COME_BACK    (12 * MRD_SEC) /* the longest backoff of an agent, plus its hello */
#define STOP_TIMEOUT MRD_SEC
#define FAIL_TIMEOUT (500 * MRD_MS)

/* Returns the time between a decision and its arrival at the last node. The decision is written to
 * disk first, and a thousand nodes do not receive it at once. Assumes at most twice the delays seen
 * last time. */
static mrd_dur_ns
delay(const mrd_core *c, const mrd_session *s)
{
    mrd_dur_ns both = 2 * (c->save_dur + s->answer);

    return both < DELAY_MAX ? both : DELAY_MAX;
}

/* A decision is on disk before it is sent, so that a restart can continue from it. */
static void
decide(mrd_core *c, mrd_session *s, mrd_session_state state, mrd_session_step step)
{
    s->state = state;
    s->step = step;
    if (mrd_session_is_over(s))
        s->ended = c->now.wall;
    mrd_session_touch(s);
    s->save.awaited = s->save.version;
    mrd_core_save(c, s);
}

/* A failing disk is logged and retried, but does not block a session for ever. */
static bool
is_written(const mrd_session *s)
{
    return s->save.tried >= s->save.awaited;
}

/* ---- Getting ready ---- */

/* Returns true if the aggregator has just started and nodes of its registry may still reconnect. A
 * session that lacks nodes then waits a little instead of failing. */
static bool
come_back(const mrd_core *c, const mrd_session *s)
{
    uint64_t want = mrd_require_number(s->params.require), alive = 0, away = 0;

    if (c->now.local.ns > c->opened.local.ns + COME_BACK)
        return false;
    for (size_t i = 0; i < c->nodes.n; i++) {
        const mrd_node *n = c->nodes.v[i];

        if (!mrd_select_matches(&s->select, n->instance_id))
            continue;
        alive += mrd_core_is_alive(c, n);
        away += !mrd_core_is_alive(c, n) && mrd_core_is_expected(c, n);
    }
    return alive < want && away > 0;
}

static bool
ask_arm(mrd_core *c, mrd_session *s, mrd_session_step step, mrd_dur_ns timeout)
{
    mrd_dur_ns give_up = c->limits.arm_timeout + c->limits.lead + 5 * MRD_SEC;

    s->survey = mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_ARM, NULL, timeout, give_up);
    if (s->survey == 0)
        return false; /* all survey slots are in use; try again in the next round */
    s->step = step;
    return true;
}

/* mrd_core_job continues from here. */
static bool
step_expect(mrd_core *c, mrd_session *s)
{
    if (!s->stop_requested)
        return false;
    mrd_text_set(s->message, sizeof(s->message), "stopped before the job had begun");
    decide(c, s, MRD_SESSION_FAILED, MRD_STEP_FAIL);
    return true;
}

void
mrd_session_join(mrd_core *c, mrd_session *s)
{
    decide(c, s, MRD_SESSION_RECORDING, MRD_STEP_JOIN);
}

static bool
step_wait(mrd_core *c, mrd_session *s)
{
    if (c->now.local.ns < s->arm_from.ns || come_back(c, s))
        return false;
    return ask_arm(c, s, MRD_STEP_ARM, c->limits.arm_timeout / 4);
}

static void
begin(mrd_core *c, mrd_session *s, const mrd_survey *v)
{
    mrd_dur_ns lead;

    s->answer = v == NULL ? 0 : v->last.ns - v->began.ns;
    lead = c->limits.lead + delay(c, s);
    s->go.ns = mrd_core_session_now(c).ns + lead;
    decide(c, s, MRD_SESSION_RECORDING, MRD_STEP_GO);
}

/*
 * Ends when all nodes answered or the time is over. Nodes that did not answer are asked again after
 * a quarter and after half of the time. This is needed because a new node's control connection is
 * made a moment after its data connection and misses the first question. Arming twice has no
 * effect.
 */
static bool
step_arm(mrd_core *c, mrd_session *s)
{
    mrd_survey *v = mrd_core_survey(c, s->survey);
    bool all = v == NULL || v->answered >= v->asked;

    if (!all && c->now.local.ns < v->deadline.ns)
        return false;
    if (!all && s->step != MRD_STEP_ARM_LAST) {
        bool second = s->step == MRD_STEP_ARM;

        mrd_core_survey_end(c, v);
        return ask_arm(c, s, second ? MRD_STEP_ARM_AGAIN : MRD_STEP_ARM_LAST,
                       c->limits.arm_timeout / (second ? 4 : 2)) ||
               (s->step = MRD_STEP_WAIT, false);
    }
    mrd_require_mark_absent(c, s);
    if (mrd_require_is_met(s))
        begin(c, s, v);
    else
        decide(c, s, MRD_SESSION_FAILED, MRD_STEP_FAIL);
    if (v != NULL)
        mrd_core_survey_end(c, v);
    s->survey = 0;
    return true;
}

static bool
step_fail(mrd_core *c, mrd_session *s)
{
    if (!is_written(s))
        return false;
    mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-SESSION-FAILED",
                    "A session was not started: id=%s reason=%s", s->text, s->message);
    (void) mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_CANCEL, NULL, FAIL_TIMEOUT, 0);
    s->step = MRD_STEP_OVER;
    return true;
}

static bool
step_go(mrd_core *c, mrd_session *s)
{
    mrd_dur_ns left = s->go.ns - mrd_core_session_now(c).ns;

    if (!is_written(s))
        return false;
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-SESSION-GO",
                    "A session starts: id=%s name=%s nodes=%u refused=%u", s->text, s->params.name,
                    mrd_session_count(s, MRD_PART_ARMED), mrd_session_count(s, MRD_PART_REFUSED));
    /* a node that misses the survey receives the start with its heartbeat */
    s->step = MRD_STEP_RECORD;
    (void) mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_GO, NULL,
                        left > STOP_TIMEOUT ? left : STOP_TIMEOUT, 0);
    return true;
}

/* ---- Recording ---- */

/* A session that is too large is stopped in the same way as by a user, so that its nodes still send
 * the events that they hold. */
static void
bound_size(mrd_core *c, mrd_session *s)
{
    if (c->limits.session_bytes == 0 || s->stop_requested ||
        mrd_session_bytes(s) + s->artifact_bytes <= (uint64_t) c->limits.session_bytes)
        return;
    s->stop_requested = true;
    mrd_session_touch(s);
    c->stats.limited[MRD_LIMIT_SESSION_SIZE]++;
    snprintf(s->message, sizeof(s->message),
             "stopped: it reached the %lld MB that --session-size allows",
             (long long) (c->limits.session_bytes / 1000000));
    mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-SESSION-SIZE",
                    "A session is stopped: id=%s reason=%s", s->text, s->message);
}

static bool
step_record(mrd_core *c, mrd_session *s)
{
    int64_t now = mrd_core_session_now(c).ns, end = s->go.ns + s->params.duration;

    mrd_session_gather_reports(c, s);
    mrd_session_send_triggers(c, s);
    mrd_session_send_change(c, s);
    bound_size(c, s);
    if (s->of_job.key.text[0] != '\0' && !s->stop_requested && mrd_job_is_over(c, s))
        s->stop_requested = true;
    if (!s->stop_requested && (s->params.duration == 0 || now < end - c->limits.lead - delay(c, s)))
        return false;
    s->stop.ns = s->stop_requested ? now + c->limits.lead / 4 + delay(c, s) : end;
    /* A start by the clock of an earlier boot may seem to be in the future. */
    if (s->stop.ns < s->go.ns && strcmp(s->timeline, c->timescale.timeline) == 0)
        s->stop.ns = s->go.ns;
    s->flush_deadline.ns = c->now.local.ns + (s->stop.ns - now) + c->limits.flush_timeout;
    decide(c, s, MRD_SESSION_STOPPING, MRD_STEP_STOP);
    return true;
}

static bool
step_stop(mrd_core *c, mrd_session *s)
{
    if (!is_written(s))
        return false;
    s->step = MRD_STEP_FLUSH;
    (void) mrd_core_ask(c, s, MRD__CONTROL_TYPE__CONTROL_STOP, NULL, STOP_TIMEOUT, 0);
    return true;
}

static void
give_up(mrd_core *c, mrd_session *s, mrd_part *p)
{
    const mrd_node *n = mrd_nodes_by_id(&c->nodes, p->instance_id);

    p->state = MRD_PART_LOST;
    if (n != NULL) /* otherwise the node was removed, and that time is recorded */
        p->lost = n->seen_wall;
    snprintf(p->message, sizeof(p->message), "%s",
             n != NULL && mrd_core_is_alive(c, n)
                 ? "the agent was still sending when --advanced.flush-timeout was over"
                 : "the agent disconnected before all of its data had arrived");
    mrd_effects_log(&c->out, MRD_LOG_WARN, "AGG-NODE-LOST",
                    "A session no longer waits for a node: session=%s node=%s reason=%s", s->text,
                    p->instance_id, p->message);
}

/* The step ends when every part is flushed or lost. */
static bool
step_flush(mrd_core *c, mrd_session *s)
{
    bool late = c->now.local.ns > s->flush_deadline.ns;

    for (size_t i = 0; i < s->n_parts; i++) {
        if (mrd_part_is_over(s->parts[i]))
            continue;
        if (!late && !mrd_job_part_is_gone(c, s, s->parts[i]))
            return false;
        give_up(c, s, s->parts[i]);
    }
    decide(c, s, MRD_SESSION_MERGING, MRD_STEP_CLOSE);
    return true;
}

/* ---- The end ---- */

static void
begin_merge(mrd_core *c, mrd_session *s)
{
    s->job = (mrd_merge_job){ .state = MRD_MERGE_WAITING };
    for (size_t i = 0; i < s->n_parts; i++)
        s->job.total += s->parts[i]->events;
    mrd_effects_add(&c->out, MRD_DO_MERGE)->session = s;
}

/* The manifest says that the profile and the export are done. If the process were killed before it
 * received the new profile, a successor would believe that. So the manifest withdraws both on disk
 * before the merge begins, and a successor merges again. */
void
mrd_core_merge_again(mrd_core *c, mrd_session *s)
{
    mrd_session_copy_again(s);
    mrd_session_touch(s);
    s->job = (mrd_merge_job){ .state = MRD_MERGE_WAITING, .after = s->save.version };
    mrd_core_save(c, s);
}

static bool
step_close(mrd_core *c, mrd_session *s)
{
    if (!s->closed)
        return false; /* the files with its acknowledged frames must be closed first */
    if (s->params.merge) {
        begin_merge(c, s);
        s->step = MRD_STEP_MERGE;
    } else {
        decide(c, s, MRD_SESSION_COMPLETE, MRD_STEP_END);
    }
    return true;
}

static bool
step_merge(mrd_core *c, mrd_session *s)
{
    if (mrd_session_is_merging(s))
        return false;
    decide(c, s, MRD_SESSION_COMPLETE, MRD_STEP_END);
    return true;
}

static bool
step_end(mrd_core *c, mrd_session *s)
{
    if (!is_written(s))
        return false;
    s->step = MRD_STEP_OVER;
    mrd_effects_log(&c->out, MRD_LOG_INFO, "AGG-SESSION-DONE", "A session is complete: id=%s",
                    s->text);
    return true;
}

/* Closes the journals of a session that accepts no more frames, and measures a closed session. */
static void
put_away(mrd_core *c, mrd_session *s)
{
    if (s->state >= MRD_SESSION_MERGING && !s->closing && !s->closed) {
        s->closing = true;
        mrd_effects_add(&c->out, MRD_DO_CLOSE)->session = s;
    }
    if (s->closed && !s->measured && !s->measuring) {
        s->measuring = s->measured = true;
        mrd_effects_add(&c->out, MRD_DO_MEASURE)->session = s;
    }
}

/* ---- Its copy on shared storage ---- */

/* Exports a session that is over and merged, and retries failed exports. */
static void
send_copy(mrd_core *c, mrd_session *s)
{
    if (!mrd_session_is_exported(s, c->limits.exports) || s->step != MRD_STEP_OVER ||
        s->state != MRD_SESSION_COMPLETE || s->deleted || !s->closed || mrd_session_is_merging(s) ||
        mrd_conversions_are_open(&s->conversions) ||
        (s->copy.state != MRD_EXPORT_NONE &&
         (s->copy.state != MRD_EXPORT_FAILED || c->now.local.ns < s->copy.again.ns)))
        return;
    s->copy.state = MRD_EXPORT_PENDING;
    mrd_session_touch(s);
    mrd_effects_add(&c->out, MRD_DO_EXPORT)->session = s;
}

static bool
step(mrd_core *c, mrd_session *s)
{
    switch (s->step) {
    case MRD_STEP_EXPECT:
        return step_expect(c, s);
    case MRD_STEP_JOIN:
        return is_written(s) && (s->step = MRD_STEP_RECORD, true);
    case MRD_STEP_WAIT:
        return step_wait(c, s);
    case MRD_STEP_ARM:
    case MRD_STEP_ARM_AGAIN:
    case MRD_STEP_ARM_LAST:
        return step_arm(c, s);
    case MRD_STEP_GO:
        return step_go(c, s);
    case MRD_STEP_RECORD:
        return step_record(c, s);
    case MRD_STEP_STOP:
        return step_stop(c, s);
    case MRD_STEP_FLUSH:
        return step_flush(c, s);
    case MRD_STEP_CLOSE:
        return step_close(c, s);
    case MRD_STEP_MERGE:
        return step_merge(c, s);
    case MRD_STEP_END:
        return step_end(c, s);
    case MRD_STEP_FAIL:
        return step_fail(c, s);
    default: /* NEW waits for mrd_core_saved; OVER waits for nothing */
        return false;
    }
}

void
mrd_session_run(mrd_core *c, mrd_session *s)
{
    /* a job runs already, so no node needs to arm */
    if (s->step == MRD_STEP_NEW && s->save.durable > 0)
        s->step = s->of_job.key.text[0] != '\0'  ? MRD_STEP_RECORD
                  : mrd_session_waits_for_job(s) ? MRD_STEP_EXPECT
                                                 : MRD_STEP_WAIT;
    while (mrd_effects_room(&c->out, 16) && step(c, s))
        ;
    if (mrd_effects_room(&c->out, 2))
        put_away(c, s);
    if (s->job.after != 0 && s->save.durable >= s->job.after && mrd_effects_room(&c->out, 2))
        begin_merge(c, s);
    mrd_session_convert(c, s);
    if (mrd_effects_room(&c->out, 2))
        send_copy(c, s);
}
