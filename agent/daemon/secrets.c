/* agent/daemon/secrets.c - certificate, key and token of a running agent: obtains and renews them where
 * the agent manages its certificate, reads changed files again, and explains TLS failures */
#include "agent/daemon/agent_int.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/sys/secret.h"

mrd_err
mrd_agent_token_load(mrd_agent *a, mrd_why *why)
{
    const char *path = a->o.token_file;
    uint64_t stamp = mrd_files_stamp(&path, 1);
    char *token = NULL;
    mrd_err err = mrd_secret_read("token file", path, &token, why);

    if (err != MRD_OK)
        return err;
    mrd_secret_free(a->token);
    a->token = token;
    a->token_stamp = stamp;
    return MRD_OK;
}

/* Logs a message once, until a read succeeds. */
static void
say_reload(mrd_agent *a, mrd_err err, const mrd_why *why)
{
    if (err == MRD_OK) {
        a->secret_said[0] = '\0';
        mrd_log(MRD_LOG_INFO, "AGT-RELOAD", "The certificate or the token was read again: node=%s",
                a->node.instance_id);
    } else if (strcmp(a->secret_said, why->text) != 0) {
        memcpy(a->secret_said, why->text, sizeof(a->secret_said));
        mrd_log(MRD_LOG_WARN, "AGT-RELOAD",
                "A certificate or token cannot be read again, the one in use stays: reason=%s",
                why->text);
    }
}

/* Reads the certificate in the file for the heartbeat. If it cannot be read, the previous value
 * stays, because the connection keeps using that certificate. */
static void
look_at_certificate(mrd_agent *a)
{
    uint64_t stamp;

    if (a->o.tls_cert == NULL ||
        (stamp = mrd_files_stamp((const char *const *) &a->o.tls_cert, 1)) == a->cert_stamp)
        return;
    a->cert_stamp = stamp;
    (void) mrd_cert_times_first(a->o.tls_cert, &a->cert, &(mrd_why){ 0 });
}

static void
reload(mrd_agent *a, bool only_changed)
{
    mrd_transport *t = a->transport;
    mrd_why why = { 0 };

    if (a->o.token_file != NULL &&
        (!only_changed ||
         mrd_files_stamp((const char *const *) &a->o.token_file, 1) != a->token_stamp))
        say_reload(a, mrd_agent_token_load(a, &why), &why);
    if (t != NULL && t->reload != NULL && (!only_changed || t->changed(t)))
        say_reload(a, t->reload(t, &why), &why);
    look_at_certificate(a);
}

void
mrd_agent_reload(mrd_agent *a)
{
    a->secret_said[0] = '\0';
    reload(a, false);
}

mrd_err
mrd_agent_open_enrol(mrd_agent *a, mrd_why *why)
{
    mrd_enrol_options o = { .server = a->o.join_server,
                            .token_file = a->o.join_token_file,
                            .instance = a->node.instance_id,
                            .link = { .data_url = a->o.data_url,
                                      .tls = { a->o.tls_ca, a->o.tls_cert, a->o.tls_key,
                                               a->o.tls_name } } };

    if (a->transport == NULL || !mrd_agent_joins(&a->o))
        return MRD_OK;
    return mrd_enrol_open(&o, &a->enrol, why);
}

static void
enrol_step(mrd_agent *a, mrd_local_ns now, bool failed)
{
    mrd_publish_stats st;

    mrd_publish_get_stats(a->publish, &st);
    mrd_enrol_works(a->enrol, st.welcome, failed);
    if (mrd_enrol_step(a->enrol, now))
        reload(a, true);
}

void
mrd_agent_secrets_step(mrd_agent *a, mrd_local_ns now)
{
    mrd_transport *t = a->transport;
    bool failed = false;
    mrd_why why;

    if (t == NULL)
        return;
    for (; t->next_error != NULL && t->next_error(t, &why); failed = true)
        mrd_log(MRD_LOG_WARN, "AGT-TLS", "The agent cannot connect to the aggregator: reason=%s",
                why.text);
    if (a->enrol != NULL)
        enrol_step(a, now, failed);
    if (mrd_local_diff(now, a->secrets_at) < MRD_WAIT_SECRETS_LOOK)
        return;
    a->secrets_at = now;
    reload(a, true);
}
