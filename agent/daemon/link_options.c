/* agent/daemon/link_options.c - checks and completes the addresses of the aggregator in the agent's
 * options, before anything is opened. */
#include "agent/daemon/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "proto/fetch.h"

/* Returns the control address for a data address, which is the same with the next port. For
 * tcp://host:7770 this is tcp://host:7771. Returns NULL for an address of another form. */
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

/* Refuses an address on another machine without TLS, unless that is requested (--insecure). Both
 * connections carry the token. */
static mrd_err
address_check(const mrd_agent_options *options, const char *option, const char *address,
              mrd_why *why)
{
    if (is_local(address) || has_tls(address) || options->insecure)
        return MRD_OK;
    return mrd_why_set(why, MRD_AUTH, 0,
                       "--%s '%s' is on another machine and has no TLS: use tls+tcp:// with "
                       "--tls-ca, or --insecure",
                       option, address);
}

/* Refuses TLS options if no address uses TLS. A certificate means that TLS is wanted. */
static mrd_err
unused_check(const mrd_agent_options *options, mrd_why *why)
{
    const char *option = options->tls_ca != NULL     ? "tls-ca"
                         : options->tls_cert != NULL ? "tls-cert"
                         : options->tls_key != NULL  ? "tls-key"
                         : options->tls_name != NULL ? "tls-name"
                                                     : NULL;

    if (option == NULL || has_tls(options->data_url) ||
        (options->control_url != NULL && has_tls(options->control_url)))
        return MRD_OK;
    return mrd_why_set(
        why, MRD_INVALID, 0,
        "--%s is given, but --aggregator '%s' has no TLS: write tls+tcp://, or leave "
        "--%s out",
        option, options->data_url, option);
}

/* Fills in the options of an agent that obtains its certificate itself. */
static mrd_err
join_fill(mrd_agent_options *options, mrd_why *why)
{
    char text[1024];
    mrd_url url;

    if (!has_tls(options->data_url))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s is given, but --aggregator '%s' has no TLS: write tls+tcp://",
                           options->join_token_file != NULL ? "--join-token-file" : "--join-server",
                           options->data_url);
    if ((options->tls_cert == NULL) != (options->tls_key == NULL))
        return mrd_why_set(why, MRD_INVALID, 0, "--tls-cert and --tls-key go together");
    if (options->tls_cert == NULL && options->spool_dir == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "where is this node's certificate to be kept? Give --spool-dir, or "
                           "--tls-cert and --tls-key");
    if (options->tls_cert == NULL) {
        snprintf(text, sizeof(text), "%.900s/agent.pem", options->spool_dir);
        options->tls_cert = strdup(text);
        snprintf(text, sizeof(text), "%.900s/agent.key", options->spool_dir);
        options->tls_key = strdup(text);
    }
    if (options->join_server == NULL && mrd_url_parse(options->data_url, &url) == MRD_OK &&
        snprintf(text, sizeof(text), "https://%s%.*s%s:7780",
                 memchr(url.host.p, ':', url.host.len) != NULL ? "[" : "", (int) url.host.len,
                 url.host.p,
                 memchr(url.host.p, ':', url.host.len) != NULL ? "]" : "") < (int) sizeof(text))
        options->join_server = strdup(text);
    if (options->join_server == NULL || options->tls_cert == NULL || options->tls_key == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--join-server");
    if (!mrd_fetch_url_safe(options->join_server))
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "--join-server '%s': expected https://HOST:7780 (http:// to this machine)",
            options->join_server);
    for (size_t n = strlen(options->join_server); n > 0 && options->join_server[n - 1] == '/';)
        options->join_server[--n] = '\0';
    return MRD_OK;
}

mrd_err
mrd_agent_link_options(mrd_agent_options *options, mrd_link_options *ret_link, mrd_why *why)
{
    mrd_err err;

    if (strstr(options->data_url, "://") == NULL || strncmp(options->data_url, "http", 4) == 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--aggregator '%s': expected tcp://HOST:7770, or tls+tcp://HOST:7770",
                           options->data_url);
    if (options->control_url == NULL)
        options->control_url = control_of(options->data_url);
    if ((err = address_check(options, "aggregator", options->data_url, why)) != MRD_OK ||
        (options->control_url != NULL &&
         (err = address_check(options, "control", options->control_url, why)) != MRD_OK) ||
        (err = unused_check(options, why)) != MRD_OK)
        return err;
    if (mrd_agent_joins(options) && (err = join_fill(options, why)) != MRD_OK)
        return err;
    *ret_link = (mrd_link_options){ .data_url = options->data_url,
                                    .control_url = options->control_url,
                                    .tls = { options->tls_ca, options->tls_cert, options->tls_key,
                                             options->tls_name } };
    return MRD_OK;
}
