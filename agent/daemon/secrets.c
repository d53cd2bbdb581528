/* agent/daemon/secrets.c - handles certificate, key and token of a running agent. Obtains and
 * renews them if the agent manages its certificate, reads changed files again, and explains TLS
 * failures. */
#include "agent/daemon/agent_int.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"
#include "base/sys/secret.h"

mrd_err
mrd_agent_token_load(mrd_agent *agent, mrd_why *why)
{
    const char *path = agent->o.token_file;
    uint64_t stamp = mrd_files_stamp(&path, 1);
    char *token = NULL;
    mrd_err err = mrd_secret_read("token file", path, &token, why);

    if (err != MRD_OK)
        return err;
    mrd_secret_free(agent->token);
    agent->token = token;
    agent->token_stamp = stamp;
    return MRD_OK;
}

/* Logs that a certificate, key or token file could not be read. The same failure is logged again
 * only after a read succeeded. */
static void
say_reload(mrd_agent *agent, mrd_err err, const mrd_why *why)
{
    if (err == MRD_OK) {
        agent->secret_said[0] = '\0';
        mrd_log(MRD_LOG_INFO, "AGT-RELOAD", "The certificate or the token was read again: node=%s",
                agent->node.instance_id);
    } else if (strcmp(agent->secret_said, why->text) != 0) {
        memcpy(agent->secret_said, why->text, sizeof(agent->secret_said));
        mrd_log(MRD_LOG_WARN, "AGT-RELOAD",
                "A certificate or token cannot be read again, the one in use stays: reason=%s",
                why->text);
    }
}

/* Reads the validity of the certificate for the heartbeat. If the file cannot be read, the previous
 * value remains, because the connection still uses that certificate. */
static void
look_at_certificate(mrd_agent *agent)
{
    uint64_t stamp;

    if (agent->o.tls_cert == NULL ||
        (stamp = mrd_files_stamp((const char *const *) &agent->o.tls_cert, 1)) == agent->cert_stamp)
        return;
    agent->cert_stamp = stamp;
    (void) mrd_cert_times_first(agent->o.tls_cert, &agent->cert, &(mrd_why){ 0 });
}

static void
reload(mrd_agent *agent, bool only_changed)
{
    mrd_transport *transport = agent->transport;
    mrd_why why = { 0 };

    if (agent->o.token_file != NULL &&
        (!only_changed ||
         mrd_files_stamp((const char *const *) &agent->o.token_file, 1) != agent->token_stamp))
        say_reload(agent, mrd_agent_token_load(agent, &why), &why);
    if (transport != NULL && transport->reload != NULL &&
        (!only_changed || transport->changed(transport)))
        say_reload(agent, transport->reload(transport, &why), &why);
    look_at_certificate(agent);
}

void
mrd_agent_reload(mrd_agent *agent)
{
    agent->secret_said[0] = '\0';
    reload(agent, false);
}

mrd_err
mrd_agent_open_enrol(mrd_agent *agent, mrd_why *why)
{
    mrd_enrol_options options = { .server = agent->o.join_server,
                                  .token_file = agent->o.join_token_file,
                                  .instance = agent->node.instance_id,
                                  .link = { .data_url = agent->o.data_url,
                                            .tls = { agent->o.tls_ca, agent->o.tls_cert,
                                                     agent->o.tls_key, agent->o.tls_name } } };

    if (agent->transport == NULL || !mrd_agent_joins(&agent->o))
        return MRD_OK;
    return mrd_enrol_open(&options, &agent->enrol, why);
}

static void
enrol_step(mrd_agent *agent, mrd_local_ns now, bool failed)
{
    mrd_publish_stats st;

    mrd_publish_get_stats(agent->publish, &st);
    mrd_enrol_works(agent->enrol, st.welcome, failed);
    if (mrd_enrol_step(agent->enrol, now))
        reload(agent, true);
}

void
mrd_agent_secrets_step(mrd_agent *agent, mrd_local_ns now)
{
    mrd_transport *transport = agent->transport;
    bool failed = false;
    mrd_why why;

    if (transport == NULL)
        return;
    for (; transport->next_error != NULL && transport->next_error(transport, &why); failed = true)
        mrd_log(MRD_LOG_WARN, "AGT-TLS", "The agent cannot connect to the aggregator: reason=%s",
                why.text);
    if (agent->enrol != NULL)
        enrol_step(agent, now, failed);
    if (mrd_local_diff(now, agent->secrets_at) < MRD_WAIT_SECRETS_LOOK)
        return;
    agent->secrets_at = now;
    reload(agent, true);
}
