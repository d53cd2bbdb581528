#include "aggregator/aggregator.h"

#include <stdlib.h>

#include "aggregator/api/http.h"
#include "aggregator/clock/clocks.h"
#include "aggregator/core/common/text.h"
#include "aggregator/loop/loop.h"
#include "base/hash.h"

struct mrd_aggregator {
    mrd_session_store store;
    mrd_timescale timescale;
    mrd_core_limits limits;
    mrd_auth *auth;
    mrd_oidc *oidc;
    mrd_token_review *review;
    mrd_join *join;
    mrd_server *server;
    mrd_clocks *clocks;
    mrd_loop *loop;
    http_api *http;
};

static int64_t
or_else(int64_t v, int64_t def)
{
    return v == 0 ? def : v;
}

static void
limits_set(mrd_core_limits *limits, const mrd_aggregator_options *options)
{
    limits->agent_rate = options->agent_rate;
    limits->total_rate = options->total_rate;
    limits->max_nodes = or_else(options->max_nodes, 10000);
    limits->max_sessions = or_else(options->max_sessions, 10000);
    limits->max_open_sessions = or_else(options->max_open_sessions, 16);
    limits->node_gaps = or_else(options->node_gaps, 16384);
    limits->disk_reserve = options->disk_reserve < 0 ? 0 : or_else(options->disk_reserve, 1 << 30);
    limits->node_timeout = or_else(options->node_timeout_ns, 5 * MRD_SEC);
    limits->hang_wait = options->hang_wait_ns;
    limits->node_forget = or_else(options->node_forget_ns, 3600 * MRD_SEC);
    limits->flush_timeout = or_else(options->flush_timeout_ns, 60 * MRD_SEC);
    limits->arm_timeout = or_else(options->arm_timeout_ns, 2 * MRD_SEC);
    limits->lead = or_else(options->lead_ns, 500 * MRD_MS);
    limits->retain = options->retain_ns;
    limits->retain_bytes = options->retain_bytes;
    limits->session_bytes = options->session_bytes;
    limits->job_default = options->job_default == NULL ? "off" : options->job_default;
    limits->job_allow = options->job_allow == NULL ? "" : options->job_allow;
    limits->job_sessions = options->job_sessions;
    limits->job_sessions_user = options->job_sessions_user;
    limits->exports = options->export_to != NULL;
    limits->export_targets = options->export_targets;
}

static mrd_err
loop_open(mrd_aggregator *aggregator, const mrd_aggregator_options *options, mrd_why *why)
{
    mrd_loop_options loop = { .server = aggregator->server,
                              .store = &aggregator->store,
                              .auth = aggregator->auth,
                              .clocks = aggregator->clocks,
                              .core = { .limits = aggregator->limits,
                                        .timescale = aggregator->timescale },
                              .merge_split = options->merge_split,
                              .merge_formats = options->merge_formats,
                              .export_to = options->export_to,
                              .export_targets = options->export_targets,
                              .export_owner = options->export_owner,
                              .export_path = options->export_path,
                              .cluster = options->cluster,
                              .export_rate = options->export_rate,
                              .viewer = &options->viewer };
    unsigned at_once;
    mrd_err err = mrd_converter_check(&options->viewer, &at_once, why);

    if (err != MRD_OK)
        return err;
    loop.core.limits.conversions = aggregator->limits.conversions = at_once;
    loop.cert_alone = options->agent_ca != NULL;
    loop.cert_identity = options->tls.ca_file != NULL && !options->any_certificate &&
                         strncmp(options->data_url, "tls+", 4) == 0;
    mrd_random(&loop.core.seed, sizeof(loop.core.seed));
    return mrd_loop_open(&loop, &aggregator->loop, why);
}

/* Opens the servers that confirm identities in addition to the token file: an OIDC issuer and
 * Kubernetes. */
static mrd_err
identities_open(mrd_aggregator *aggregator, const mrd_aggregator_options *options, mrd_why *why)
{
    mrd_err err = MRD_OK;

    if ((options->agent_ca == NULL) != (options->agent_key == NULL))
        return mrd_why_set(why, MRD_INVALID, 0, "--agent-ca and --agent-ca-key belong together");
    if (options->agent_ca != NULL &&
        (aggregator->auth == NULL || options->tls.ca_file == NULL || options->any_certificate))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--agent-ca needs --tokens, --tls-ca and --advanced.cert-identity: "
                           "else the certificates that it signs prove nothing");
    if ((options->oidc != NULL || options->token_review != NULL) && aggregator->auth == NULL)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--%s without --tokens: then everybody may do everything",
                           options->oidc != NULL ? "oidc" : "token-review");
    if (options->oidc != NULL)
        err = mrd_oidc_open(options->oidc, &aggregator->oidc, why);
    if (err == MRD_OK && options->token_review != NULL)
        err = mrd_token_review_open(options->token_review, &aggregator->review, why);
    if (err == MRD_OK && options->agent_ca != NULL)
        err = mrd_join_open(&(mrd_join_options){ .ca = options->agent_ca,
                                                 .key = options->agent_key,
                                                 .authorities = options->tls.ca_file,
                                                 .store = options->store,
                                                 .life = or_else(options->agent_validity_ns,
                                                                 30 * 86400 * MRD_SEC) },
                            &aggregator->join, why);
    return err;
}

static mrd_err
parts_open(mrd_aggregator *aggregator, const mrd_aggregator_options *options, mrd_why *why)
{
    mrd_server_options server = { .data_url = options->data_url,
                                  .control_url = options->control_url,
                                  .tls = options->tls,
                                  .contexts = MRD_PENDING_MAX,
                                  .max_connections = options->max_connections };
    mrd_err err;

    if (options->tokens != NULL &&
        (err = mrd_auth_load(options->tokens, &aggregator->auth, why)) != MRD_OK)
        return err;
    if ((err = mrd_server_open(&server, &aggregator->server, why)) != MRD_OK ||
        (err = mrd_clocks_open(options->data_url, (uint16_t) options->time_port,
                               &aggregator->timescale, &aggregator->clocks, why)) != MRD_OK ||
        (err = loop_open(aggregator, options, why)) != MRD_OK)
        return err;
    if (options->http_address == NULL)
        return MRD_OK;
    if ((err = identities_open(aggregator, options, why)) != MRD_OK)
        return err;
    return mrd_http_api_open(aggregator->loop,
                             &(http_api_options){ .address = options->http_address,
                                                  .port = options->http_port,
                                                  .cert = options->http_cert,
                                                  .key = options->http_key,
                                                  .names = options->http_names,
                                                  .segments_max = options->http_segments_max,
                                                  .disk_reserve = aggregator->limits.disk_reserve,
                                                  .auth = aggregator->auth,
                                                  .oidc = aggregator->oidc,
                                                  .review = aggregator->review,
                                                  .join = aggregator->join,
                                                  .files = { { "tls-cert", options->tls.cert_file },
                                                             { "tls-ca", options->tls.ca_file },
                                                             { "http-cert", options->http_cert },
                                                             { "agent-ca", options->agent_ca } } },
                             &aggregator->http, why);
}

mrd_err
mrd_aggregator_open(const mrd_aggregator_options *options, mrd_aggregator **ret_aggregator,
                    mrd_why *why)
{
    mrd_aggregator *aggregator = calloc(1, sizeof(*aggregator));
    mrd_err err;

    if (aggregator == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "aggregator");
    limits_set(&aggregator->limits, options);
    err = mrd_session_store_open(&aggregator->store, options->store, options->sync,
                                 &aggregator->timescale, why);
    if (err == MRD_OK)
        err = parts_open(aggregator, options, why);
    if (err != MRD_OK) {
        mrd_aggregator_close(aggregator);
        return err;
    }
    *ret_aggregator = aggregator;
    return MRD_OK;
}

void
mrd_aggregator_close(mrd_aggregator *aggregator)
{
    if (aggregator == NULL)
        return;
    mrd_http_api_close(aggregator->http);
    mrd_loop_close(aggregator->loop);
    mrd_server_close(aggregator->server);
    mrd_clocks_close(aggregator->clocks);
    mrd_oidc_close(aggregator->oidc);
    mrd_token_review_close(aggregator->review);
    mrd_join_close(aggregator->join);
    mrd_auth_free(aggregator->auth);
    mrd_session_store_fini(&aggregator->store);
    free(aggregator);
}

/* Reloads the files of `thing`, for example certificates or tokens. Adds 1 to n, or passes the
 * error to `say`. Does nothing if `thing` is NULL. With `only_changed`, does nothing if
 * `changed(thing)` is false. */
#define READ_AGAIN(thing, changed, reload, id)                                                     \
    do {                                                                                           \
        if ((thing) != NULL && (!only_changed || changed(thing))) {                                \
            if (reload((thing), &why) != MRD_OK)                                                   \
                say(self, id, &why);                                                               \
            else                                                                                   \
                n++;                                                                               \
        }                                                                                          \
    } while (0)

static void
proof_changed(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    (void) ticket;
    (void) arg;
    mrd_core_proof_changed(core, now);
}

unsigned
mrd_aggregator_secrets(mrd_aggregator *aggregator, bool only_changed,
                       void (*say)(void *self, const char *id, const mrd_why *why), void *self)
{
    unsigned n = 0, http;
    mrd_why why = { 0 };

    READ_AGAIN(aggregator->http, mrd_http_api_changed, mrd_http_api_reload, "AGG-RELOAD-HTTP");
    http = n;
    READ_AGAIN(aggregator->auth, mrd_auth_changed, mrd_auth_reload, "AGG-RELOAD-TOKENS");
    READ_AGAIN(aggregator->server, mrd_server_changed, mrd_server_reload, "AGG-RELOAD-TLS");
    /* tokens or the TLS files for agents were reloaded, so agents must authenticate again */
    if (n > http)
        mrd_loop_run(aggregator->loop, proof_changed, NULL);
    READ_AGAIN(aggregator->join, mrd_join_changed, mrd_join_reload, "AGG-RELOAD-CA");
    while (mrd_server_next_error(aggregator->server, &why))
        say(self, "AGG-TLS", &why);
    while (aggregator->http != NULL && mrd_http_api_next_error(aggregator->http, &why))
        say(self, "AGG-HTTPS", &why);
    if (aggregator->oidc != NULL && !only_changed)
        mrd_oidc_refresh(aggregator->oidc);
    while (aggregator->oidc != NULL && mrd_oidc_next_error(aggregator->oidc, &why))
        say(self, "AGG-OIDC", &why);
    if (aggregator->review != NULL && !only_changed)
        mrd_token_review_forget(aggregator->review);
    while (aggregator->review != NULL && mrd_token_review_next_error(aggregator->review, &why))
        say(self, "AGG-REVIEW", &why);
    return n;
}

const char *
mrd_aggregator_data_url(const mrd_aggregator *aggregator)
{
    return mrd_server_data_url(aggregator->server);
}

const char *
mrd_aggregator_control_url(const mrd_aggregator *aggregator)
{
    return mrd_server_control_url(aggregator->server);
}

uint16_t
mrd_aggregator_http_port(const mrd_aggregator *aggregator)
{
    return aggregator->http == NULL ? 0 : mrd_http_api_port(aggregator->http);
}

static void
start(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_start(core, now, ticket, arg);
}

mrd_err
mrd_aggregator_start(mrd_aggregator *aggregator, const mrd_aggregator_session *request,
                     uint64_t *ret_session, mrd_why *why)
{
    mrd_session_request session_request = { 0 };
    mrd_err err = mrd_session_params_init(&session_request.params);

    if (err == MRD_OK && request->name != NULL)
        err = mrd_session_params_set(&session_request.params, "name", request->name, why);
    if (err == MRD_OK && request->require != NULL)
        err = mrd_session_params_set(&session_request.params, "require", request->require, why);
    session_request.params.mode = request->recorder ? MRD_MODE_RECORDER : MRD_MODE_STREAM;
    session_request.params.duration = request->duration_ns;
    session_request.params.merge = request->merge;
    if (err == MRD_OK)
        err = mrd_loop_command(aggregator->loop, start, &session_request, ret_session, why);
    mrd_session_request_fini(&session_request);
    return err;
}

static void
stop(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    mrd_core_stop(core, now, ticket, *(const uint64_t *) arg);
}

mrd_err
mrd_aggregator_stop(mrd_aggregator *aggregator, uint64_t session, mrd_why *why)
{
    return mrd_loop_command(aggregator->loop, stop, &session, NULL, why);
}

const char *
mrd_aggregator_state(mrd_aggregator *aggregator, uint64_t session, bool *ret_over,
                     char message[MRD_WHY_MAX])
{
    mrd_session_view *view = mrd_loop_session(aggregator->loop, session);
    const char *text = "unknown";

    *ret_over = true;
    if (view == NULL)
        return text;
    text = mrd_session_state_text(view->s->state);
    *ret_over = mrd_session_is_over(view->s);
    if (message != NULL)
        mrd_text_set(message, MRD_WHY_MAX, view->s->message);
    mrd_session_view_unref(view);
    return text;
}

mrd_buf
mrd_aggregator_manifest(mrd_aggregator *aggregator, uint64_t session)
{
    mrd_session_view *view = mrd_loop_session(aggregator->loop, session);
    mrd_json *doc = view == NULL ? NULL : mrd_session_view_json(view);
    mrd_buf text = { 0 };

    if (doc != NULL)
        mrd_json_write(doc, true, &text);
    mrd_json_free(doc);
    mrd_session_view_unref(view);
    return text;
}

static void
count_events(mrd_core *core, mrd_core_time now, uint64_t ticket, void *arg)
{
    (void) now;
    (void) ticket;
    *(uint64_t *) arg = core->stats.events;
}

uint64_t
mrd_aggregator_events(mrd_aggregator *aggregator)
{
    uint64_t n = 0;

    mrd_loop_run(aggregator->loop, count_events, &n);
    return n;
}
