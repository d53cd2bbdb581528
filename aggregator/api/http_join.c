/* POST /api/v1/invitations and /api/v1/certificates: issues certificates to nodes. */
#include "aggregator/api/http.h"
#include "aggregator/api/http_body.h"
#include "base/conf/log.h"

#define INVITED     (3600 * MRD_SEC)
#define INVITED_MAX (30 * 86400 * MRD_SEC)

static const mrd_body_member invitation_members[] = {
    { "instance", MRD_BODY_TEXT, 0, 0 },
    { "expires", MRD_BODY_DUR, MRD_SEC, INVITED_MAX },
    { NULL, MRD_BODY_TEXT, 0, 0 },
};

static const mrd_body_member certificate_members[] = {
    { "instance", MRD_BODY_TEXT, 0, 0 },   { "request", MRD_BODY_TEXT, 0, 0 },
    { "invitation", MRD_BODY_TEXT, 0, 0 }, { "certificate", MRD_BODY_TEXT, 0, 0 },
    { NULL, MRD_BODY_TEXT, 0, 0 },
};

static const mrd_body_member account_members[] = {
    { "instance", MRD_BODY_TEXT, 0, 0 },
    { "request", MRD_BODY_TEXT, 0, 0 },
    { NULL, MRD_BODY_TEXT, 0, 0 },
};

static mrd_err
read_body(http_api *api, mrd_http_request *req, const mrd_body_member *members, mrd_json **ret_body,
          mrd_why *why)
{
    mrd_json *body = NULL;
    mrd_err err;

    if (api->join == NULL)
        return mrd_why_set(why, MRD_UNSUPPORTED, 0,
                           "this aggregator signs no certificates (--agent-ca, --agent-ca-key)");
    if ((err = mrd_http_json(req, &body, why)) == MRD_OK)
        err = mrd_http_body_check(body, members, why);
    if (err != MRD_OK)
        mrd_json_free(body);
    else
        *ret_body = body;
    return err;
}

mrd_err
mrd_http_invite(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *body = NULL, *reply;
    char token[MRD_JOIN_TOKEN] = "";
    mrd_dur_ns life;
    mrd_wall_ns end;
    mrd_err err = read_body(api, req, invitation_members, &body, why);

    if (err != MRD_OK)
        return err;
    if (mrd_json_get(body, "instance") != NULL && *mrd_json_str(body, "instance", "") == '\0') {
        mrd_json_free(body);
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'instance' is empty: leave it out for an invitation that any node can "
                           "use");
    }
    life = mrd_http_body_dur(body, "expires", INVITED);
    err = mrd_join_invite(api->join, mrd_json_str(body, "instance", ""), life, token, &end, why);
    if (err == MRD_OK) {
        reply = mrd_json_new_object();
        mrd_json_set(reply, "invitation", mrd_json_new_str(token));
        mrd_json_set(reply, "instance", mrd_json_new_str(mrd_json_str(body, "instance", "")));
        mrd_json_set(reply, "end_ns", mrd_json_new_int(end.ns));
        mrd_log(MRD_LOG_INFO, "AGG-INVITE", "A node was invited: instance=%s role=%s",
                mrd_json_str(body, "instance", "")[0] == '\0' ? "any"
                                                              : mrd_json_str(body, "instance", ""),
                mrd_role_text(mrd_http_caller(req)->role));
        err = mrd_http_reply_json(req, 201, reply);
    }
    explicit_bzero(token, sizeof(token));
    mrd_json_free(body);
    return err;
}

/* Replies with the certificate or the error, and logs the result. `by` says how the caller's
 * identity was proved, for the log. */
static mrd_err
reply_signed(mrd_http_request *req, mrd_err err, const char *instance, mrd_buf *cert,
             const char *by, mrd_why *why)
{
    mrd_json *reply;

    if (err == MRD_AUTH || err == MRD_DENIED)
        mrd_log(MRD_LOG_WARN, "AGG-SIGNED", "A node's certificate was not signed: by=%s reason=%s",
                by, why->text);
    if (err != MRD_OK)
        return err;
    mrd_log(MRD_LOG_INFO, "AGG-SIGNED", "A node's certificate was signed: instance=%s by=%s",
            instance, by);
    reply = mrd_json_new_object();
    mrd_json_set(reply, "instance", mrd_json_new_str(instance));
    mrd_json_set(reply, "certificate", mrd_json_new_str(mrd_buf_cstr(cert)));
    return mrd_http_reply_json(req, 201, reply);
}

mrd_err
mrd_http_certificate(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    mrd_json *body = NULL;
    char instance[MRD_CSR_INSTANCE] = "";
    mrd_buf cert = { 0 };
    const char *name, *invitation, *before;
    mrd_str request;
    mrd_err err = read_body(api, req, certificate_members, &body, why);

    if (err != MRD_OK)
        return err;
    name = mrd_json_str(body, "instance", "");
    invitation = mrd_json_str(body, "invitation", NULL);
    before = mrd_json_str(body, "certificate", NULL);
    request = mrd_str_of(mrd_json_str(body, "request", ""));
    if ((invitation == NULL) == (before == NULL))
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "send 'request' with either 'invitation' and 'instance', or the "
                          "'certificate' that is to be renewed");
    else if (before != NULL)
        err = mrd_join_renew(api->join, mrd_str_of(before), request, &cert, instance, why);
    else if (!mrd_csr_name_ok(mrd_str_of(name)))
        err = mrd_why_set(why, MRD_INVALID, 0,
                          "'instance' must be letters, digits, '.', '-' and '_', at most 64");
    else if ((err = mrd_join_sign(api->join, mrd_str_of(invitation), name, request, &cert, why)) ==
             MRD_OK)
        memcpy(instance, name, strlen(name) + 1);
    err =
        reply_signed(req, err, instance, &cert, before != NULL ? "certificate" : "invitation", why);
    mrd_buf_fini(&cert);
    mrd_json_free(body);
    return err;
}

/* Issues a certificate to an agent in a Kubernetes pod. The API server confirmed the pod's node, so
 * the certificate is only for the instance of this node. */
mrd_err
mrd_http_account_certificate(void *self, mrd_http_request *req, mrd_why *why)
{
    http_api *api = self;
    const char *node = mrd_http_caller(req)->node, *name;
    mrd_json *body = NULL;
    mrd_buf cert = { 0 };
    mrd_err err = read_body(api, req, account_members, &body, why);

    if (err != MRD_OK)
        return err;
    name = mrd_json_str(body, "instance", "");
    if (node[0] == '\0')
        err = mrd_why_set(why, MRD_DENIED, 0,
                          "an agent's shared token proves no node: send the token of a service "
                          "account among the 'agents' of --token-review");
    else if (strcmp(name, node) != 0)
        err = mrd_why_set(
            why, MRD_DENIED, 0,
            "this pod runs on node '%s', and gets no certificate for another instance", node);
    else
        err = mrd_join_sign_proven(api->join, node, mrd_str_of(mrd_json_str(body, "request", "")),
                                   &cert, why);
    err = reply_signed(req, err, node, &cert, "account", why);
    mrd_buf_fini(&cert);
    mrd_json_free(body);
    return err;
}
