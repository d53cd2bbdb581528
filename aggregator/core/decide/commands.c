/* Handles commands over HTTP: start, stop, merge, delete, forget. The trigger command is in
 * triggers.c. */
#include "aggregator/core/decide/jobs.h"

#include "aggregator/core/manifest/conversions.h"
#include "base/obj.h"

void
mrd_session_request_fini(mrd_session_request *request)
{
    mrd_select_fini(&request->select);
    mrd_session_params_fini(&request->params);
}

/* Sets the core's time and finds the session `id` to which the command `ticket` applies. If the
 * session does not exist, answers the command with an error and returns NULL. */
static mrd_session *
enter(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_why why = { 0 };
    mrd_session *session;

    mrd_core_enter(core, now);
    if ((session = mrd_core_session(core, id)) == NULL) {
        mrd_why_set(&why, MRD_NOTFOUND, 0, "there is no such session");
        mrd_core_answer(core, ticket, &why, 0);
    }
    return session;
}

/* ---- Start ---- */

static mrd_err
start_allowed(mrd_core *core, mrd_why *why)
{
    int64_t open = 0;

    for (size_t i = 0; i < core->n_sessions; i++)
        open +=
            mrd_session_is_open(core->sessions[i]) && core->sessions[i]->of_job.key.text[0] == '\0';
    if (open >= core->limits.max_open_sessions) {
        core->stats.limited[MRD_LIMIT_OPEN_SESSIONS]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "%lld sessions are open, which is the limit (--advanced.max-open-sessions): stop one",
            (long long) open);
    }
    if ((int64_t) core->n_sessions >= core->limits.max_sessions) {
        core->stats.limited[MRD_LIMIT_SESSIONS]++;
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "the store holds %zu sessions, which is the limit "
                           "(--advanced.max-sessions): delete some",
                           core->n_sessions);
    }
    return mrd_core_store_check(core, why);
}

static mrd_err
fill(mrd_core *core, mrd_session *session, mrd_session_request *request)
{
    mrd_err err;

    mrd_core_name_session(core, session);
    session->params = request->params;
    session->select = request->select;
    *request = (mrd_session_request){ 0 };
    err = mrd_session_choose_types(session);
    mrd_session_touch(session);
    return err;
}

/* Creates a session. The session starts after its manifest is on disk. */
static mrd_err
make(mrd_core *core, uint64_t ticket, mrd_session_request *request, mrd_why *why)
{
    mrd_session *session;
    mrd_err err = start_allowed(core, why);

    if (err != MRD_OK)
        return err;
    if ((err = mrd_job_request_check(request, why)) != MRD_OK ||
        (err = mrd_session_params_check(&request->params, why)) != MRD_OK ||
        (err = mrd_session_target_check(&request->params, core->limits.export_targets, why)) !=
            MRD_OK)
        return err;
    if ((session = calloc(1, sizeof(*session))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    if (fill(core, session, request) != MRD_OK || mrd_core_add_session(core, session) != MRD_OK) {
        mrd_session_free(session);
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    }
    if (mrd_core_await(core, ticket, session, session->id) != MRD_OK) {
        core->n_sessions--;
        mrd_session_free(session);
        return mrd_why_set(why, MRD_LIMIT, 0, "too many commands wait for the disk: try again");
    }
    mrd_core_save(core, session);
    return MRD_OK;
}

void
mrd_core_start(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_session_request *request)
{
    mrd_why why = { 0 };

    mrd_core_enter(core, now);
    if (make(core, ticket, request, &why) != MRD_OK)
        mrd_core_answer(core, ticket, &why, 0);
    mrd_session_request_fini(request);
}

/* ---- Commands stop, merge, delete and forget ---- */

void
mrd_core_stop(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *session = enter(core, now, ticket, id);
    mrd_why why = { 0 };

    if (session == NULL)
        return;
    if (session->state > MRD_SESSION_STOPPING) {
        mrd_why_set(&why, MRD_STATE, 0, "session %s is %s already", session->text,
                    mrd_session_state_text(session->state));
        mrd_core_answer(core, ticket, &why, 0);
        return;
    }
    session->stop_requested = true;
    mrd_session_touch(session);
    if (mrd_core_await(core, ticket, session, 0) != MRD_OK) {
        mrd_why_set(&why, MRD_LIMIT, 0,
                    "too many commands wait for the disk: the session stops, but the answer does "
                    "not wait for it");
        mrd_core_answer(core, ticket, &why, 0);
    }
    mrd_session_run(core, session);
    mrd_core_save(core, session);
}

void
mrd_core_merge(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *session = enter(core, now, ticket, id);
    mrd_why why = { 0 };

    if (session == NULL)
        return;
    if (session->state != MRD_SESSION_COMPLETE)
        mrd_why_set(&why, MRD_STATE, 0, "session %s is %s: only a complete one is merged again",
                    session->text, mrd_session_state_text(session->state));
    else if (mrd_session_is_merging(session))
        mrd_why_set(&why, MRD_BUSY, 0, "session %s is being merged already", session->text);
    else
        mrd_core_merge_again(core, session);
    mrd_core_answer(core, ticket, why.err == MRD_OK ? NULL : &why, 0);
}

void
mrd_core_delete(mrd_core *core, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *session = enter(core, now, ticket, id);
    mrd_why why = { 0 };

    if (session == NULL)
        return;
    if (session->state < MRD_SESSION_MERGING) {
        mrd_why_set(&why, MRD_STATE, 0, "session %s is %s: stop it first", session->text,
                    mrd_session_state_text(session->state));
        mrd_core_answer(core, ticket, &why, 0);
        return;
    }
    if (mrd_session_is_merging(session) || mrd_session_is_converting(session))
        mrd_effects_add(&core->out, MRD_DO_CANCEL)->session = session;
    mrd_core_retire(core, session);
    mrd_core_answer(core, ticket, NULL, 0);
}

void
mrd_core_serve(mrd_core *core, mrd_core_time now, uint64_t id, int by)
{
    mrd_core_enter(core, now);
    for (size_t i = 0; i < core->n_sessions; i++) {
        if (core->sessions[i]->id == id)
            core->sessions[i]->served += (unsigned) by;
    }
}

void
mrd_core_grew(mrd_core *core, mrd_core_time now, uint64_t id)
{
    mrd_session *session;

    mrd_core_enter(core, now);
    if ((session = mrd_core_any_session(core, id)) == NULL || session->deleted)
        return;
    session->measured = false;
    mrd_session_run(core, session);
}

static mrd_err
forget(mrd_core *core, mrd_str instance_id, mrd_why *why)
{
    for (size_t i = 0; i < core->nodes.n; i++) {
        mrd_node *node = core->nodes.v[i];

        if (node->forget || !mrd_str_is(instance_id, node->instance_id))
            continue;
        if (mrd_core_is_alive(core, node))
            return mrd_why_set(why, MRD_STATE, 0,
                               "node %s is connected: stop its meridian-agent first, or it is "
                               "listed again at once",
                               node->instance_id);
        /* The node's entry will be removed, so open sessions store when the node was last seen. */
        for (size_t k = 0; k < core->n_sessions; k++) {
            mrd_part *part = mrd_session_part(core->sessions[k], node->instance_id);

            if (part != NULL && mrd_session_is_open(core->sessions[k]))
                part->lost = node->seen_wall;
        }
        node->forget = core->registry.changed = true;
        return MRD_OK;
    }
    return mrd_why_set(why, MRD_NOTFOUND, 0, "no node '" MRD_STR_FMT "' is known",
                       MRD_STR_ARG(instance_id));
}

void
mrd_core_forget(mrd_core *core, mrd_core_time now, uint64_t ticket, mrd_str instance_id)
{
    mrd_why why = { 0 };

    mrd_core_enter(core, now);
    mrd_core_answer(core, ticket, forget(core, instance_id, &why) == MRD_OK ? NULL : &why, 0);
}
