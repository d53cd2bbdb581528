/* Identifies the callers of requests and the owners of sessions. aggregator/access/rights.h makes
 * the decisions. */
#include "aggregator/access/jwt.h"
#include "aggregator/api/http.h"

/* ---- Owners of sessions and jobs ---- */

mrd_ownership
mrd_http_ownership(const mrd_session *session)
{
    return (mrd_ownership){ .of_job = mrd_session_has_owner(session),
                            .uid = session->of_job.key.uid,
                            .keys = &session->of_job.owner_keys,
                            .jobs = &session->jobs,
                            .jobs_left_out =
                                mrd_session_is_of_one_job(session) ? 0 : session->jobs_left_out };
}

static mrd_ownership
of_line(const mrd_session_line *line)
{
    return (mrd_ownership){ .of_job = line->of_job,
                            .uid = line->uid,
                            .keys = &line->owner_keys,
                            .jobs = &line->jobs,
                            .jobs_left_out = line->jobs_left_out };
}

static bool
may_session(const mrd_http_request *req, const mrd_session *session)
{
    mrd_ownership ownership = mrd_http_ownership(session);

    return mrd_http_may(req, &ownership);
}

bool
mrd_http_may_line(const mrd_http_request *req, const mrd_session_line *line)
{
    mrd_ownership ownership = of_line(line);

    return mrd_http_may(req, &ownership);
}

mrd_ownership
mrd_http_hang_ownership(const mrd_hang_line *line)
{
    return (mrd_ownership){
        .of_job = true, .uid = line->v.job.uid, .keys = &line->owner_keys, .jobs = &line->jobs
    };
}

/* Returns true if the caller may do the route's action on the session with this id. Always compares
 * with all sessions, so that an owner cannot learn from the duration whether an id is unknown or
 * belongs to another user's session. */
static bool
may_id(http_api *api, const mrd_http_request *req, uint64_t id)
{
    static const mrd_ownership nobodys = { .uid = -1 };
    mrd_overview *overview;
    bool found = false;

    if (mrd_http_may(req, &nobodys))
        return true;
    overview = mrd_loop_overview(api->loop);
    for (size_t i = 0; overview != NULL && i < overview->n_sessions; i++)
        found |= mrd_http_may_line(req, &overview->sessions[i]) && overview->sessions[i].id == id;
    mrd_overview_unref(overview);
    return found;
}

/* ---- Identifying the caller ---- */

/* Returns true if the caller's token is an owner's token of any session. */
static bool
is_owner(http_api *api, const mrd_caller *who)
{
    mrd_overview *overview = mrd_loop_overview(api->loop);
    bool found = false;

    for (size_t i = 0; overview != NULL && i < overview->n_sessions; i++) {
        mrd_ownership ownership = of_line(&overview->sessions[i]);

        found |= mrd_caller_owns(who, &ownership);
    }
    mrd_overview_unref(overview);
    return found;
}

/* Identifies the holder of a signed token (JWT). A token of the OIDC issuer is verified with the
 * issuer's keys, and any other token by Kubernetes. */
static mrd_err
identify_signed(http_api *api, uint64_t peer, mrd_str token, mrd_caller *ret_caller, mrd_why *why)
{
    mrd_json *claims = NULL;
    bool issuers = false;

    if (api->oidc != NULL && mrd_jwt_peek(token, &claims, NULL) == MRD_OK)
        issuers = strcmp(mrd_json_str(claims, "iss", ""), mrd_oidc_issuer(api->oidc)) == 0;
    mrd_json_free(claims);
    return api->review == NULL || issuers
               ? mrd_oidc_identify(api->oidc, token, ret_caller, why)
               : mrd_token_review_identify(api->review, peer, token, ret_caller, why);
}

mrd_err
mrd_http_identify(void *self, uint64_t peer, mrd_str token, mrd_caller *ret_caller, mrd_why *why)
{
    http_api *api = self;
    mrd_caller who = MRD_CALLER(mrd_auth_role(api->auth, token));

    if (who.role == MRD_ROLE_NONE && mrd_auth_digest(token, who.key) && is_owner(api, &who))
        who.role = MRD_ROLE_OWNER;
    if (who.role == MRD_ROLE_NONE && (api->oidc != NULL || api->review != NULL) &&
        mrd_jwt_looks(token))
        return identify_signed(api, peer, token, ret_caller, why);
    if (who.role == MRD_ROLE_NONE)
        return mrd_why_set(why, MRD_AUTH, 0, "send a known token: Authorization: Bearer ...");
    *ret_caller = who;
    return MRD_OK;
}

mrd_err
mrd_http_self(void *self, mrd_http_request *req, mrd_why *why)
{
    const mrd_caller *who = mrd_http_caller(req);
    mrd_json *json = mrd_json_new_object(), *may = mrd_json_new_array();

    (void) self;
    (void) why;
    mrd_json_set(json, "role", mrd_json_new_str(mrd_role_text(who->role)));
    if (who->user[0] != '\0')
        mrd_json_set(json, "user", mrd_json_new_str(who->user));
    if (who->space[0] != '\0')
        mrd_json_set(json, "namespace", mrd_json_new_str(who->space));
    if (who->uid >= 0)
        mrd_json_set(json, "uid", mrd_json_new_int(who->uid));
    for (mrd_action action = MRD_ACTION_LIST; action < MRD_ACTIONS; action++)
        if (mrd_may(who, NULL, action))
            mrd_json_append(may, mrd_json_new_str(mrd_action_text(action)));
    mrd_json_set(json, "may", may);
    return mrd_http_reply_json(req, 200, json);
}

/* Finds the newest session that the caller may read. Returns false if there is none. */
static bool
find_latest(http_api *api, const mrd_http_request *req, uint64_t *ret_id)
{
    mrd_overview *overview = mrd_loop_overview(api->loop);
    size_t i = overview == NULL ? 0 : overview->n_sessions;

    while (i > 0 && !mrd_http_may_line(req, &overview->sessions[i - 1]))
        i--;
    if (i > 0)
        *ret_id = overview->sessions[i - 1].id;
    mrd_overview_unref(overview);
    return i > 0;
}

mrd_err
mrd_http_session(http_api *api, mrd_http_request *req, mrd_session_view **ret_view, mrd_why *why)
{
    mrd_str text = mrd_http_param(req, "id");
    mrd_session_view *view;
    uint64_t id;

    if (mrd_str_is(text, "latest") && mrd_http_action(req) == MRD_ACTION_READ) {
        if (!find_latest(api, req, &id))
            return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no session yet");
    } else if (mrd_session_id_parse(text, &id) != MRD_OK)
        return mrd_why_set(why, MRD_NOTFOUND, 0, "'" MRD_STR_FMT "' is not a session id",
                           MRD_STR_ARG(text));
    view = may_id(api, req, id) ? mrd_loop_session(api->loop, id) : NULL;
    if (view != NULL && may_session(req, view->s)) {
        *ret_view = view;
        return MRD_OK;
    }
    mrd_session_view_unref(view);
    return mrd_why_set(why, MRD_NOTFOUND, 0, "there is no session " MRD_STR_FMT, MRD_STR_ARG(text));
}
