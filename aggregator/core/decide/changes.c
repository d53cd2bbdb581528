/* Changes of a recording session: pauses, and new lists of cores or event types. A change is
 * written to disk, then a survey sends it to all nodes. A node with an older revision also receives
 * the change with the answer to its heartbeat. Surveys are repeated until each node has answered.
 * An old agent does not support changes, and says so only in its answer to a survey. */
#include "aggregator/core/model/state.h"

#include "base/event_type.h"
#include "base/obj.h"

/* Timeout of the first survey about a change, and of each repeated one. A node that misses the
 * survey receives the change with the answer to its heartbeat. */
#define ASK_TIMEOUT   MRD_SEC
#define AGAIN_TIMEOUT (5 * MRD_SEC)
/* Interval between the surveys about a session's change. It exceeds both timeouts, so they never
 * overlap. */
#define AGAIN (6 * MRD_SEC)

static mrd_err
pause_now(mrd_core *core, mrd_session *session, mrd_why *why)
{
    mrd_session_changes *changes = &session->changes;

    if (mrd_session_is_paused(session))
        return mrd_why_set(why, MRD_STATE, 0, "session %s is paused already", session->text);
    if (changes->n_pauses == MRD_PAUSES_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "session %s was paused %d times: start a new one",
                           session->text, MRD_PAUSES_MAX);
    changes->pauses[changes->n_pauses++] =
        (mrd_pause){ .from = { mrd_core_session_now(core).ns + core->limits.lead },
                     .from_revision = changes->revision + 1 };
    return MRD_OK;
}

static mrd_err
resume_now(mrd_core *core, mrd_session *session, mrd_why *why)
{
    mrd_session_changes *changes = &session->changes;
    int64_t at = mrd_core_session_now(core).ns + core->limits.lead;
    mrd_pause *last;

    if (!mrd_session_is_paused(session))
        return mrd_why_set(why, MRD_STATE, 0, "session %s is not paused", session->text);
    last = &changes->pauses[changes->n_pauses - 1];
    last->to.ns = at > last->from.ns ? at : last->from.ns + 1;
    last->to_revision = changes->revision + 1;
    return MRD_OK;
}

/* Swaps the list of cores or event types with a new one. The caller frees the old list together
 * with the request. */
static void
choose(mrd_strlist *of, mrd_strlist *fresh)
{
    mrd_strlist old = *of;

    *of = *fresh;
    *fresh = old;
}

static mrd_err
change(mrd_core *core, mrd_session *session, mrd_session_change *session_change, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if (session->state != MRD_SESSION_RECORDING || session->stop_requested)
        return mrd_why_set(why, MRD_STATE, 0,
                           "session %s is %s: only one that records can be changed", session->text,
                           session->stop_requested ? "stopping"
                                                   : mrd_session_state_text(session->state));
    if ((err = mrd_types_expand(&session_change->select.types)) != MRD_OK)
        return mrd_why_set(why, err, 0, "event types");
    if (session_change->paused == 1)
        err = pause_now(core, session, why);
    else if (session_change->paused == 0)
        err = resume_now(core, session, why);
    if (err != MRD_OK)
        return err;
    if (session_change->types)
        choose(&session->select.types, &session_change->select.types);
    if (session_change->cores)
        choose(&session->select.cores, &session_change->select.cores);
    session->changes.revision++;
    mrd_session_touch(session);
    session->changes.version = session->save.version;
    return MRD_OK;
}

void
mrd_core_change(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id,
                mrd_session_change *session_change)
{
    mrd_why why = { 0 };
    mrd_session *session;

    mrd_core_enter(core, now);
    if ((session = mrd_core_session(core, id)) == NULL)
        mrd_why_set(&why, MRD_NOTFOUND, 0, "there is no such session");
    else if (change(core, session, session_change, &why) == MRD_OK &&
             mrd_core_await(core, ticket, session, 0) != MRD_OK)
        mrd_why_set(&why, MRD_LIMIT, 0,
                    "too many commands wait for the disk: the session changes, but the answer does "
                    "not wait for it");
    if (why.err != MRD_OK)
        mrd_core_answer(core, ticket, &why, 0);
    else
        mrd_effects_log(&core->out, MRD_LOG_INFO, "AGG-CHANGE",
                        "A session is changed: id=%s revision=%u paused=%s", session->text,
                        session->changes.revision, mrd_session_is_paused(session) ? "yes" : "no");
    if (session != NULL)
        mrd_core_save(core, session);
    mrd_select_fini(&session_change->select);
}

/* Returns true if a node that is connected and records has not yet reported the latest revision. */
static bool
is_awaited(const mrd_core *core, const mrd_session *session)
{
    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];
        const mrd_node *node;

        if (part->state == MRD_PART_RECORDING && part->revision < session->changes.revision &&
            (node = mrd_nodes_by_id(&core->nodes, part->instance_id)) != NULL &&
            mrd_core_is_alive(core, node) && part->unchangeable != node->run)
            return true;
    }
    return false;
}

void
mrd_session_send_change(mrd_core *core, mrd_session *session)
{
    bool again = session->changes.sent == session->changes.revision;

    if (session->step != MRD_STEP_RECORD || session->changes.revision == 0 ||
        session->changes.version > session->save.durable ||
        !mrd_effects_room(&core->out, MRD_EFFECTS_ROOM) ||
        (again && (core->now.local.ns < session->changes.again.ns || !is_awaited(core, session))))
        return;
    session->changes.sent = session->changes.revision;
    session->changes.again.ns = core->now.local.ns + AGAIN;
    (void) mrd_core_ask(core, session, MRD__CONTROL_TYPE__CONTROL_CHANGE, NULL,
                        again ? AGAIN_TIMEOUT : ASK_TIMEOUT, 0);
}
