/* The program meridian-aggregator, of which a cluster runs one. Parses options, opens the
 * aggregator, and handles signals. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/aggregator.h"
#include "base/conf/conf.h"
#include "base/conf/log.h"
#include "base/conf/manual.h"
#include "base/obj.h"
#include "base/plain.h"
#include "base/sys/confined.h"
#include "base/sys/secret.h"
#include "base/sys/threads.h"
#include "base/sys/user.h"
#include "base/url.h"
#include "base/version.h"
#include "meridian_commit.h" /* generated: scripts/commit.sh */
#include "trace/model/sink.h"

typedef struct {
    char *store, *data_listen, *control_listen, *http_listen, *tokens, *oidc, *token_review,
        *config, *user;
    char *tls_ca, *tls_cert, *tls_key, *agent_ca, *agent_ca_key, *http_cert, *http_key, *http_names;
    bool insecure, cert_identity, json_log;
    int log_level, sync;
    int64_t node_gaps, time_port, max_connections, agent_rate, total_rate, max_nodes, max_sessions,
        max_open_sessions, disk_reserve, retain_bytes, session_size, job_sessions,
        job_sessions_user, export_rate;
    char *job_default, *job_allow;
    int64_t merge_split;
    char *export_targets;
    int export_owner;
    char *export_to, *export_path, *cluster, *merge_formats, *viewer, *viewer_tables;
    mrd_dur_ns viewer_timeout;
    int64_t viewer_memory, viewer_size, viewers;
    mrd_dur_ns agent_cert_validity, node_timeout, hang_wait, node_forget, flush_timeout,
        arm_timeout, lead, retain;
} settings;

static const mrd_opt table[] = {
#define HEAD(text) { .type = MRD_OPT_HEAD, .help = text },
#define OPTION(name, letter, type, member, def, min, max, arg, env, help)                          \
    { name, letter, MRD_OPT_##type, offsetof(settings, member), def, min, max, arg, env, help,     \
      NULL, 0 },
#include "aggregator/options.def"
#undef HEAD
#undef OPTION
};

#define OPTIONS MRD_COUNT(table)

/* ---- Checks of listening addresses ---- */

static mrd_err
address_form(const char *name, const char *address, mrd_why *why)
{
    mrd_url url;

    if (mrd_url_parse(address, &url) == MRD_OK && url.scheme.len > 0)
        return MRD_OK;
    return mrd_why_set(why, MRD_INVALID, 0,
                       "--%s '%s' is not an address: expected tcp://HOST:PORT or "
                       "tls+tcp://HOST:PORT",
                       name, address);
}

static mrd_err
address_check(const settings *s, const char *name, const char *address, bool secured, mrd_why *why)
{
    mrd_url url;

    if (s->insecure || secured)
        return MRD_OK;
    if (mrd_url_parse(address, &url) != MRD_OK)
        return mrd_why_set(why, MRD_INVALID, 0, "--%s '%s' is not an address", name, address);
    if (mrd_url_is(&url, "inproc") || mrd_url_is(&url, "ipc") || mrd_url_is_loopback(&url))
        return MRD_OK;
    return mrd_why_set(
        why, MRD_DENIED, 0,
        "--%s %s can be reached from other machines, but has no %s: give certificates "
        "and --tokens, or --insecure",
        name, address, s->tokens == NULL ? "tokens" : "TLS");
}

static mrd_err
http_address(const char *listen, char *host, size_t size, uint16_t *ret_port, mrd_why *why)
{
    return mrd_url_listen(listen, host, size, ret_port)
               ? MRD_OK
               : mrd_why_set(why, MRD_INVALID, 0, "--http-listen %s is not HOST:PORT", listen);
}

/* Setting a certificate implies TLS. */
static mrd_err
unused_check(const settings *s, mrd_why *why)
{
    const char *option = s->tls_ca != NULL     ? "tls-ca"
                         : s->tls_cert != NULL ? "tls-cert"
                         : s->tls_key != NULL  ? "tls-key"
                                               : NULL;

    if (option != NULL && strncmp(s->data_listen, "tls+", 4) != 0 &&
        strncmp(s->control_listen, "tls+", 4) != 0)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--%s is given, but neither --data-listen nor --control-listen has TLS: "
                           "write tls+tcp://, or leave --%s out",
                           option, option);
    if ((s->http_cert == NULL) != (s->http_key == NULL))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "--http-cert and --http-key go together: give both or neither");
    if (s->http_cert != NULL && strcmp(s->http_listen, "none") == 0)
        return mrd_why_set(
            why, MRD_INVALID, 0,
            "--http-cert is given, but --http-listen is none: leave one of them out");
    return MRD_OK;
}

static mrd_err
addresses_check(const settings *s, mrd_why *why)
{
    bool agents = s->tokens != NULL || s->tls_ca != NULL;
    bool http = s->http_cert != NULL && s->http_key != NULL && s->tokens != NULL;
    char host[256];
    uint16_t port;
    mrd_err err;

    if ((err = unused_check(s, why)) != MRD_OK ||
        (err = address_form("data-listen", s->data_listen, why)) != MRD_OK ||
        (err = address_form("control-listen", s->control_listen, why)) != MRD_OK ||
        (strcmp(s->http_listen, "none") != 0 &&
         (err = http_address(s->http_listen, host, sizeof(host), &port, why)) != MRD_OK))
        return err;
    if ((err = address_check(s, "data-listen", s->data_listen,
                             agents && strncmp(s->data_listen, "tls+", 4) == 0, why)) != MRD_OK ||
        (err = address_check(s, "control-listen", s->control_listen,
                             agents && strncmp(s->control_listen, "tls+", 4) == 0, why)) != MRD_OK)
        return err;
    if (strcmp(s->http_listen, "none") == 0)
        return MRD_OK;
    return address_check(s, "http-listen", s->http_listen, http, why);
}

static mrd_err
options_fill(const settings *s, char host[256], mrd_aggregator_options *options, mrd_why *why)
{
    *options = (mrd_aggregator_options){
        .store = s->store,
        .data_url = s->data_listen,
        .control_url = s->control_listen,
        .tls = { .ca_file = s->tls_ca, .cert_file = s->tls_cert, .key_file = s->tls_key },
        .any_certificate = !s->cert_identity,
        .http_names = s->http_names,
        .http_cert = s->http_cert,
        .http_key = s->http_key,
        .tokens = s->tokens,
        .oidc = s->oidc,
        .token_review = s->token_review,
        .agent_ca = s->agent_ca,
        .agent_key = s->agent_ca_key,
        .agent_validity_ns = s->agent_cert_validity,
        .time_port = (unsigned) s->time_port,
        .sync = (mrd_sync) s->sync,
        .max_connections = (unsigned) s->max_connections,
        .agent_rate = s->agent_rate,
        .total_rate = s->total_rate,
        .max_nodes = s->max_nodes,
        .max_sessions = s->max_sessions,
        .max_open_sessions = s->max_open_sessions,
        .node_gaps = s->node_gaps,
        .disk_reserve = s->disk_reserve == 0 ? -1 : s->disk_reserve,
        .node_timeout_ns = s->node_timeout,
        .hang_wait_ns = s->hang_wait,
        .node_forget_ns = s->node_forget,
        .flush_timeout_ns = s->flush_timeout,
        .arm_timeout_ns = s->arm_timeout,
        .lead_ns = s->lead,
        .retain_ns = s->retain,
        .retain_bytes = s->retain_bytes,
        .session_bytes = s->session_size,
        .job_default = s->job_default,
        .job_allow = s->job_allow,
        .job_sessions = s->job_sessions,
        .job_sessions_user = s->job_sessions_user,
        .export_to = s->export_to,
        .export_targets = s->export_targets,
        .export_owner = s->export_owner == 1,
        .export_path = s->export_path,
        .export_rate = s->export_rate,
        .cluster = s->cluster,
        .viewer = { .command = s->viewer,
                    .tables = s->viewer_tables,
                    .time = s->viewer_timeout,
                    .memory = (uint64_t) s->viewer_memory,
                    .disk = (uint64_t) s->viewer_size,
                    .at_once = (unsigned) s->viewers },
        .merge_split = (uint64_t) s->merge_split,
        .merge_formats = s->merge_formats != NULL                            ? s->merge_formats
                         : s->export_to != NULL || s->export_targets != NULL ? "parquet"
                                                                             : NULL,
    };
    if (strcmp(s->http_listen, "none") == 0)
        return MRD_OK;
    options->http_address = host;
    return http_address(s->http_listen, host, 256, &options->http_port, why);
}

typedef struct {
    char last[MRD_WHY_MAX]; /* why a file could not be read again */
    mrd_local_ns at;
} secret_log;

/* Logs a failed TLS connection, or a certificate or token that could not be reloaded. If a file
 * stays invalid, logs it at most once a minute. */
static void
say_secret(void *self, const char *id, const mrd_why *why)
{
    secret_log *s = self;
    int64_t now = mrd_local_now().ns;

    if (strcmp(id, "AGG-OIDC") == 0) {
        mrd_log(MRD_LOG_WARN, id, "The keys of the issuer cannot be fetched: reason=%s", why->text);
    } else if (strcmp(id, "AGG-REVIEW") == 0) {
        mrd_log(MRD_LOG_WARN, id,
                "Tokens of Kubernetes cannot be checked, and their holders are not let in: "
                "reason=%s",
                why->text);
    } else if (strncmp(id, "AGG-RELOAD", 10) != 0) {
        mrd_log(MRD_LOG_WARN, id, "A TLS connection failed: reason=%s", why->text);
    } else if (strcmp(s->last, why->text) != 0 || now - s->at.ns > 60 * MRD_SEC) {
        mrd_log(MRD_LOG_WARN, id,
                "A certificate or token cannot be read again, the one in use stays: reason=%s",
                why->text);
        memcpy(s->last, why->text, sizeof(s->last));
        s->at = (mrd_local_ns){ now };
    }
}

/* Reloads certificates and tokens on SIGHUP and when their files change, until a signal ends the
 * program. Returns the signal, or 0 if the transport hangs (mrd_link_stuck). */
static int
wait_and_watch(mrd_aggregator *aggregator, const sigset_t *set)
{
    struct timespec second = { .tv_sec = 1 };
    secret_log told = { .last = "" };

    for (;;) {
        int sig = sigtimedwait(set, NULL, &second);
        unsigned n;

        if (sig > 0 && sig != SIGHUP)
            return sig;
        if (mrd_link_stuck() >= MRD_LINK_STUCK_NS)
            return 0;
        n = mrd_aggregator_secrets(aggregator, sig != SIGHUP, say_secret, &told);
        if (n > 0 || sig == SIGHUP)
            mrd_log(MRD_LOG_INFO, "AGG-RELOAD",
                    "Certificates and tokens were read again: changed=%u", n);
    }
}

static mrd_err
become(const mrd_user *user, const char *store, mrd_why *why)
{
    mrd_err err = mrd_user_hand_over(user, store, why);

    if (err == MRD_OK)
        err = mrd_user_become(user, 0, why);
    mrd_secret_process(); /* again, because a change of user may undo it */
    return err;
}

/* Returns `code`, the exit code for main. If threads of the transport hang, exits with this code at
 * once, because a normal exit would wait for them. */
static int
leave(int code)
{
    if (mrd_link_abandoned() == 0)
        return code;
    mrd_log(MRD_LOG_WARN, "AGG-LEFT",
            "Connections were not closed within 10 s and end with the process; all that was "
            "acknowledged is stored: sockets=%u",
            mrd_link_abandoned());
    fflush(NULL);
    _exit(code);
}

static int
serve(const settings *s)
{
    mrd_aggregator_options options;
    mrd_aggregator *aggregator = NULL;
    mrd_why why = { 0 };
    bool new_store;
    char host[256];
    mrd_user user;
    sigset_t set;
    int sig;

    if (s->user != NULL && mrd_user_find(s->user, &user, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 2;
    }
    if (addresses_check(s, &why) != MRD_OK || options_fill(s, host, &options, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 2;
    }
    mrd_daemon_signals(&set);
    /* Without this, a write beyond the file size limit would kill the process. It fails instead. */
    signal(SIGXFSZ, SIG_IGN);
    mrd_link_raise_files();
    new_store = access(s->store, F_OK) != 0;
    if (mrd_aggregator_open(&options, &aggregator, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 1;
    }
    if (s->user != NULL && become(&user, s->store, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        mrd_aggregator_close(aggregator);
        return 1;
    }
    mrd_log(MRD_LOG_INFO, "AGG-UP",
            "The aggregator started%s: store=%s data=%s control=%s http_port=%u",
            new_store ? " and created the folder of its store (--store)" : "", s->store,
            mrd_aggregator_data_url(aggregator), mrd_aggregator_control_url(aggregator),
            mrd_aggregator_http_port(aggregator));
    if ((sig = wait_and_watch(aggregator, &set)) == 0)
        mrd_log(MRD_LOG_ERROR, "AGG-TRANSPORT",
                "The transport library hangs and keeps every connection that ends, so this process "
                "ends and has to be started again, as systemd and Kubernetes do");
    mrd_log(MRD_LOG_INFO, "AGG-DOWN", "The aggregator stops: signal=%d", sig);
    mrd_aggregator_close(aggregator);
    return leave(sig == 0 ? 1 : 0);
}

int
main(int argc, char **argv)
{
    static const mrd_manual manual = {
        .program = "meridian-aggregator",
        .what = "Receives the events of all agents, stores them and merges them into profiles",
        .usage = "[options]",
        .more = MRD_OPT_ADVANCED_NOTE,
        .table = table,
        .rows = OPTIONS,
    };
    settings s = { 0 };
    mrd_why why = { 0 };
    char version[MRD_BUILD_TEXT];
    int code;

    if (argc > 1 && strcmp(argv[1], MRD_CONFINED_WORD) == 0)
        return mrd_confined_watch(argc, argv);
    mrd_version_set_commit(MRD_COMMIT);
    (void) umask(077);
    mrd_secret_process();
    if (mrd_manual_asked(&manual, argc, argv, false, stdout))
        return mrd_manual_end("meridian-aggregator", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--version") == 0) {
            printf("meridian-aggregator %s\n", mrd_version_text(version));
            return mrd_manual_end("meridian-aggregator", 0);
        }
    }
    if (mrd_conf_program(table, OPTIONS, &s, argc, argv, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 2;
    }
    mrd_log_init("meridian-aggregator", 2, (mrd_log_level) s.log_level, s.json_log);
    code = serve(&s);
    mrd_conf_fini(table, OPTIONS, &s);
    return code;
}
