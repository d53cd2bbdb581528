/* Commands over HTTP: start, stop, merge, delete, forget. Triggers are in triggers.c. */
#include "aggregator/core/decide/jobs.h"

#include "aggregator/core/manifest/conversions.h"
#include "base/obj.h"

void
mrd_session_request_fini(mrd_session_request *r)
{
    mrd_select_fini(&r->select);
    mrd_session_params_fini(&r->params);
}

/* Begins a command about a session. Returns the session, or NULL if the command was already
 * answered. */
static mrd_session *
enter(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_why why = { 0 };
    mrd_session *s;

    mrd_core_enter(c, now);
    if ((s = mrd_core_session(c, id)) == NULL) {
        mrd_why_set(&why, MRD_NOTFOUND, 0, "there is no such session");
        mrd_core_answer(c, ticket, &why, 0);
    }
    return s;
}

/* ---- Start ---- */

static mrd_err
start_allowed(mrd_core *c, mrd_why *why)
{
    int64_t open = 0;

    for (size_t i = 0; i < c->n_sessions; i++)
        open += mrd_session_is_open(c->sessions[i]) && c->sessions[i]->of_job.key.text[0] == '\0';
    if (open >= c->limits.max_open_sessions) {
        c->stats.limited[MRD_LIMIT_OPEN_SESSIONS]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "%lld sessions are open, which is the limit (--advanced.max-open-sessions): stop one",
            (long long) open);
    }
    if ((int64_t) c->n_sessions >= c->limits.max_sessions) {
        c->stats.limited[MRD_LIMIT_SESSIONS]++;
        return mrd_why_set(why, MRD_LIMIT, 0,
                           "the store holds %zu sessions, which is the limit "
                           "(--advanced.max-sessions): delete some",
                           c->n_sessions);
    }
    return mrd_core_store_check(c, why);
}

static void
fill(mrd_core *c, mrd_session *s, mrd_session_request *r)
{
    mrd_core_name_session(c, s);
    s->params = r->params;
    s->select = r->select;
    *r = (mrd_session_request){ 0 };
    mrd_session_touch(s);
}

/* Makes a session, which waits until its manifest is on disk. */
static mrd_err
make(mrd_core *c, uint64_t ticket, mrd_session_request *r, mrd_why *why)
{
    mrd_session *s;
    mrd_err err = start_allowed(c, why);

    if (err != MRD_OK)
        return err;
    if ((err = mrd_job_request_check(r, why)) != MRD_OK ||
        (err = mrd_session_params_check(&r->params, why)) != MRD_OK ||
        (err = mrd_session_target_check(&r->params, c->limits.export_targets, why)) != MRD_OK)
        return err;
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    fill(c, s, r);
    if (mrd_core_add_session(c, s) != MRD_OK) {
        mrd_session_free(s);
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    }
    if (mrd_core_await(c, ticket, s, s->id) != MRD_OK) {
        c->n_sessions--;
        mrd_session_free(s);
        return mrd_why_set(why, MRD_LIMIT, 0, "too many commands wait for the disk: try again");
    }
    mrd_core_save(c, s);
    return MRD_OK;
}

void
mrd_core_start(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_session_request *r)
{
    mrd_why why = { 0 };

    mrd_core_enter(c, now);
    if (make(c, ticket, r, &why) != MRD_OK)
        mrd_core_answer(c, ticket, &why, 0);
    mrd_session_request_fini(r);
}

/* ---- The others ---- */

void
mrd_core_stop(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *s = enter(c, now, ticket, id);
    mrd_why why = { 0 };

    if (s == NULL)
        return;
    if (s->state > MRD_SESSION_STOPPING) {
        mrd_why_set(&why, MRD_STATE, 0, "session %s is %s already", s->text,
                    mrd_session_state_text(s->state));
        mrd_core_answer(c, ticket, &why, 0);
        return;
    }
    s->stop_requested = true;
    mrd_session_touch(s);
    if (mrd_core_await(c, ticket, s, 0) != MRD_OK) {
        mrd_why_set(&why, MRD_LIMIT, 0,
                    "too many commands wait for the disk: the session stops, but the answer does "
                    "not wait for it");
        mrd_core_answer(c, ticket, &why, 0);
    }
    mrd_session_run(c, s);
    mrd_core_save(c, s);
}

void
mrd_core_merge(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *s = enter(c, now, ticket, id);
    mrd_why why = { 0 };

    if (s == NULL)
        return;
    if (s->state != MRD_SESSION_COMPLETE)
        mrd_why_set(&why, MRD_STATE, 0, "session %s is %s: only a complete one is merged again",
                    s->text, mrd_session_state_text(s->state));
    else if (mrd_session_is_merging(s))
        mrd_why_set(&why, MRD_BUSY, 0, "session %s is being merged already", s->text);
    else
        mrd_core_merge_again(c, s);
    mrd_core_answer(c, ticket, why.err == MRD_OK ? NULL : &why, 0);
}

void
mrd_core_delete(mrd_core *c, mrd_core_time now, uint64_t ticket, uint64_t id)
{
    mrd_session *s = enter(c, now, ticket, id);
    mrd_why why = { 0 };

    if (s == NULL)
        return;
    if (s->state < MRD_SESSION_MERGING) {
        mrd_why_set(&why, MRD_STATE, 0, "session %s is %s: stop it first", s->text,
                    mrd_session_state_text(s->state));
        mrd_core_answer(c, ticket, &why, 0);
        return;
    }
    if (mrd_session_is_merging(s) || mrd_session_is_converting(s))
        mrd_effects_add(&c->out, MRD_DO_CANCEL)->session = s;
    mrd_core_retire(c, s);
    mrd_core_answer(c, ticket, NULL, 0);
}

void
mrd_core_serve(mrd_core *c, mrd_core_time now, uint64_t id, int by)
{
    mrd_core_enter(c, now);
    for (size_t i = 0; i < c->n_sessions; i++) {
        if (c->sessions[i]->id == id)
            c->sessions[i]->served += (unsigned) by;
    }
}

void
mrd_core_grew(mrd_core *c, mrd_core_time now, uint64_t id)
{
    mrd_session *s;

    mrd_core_enter(c, now);
    if ((s = mrd_core_any_session(c, id)) == NULL || s->deleted)
        return;
    s->measured = false;
    mrd_session_run(c, s);
}

static mrd_err
forget(mrd_core *c, mrd_str instance_id, mrd_why *why)
{
    for (size_t i = 0; i < c->nodes.n; i++) {
        mrd_node *n = c->nodes.v[i];

        if (n->forget || !mrd_str_is(instance_id, n->instance_id))
            continue;
        if (mrd_core_is_alive(c, n))
            return mrd_why_set(why, MRD_STATE, 0,
                               "node %s is connected: stop its meridian-agent first, or it is "
                               "listed again at once",
                               n->instance_id);
        /* answers of open sessions when a node is removed */
        for (size_t k = 0; k < c->n_sessions; k++) {
            mrd_part *p = mrd_session_part(c->sessions[k], n->instance_id);

            if (p != NULL && mrd_session_is_open(c->sessions[k]))
                p->lost = n->seen_wall;
        }
        n->forget = c->registry.changed = true;
        return MRD_OK;
    }
    return mrd_why_set(why, MRD_NOTFOUND, 0, "no node '" MRD_STR_FMT "' is known",
                       MRD_STR_ARG(instance_id));
}

void
mrd_core_forget(mrd_core *c, mrd_core_time now, uint64_t ticket, mrd_str instance_id)
{
    mrd_why why = { 0 };

    mrd_core_enter(c, now);
    mrd_core_answer(c, ticket, forget(c, instance_id, &why) == MRD_OK ? NULL : &why, 0);
}
