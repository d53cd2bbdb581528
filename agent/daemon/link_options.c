/* Fills in and checks the addresses of the aggregator from the agent's options, before anything is
 * opened. */
#include "agent/daemon/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "proto/fetch.h"

/* Returns tcp://host:7771 for tcp://host:7770, NULL for other addresses. */
static char *
control_of(const char *data_url)
{
    const char *colon = strrchr(data_url, ':');
    char text[1024];
    mrd_url url;

    if (mrd_url_parse(data_url, &url) != MRD_OK || url.port < 1 || url.port == UINT16_MAX ||
        url.rest.len > 0 ||
        snprintf(text, sizeof(text), "%.*s:%u", (int) (colon - data_url), data_url,
                 (unsigned) url.port + 1) >= (int) sizeof(text))
        return NULL;
    return strdup(text);
}

static bool
is_local(const char *address)
{
    mrd_url url;

    return mrd_url_parse(address, &url) == MRD_OK &&
           (mrd_url_is(&url, "inproc") || mrd_url_is(&url, "ipc") || mrd_url_is_loopback(&url));
}

static bool
has_tls(const char *address)
{
    return strncmp(address, "tls+tcp:", 8) == 0;
}

/* Both connections carry the token, so neither may leave the machine without TLS unless that is
 * requested. */
static mrd_err
address_check(const mrd_agent_options *o, const char *option, const char *address, mrd_why *why)
{
    if (is_local(address) || has_tls(address) || o->insecure)
        return MRD_OK;
    return mrd_why_set(why, MRD_AUTH, 0,
                       "--%s '%s' is on another machine and has no TLS: use tls+tcp:// with "
                       "--tls-ca, or --insecure",
                       option, address);
}

/* Setting a certificate implies TLS. */
static mrd_err
unused_check(const mrd_agent_options *o, mrd_why *why)
{
    const char *option = o->tls_ca != NULL     ? "tls-ca"
                         : o->tls_cert != NULL ? "tls-cert"
                         : o->tls_key != NULL  ? "tls-key"
                         : o->tls_name != NULL ? "tls-name"
                                               : NULL;

    if (option == NULL || has_tls(o->data_url) ||
        (o->control_url != NULL && has_tls(o->control_url)))
        return MRD_OK;
    return mrd_why_set(
        why, MRD_INVALID, 0,
        "--%s is given, but --aggregator '%s' has no TLS: write tls+tcp://, or leave "
        "--%s out",
        option, o->data_url, option);
}

/* For an agent that gets its certificate itself. */
static mrd_err
join_fill(mrd_agent_options *o, mrd_why *why)
{
    char text[1024];
    mrd_url url;

    if (!has_tls(o->data_url))
        return mrd_why_set(
            why, MRD_INVALID, 0, "%s is given, but --aggregator '%s' has no TLS: write tls+tcp://",
            o->join_token_file != NULL ? "--join-token-file" : "--join-server", o->data_url);
    if ((o->tls_cert == NULL) != (o->tls_key == NULL))
        return mrd_why_set(why, MRD_INVALID, 0, "--tls-cert and --tls-key go together");
    if (o->tls_cert == NULL && o->spool_dir == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "where is this node's certificate to be kept? Give --spool-dir, or "
                           "--tls-cert and --tls-key");
    if (o->tls_cert == NULL) {
        snprintf(text, sizeof(text), "%.900s/agent.pem", o->spool_dir);
        o->tls_cert = strdup(text);
        snprintf(text, sizeof(text), "%.900s/agent.key", o->spool_dir);
        o->tls_key = strdup(text);
    }
    if (o->join_server == NULL && mrd_url_parse(o->data_url, &url) == MRD_OK &&
        snprintf(text, sizeof(text), "https://%s%.*s%s:7780",
                 memchr(url.host.p, ':', url.host.len) != NULL ? "[" : "", (int) url.host.len,
                 url.host.p,
                 memchr(url.host.p, ':', url.host.len) != NULL ? "]" : "") < (int) sizeof(text))
        o->join_server = strdup(text);
    if (o->join_server == NULL || o->tls_cert == NULL || o->tls_key == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--join-server");
    if (!mrd_fetch_url_safe(o->join_server))
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "--join-server '%s': expected https://HOST:7780 (http:// to this machine)",
            o->join_server);
    for (size_t n = strlen(o->join_server); n > 0 && o->join_server[n - 1] == '/';)
        o->join_server[--n] = '\0';
    return MRD_OK;
}

mrd_err
mrd_agent_link_options(mrd_agent_options *o, mrd_link_options *ret_link, mrd_why *why)
{
    mrd_err err;

    if (strstr(o->data_url, "://") == NULL || strncmp(o->data_url, "http", 4) == 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--aggregator '%s': expected tcp://HOST:7770, or tls+tcp://HOST:7770",
                           o->data_url);
    if (o->control_url == NULL)
        o->control_url = control_of(o->data_url);
    if ((err = address_check(o, "aggregator", o->data_url, why)) != MRD_OK ||
        (o->control_url != NULL &&
         (err = address_check(o, "control", o->control_url, why)) != MRD_OK) ||
        (err = unused_check(o, why)) != MRD_OK)
        return err;
    if (mrd_agent_joins(o) && (err = join_fill(o, why)) != MRD_OK)
        return err;
    *ret_link = (mrd_link_options){ .data_url = o->data_url,
                                    .control_url = o->control_url,
                                    .tls = { o->tls_ca, o->tls_cert, o->tls_key, o->tls_name } };
    return MRD_OK;
}
