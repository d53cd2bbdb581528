/* meridian-aggregator, one per cluster: parses options and handles signals. */
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
    bool insecure, cert_identity, json_log, help, version;
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
    mrd_dur_ns agent_cert_validity, node_timeout, hang_wait, node_forget, flush_timeout, arm_timeout, lead,
        retain;
} settings;

#define AT(member) .offset = offsetof(settings, member)
#define ENV(name)  .env = "MERIDIAN_" name

static const mrd_opt table[] = {
    { .type = MRD_OPT_HEAD, .help = "Store" },
    { .name = "store",
      .type = MRD_OPT_STR,
      AT(store),
      .def = "/var/lib/meridian",
      .arg = "DIR",
      ENV("STORE"),
      .help = "folder of sessions, journals and profiles, on any POSIX file system" },
    { .name = "sync",
      .type = MRD_OPT_CHOICE,
      AT(sync),
      .def = "group",
      .arg = "group,none",
      ENV("SYNC"),
      .help = "when a batch is acknowledged: after a disk sync that a group of batches shares, or "
              "(none) after the write" },
    { .name = "disk-reserve",
      .type = MRD_OPT_SIZE,
      AT(disk_reserve),
      .def = "1G",
      .arg = "SIZE",
      .min = 0,
      .max = INT64_MAX,
      ENV("DISK_RESERVE"),
      .help = "the aggregator stores nothing while the disk has less free space than this" },
    { .name = "retain",
      .type = MRD_OPT_DUR,
      AT(retain),
      .def = "0",
      .arg = "DURATION",
      ENV("RETAIN"),
      .min = 0,
      .max = 3650 * 86400 * MRD_SEC,
      .help = "sessions that ended longer ago than this are deleted; 0 keeps them" },
    { .name = "retain-size",
      .type = MRD_OPT_SIZE,
      AT(retain_bytes),
      .def = "0",
      .arg = "SIZE",
      ENV("RETAIN_SIZE"),
      .min = 0,
      .max = INT64_MAX,
      .help = "beyond this much on disk, artifacts included, the sessions that ended first are "
              "deleted; 0 keeps them" },
    { .type = MRD_OPT_HEAD, .help = "Addresses" },
    { .name = "data-listen",
      .type = MRD_OPT_STR,
      AT(data_listen),
      .def = "tcp://127.0.0.1:7770",
      .arg = "URL",
      ENV("DATA_LISTEN"),
      .help = "where agents send events: tcp:// or tls+tcp://" },
    { .name = "control-listen",
      .type = MRD_OPT_STR,
      AT(control_listen),
      .def = "tcp://127.0.0.1:7771",
      .arg = "URL",
      ENV("CONTROL_LISTEN"),
      .help = "where agents wait for sessions" },
    { .name = "http-listen",
      .type = MRD_OPT_STR,
      AT(http_listen),
      .def = "127.0.0.1:7780",
      .arg = "HOST:PORT",
      ENV("HTTP_LISTEN"),
      .help = "HTTP; [::1]:7780 for IPv6; \"none\" for none" },
    { .name = "time-port",
      .type = MRD_OPT_INT,
      AT(time_port),
      .def = "7772",
      .min = 0,
      .max = 65535,
      .arg = "PORT",
      ENV("TIME_PORT"),
      .help = "UDP port of the clock probes, announced to agents" },
    { .type = MRD_OPT_HEAD, .help = "Security" },
    { .name = "tls-cert",
      .type = MRD_OPT_STR,
      AT(tls_cert),
      .arg = "FILE",
      ENV("TLS_CERT"),
      .help = "certificate of the data and control addresses (PEM)" },
    { .name = "tls-key",
      .type = MRD_OPT_STR,
      AT(tls_key),
      .arg = "FILE",
      ENV("TLS_KEY"),
      .help = "its key" },
    { .name = "tls-ca",
      .type = MRD_OPT_STR,
      AT(tls_ca),
      .arg = "FILE",
      ENV("TLS_CA"),
      .help = "agents must have a certificate signed by one of these authorities (PEM); the file "
              "may hold revocation lists too" },
    { .name = "cert-identity",
      .type = MRD_OPT_BOOL,
      AT(cert_identity),
      .def = "1",
      ENV("CERT_IDENTITY"),
      .help = "with --tls-ca, an agent may publish only under an instance id that its certificate "
              "names (--no-cert-identity: any certificate of the authority is accepted, and tokens "
              "decide)" },
    { .name = "agent-ca",
      .type = MRD_OPT_STR,
      AT(agent_ca),
      .arg = "FILE",
      ENV("AGENT_CA"),
      .help =
          "authority that signs certificates of nodes that were invited (`meridian invite`), one "
          "of those of --tls-ca (PEM)" },
    { .name = "agent-ca-key",
      .type = MRD_OPT_STR,
      AT(agent_ca_key),
      .arg = "FILE",
      ENV("AGENT_CA_KEY"),
      .help = "its key" },
    { .name = "agent-cert-validity",
      .type = MRD_OPT_DUR,
      AT(agent_cert_validity),
      .def = "720h",
      .arg = "DURATION",
      .min = 60 * MRD_SEC,
      .max = 3650 * 86400 * MRD_SEC,
      ENV("AGENT_CERT_VALIDITY"),
      .help = "how long such a certificate is valid" },
    { .name = "http-names",
      .type = MRD_OPT_STR,
      AT(http_names),
      .arg = "NAME,...",
      ENV("HTTP_NAMES"),
      .help = "host names by which clients may address this server when there are no tokens, "
              "besides IP addresses and localhost" },
    { .name = "http-cert",
      .type = MRD_OPT_STR,
      AT(http_cert),
      .arg = "FILE",
      ENV("HTTP_CERT"),
      .help = "certificate of the HTTP address (PEM)" },
    { .name = "http-key",
      .type = MRD_OPT_STR,
      AT(http_key),
      .arg = "FILE",
      ENV("HTTP_KEY"),
      .help = "its key" },
    { .name = "tokens",
      .type = MRD_OPT_STR,
      AT(tokens),
      .arg = "FILE",
      ENV("TOKENS"),
      .help = "file with the tokens of readers, operators, administrators and agents" },
    { .name = "oidc",
      .type = MRD_OPT_STR,
      AT(oidc),
      .arg = "FILE",
      ENV("OIDC"),
      .help = "an OpenID Connect issuer whose tokens are accepted too, and the roles of its users "
              "(JSON, docs/security.md)" },
    { .name = "token-review",
      .type = MRD_OPT_STR,
      AT(token_review),
      .arg = "FILE",
      ENV("TOKEN_REVIEW"),
      .help = "accept projected tokens of Kubernetes service accounts too, each checked by the API "
              "server, and the roles of accounts and groups (JSON, docs/security.md)" },
    { .name = "insecure",
      .type = MRD_OPT_BOOL,
      AT(insecure),
      ENV("INSECURE"),
      .help = "allow addresses that other machines reach without TLS and tokens" },
    { .type = MRD_OPT_HEAD, .help = "Limits" },
    { .name = "max-connections",
      .type = MRD_OPT_INT,
      AT(max_connections),
      .def = "0",
      .min = 0,
      .max = 1000000,
      ENV("MAX_CONNECTIONS"),
      .help = "most agents connected at one time; 0: a third of the open files allowed" },
    { .name = "max-nodes",
      .type = MRD_OPT_INT,
      AT(max_nodes),
      .def = "10000",
      .min = 1,
      .max = 1000000,
      ENV("MAX_NODES"),
      .help = "most nodes that are remembered; a node gone for --node-forget, or one that never "
              "sent data and is gone, makes room for a new one" },
    { .name = "max-sessions",
      .type = MRD_OPT_INT,
      AT(max_sessions),
      .def = "10000",
      .min = 1,
      .max = 1000000,
      ENV("MAX_SESSIONS"),
      .help = "sessions in the store" },
    { .name = "max-open-sessions",
      .type = MRD_OPT_INT,
      AT(max_open_sessions),
      .def = "16",
      .min = 1,
      .max = 1000,
      ENV("MAX_OPEN_SESSIONS"),
      .help = "most sessions that record at one time; a node takes part in at most 16" },
    { .name = "node-gaps",
      .type = MRD_OPT_INT,
      AT(node_gaps),
      .def = "16384",
      .min = 64,
      .max = 1000000000,
      ENV("NODE_GAPS"),
      .help = "most gaps in the frame numbers of a node, over all its sessions (16 bytes of memory "
              "each); a frame that would make one more is refused" },
    { .name = "job-default",
      .type = MRD_OPT_STR,
      AT(job_default),
      .def = "stream",
      .arg = "REQUEST",
      ENV("JOB_DEFAULT"),
      .help = "how to record a job that asks for it without further options: stream, or "
              "recorder,keep=1min; off: do not record it" },
    { .name = "job-allow",
      .type = MRD_OPT_STR,
      AT(job_allow),
      .def = "stream,recorder,name,keep,keep-size,device-profiles",
      .arg = "LIST",
      ENV("JOB_ALLOW"),
      .help = "what a job may request: modes, and options of `meridian start`" },
    { .name = "job-sessions",
      .type = MRD_OPT_INT,
      AT(job_sessions),
      .def = "256",
      .min = 0,
      .max = 1000000,
      ENV("JOB_SESSIONS"),
      .help = "most jobs recorded at one time; 0: none" },
    { .name = "job-sessions-user",
      .type = MRD_OPT_INT,
      AT(job_sessions_user),
      .def = "8",
      .min = 0,
      .max = 1000000,
      ENV("JOB_SESSIONS_USER"),
      .help = "most jobs of one user recorded at one time" },
    { .name = "session-size",
      .type = MRD_OPT_SIZE,
      AT(session_size),
      .def = "0",
      .arg = "SIZE",
      .min = 0,
      .max = INT64_MAX / 2,
      ENV("SESSION_SIZE"),
      .help =
          "a session that grows larger than this, artifacts included, is stopped; 0: no limit" },
    { .type = MRD_OPT_HEAD, .help = "Shared storage" },
    { .name = "export",
      .type = MRD_OPT_STR,
      AT(export_to),
      .arg = "DIR|s3://BUCKET/PREFIX",
      ENV("EXPORT"),
      .help = "copy each complete and merged session there: profile with tables, artifacts, "
              "session.json; --retain removes no session before it was copied" },
    { .name = "export-targets",
      .type = MRD_OPT_STR,
      AT(export_targets),
      .arg = "NAME=DIR|s3://...,...",
      ENV("EXPORT_TARGETS"),
      .help =
          "other targets, which a session may name (meridian record --export NAME); it is copied "
          "there instead" },
    { .name = "export-owner",
      .type = MRD_OPT_CHOICE,
      AT(export_owner),
      .def = "target",
      .arg = "target,job",
      ENV("EXPORT_OWNER"),
      .help = "whose the copies in a folder are: those of the target folder; or of the user of the "
              "session's job, readable by that user only (needs CAP_CHOWN)" },
    { .name = "export-path",
      .type = MRD_OPT_STR,
      AT(export_path),
      .def = "{date}/{session}",
      .arg = "TEMPLATE",
      ENV("EXPORT_PATH"),
      .help = "path below --export: {cluster}, {user}, {job}, {name}, {date}, {session}" },
    { .name = "export-rate",
      .type = MRD_OPT_SIZE,
      AT(export_rate),
      .def = "0",
      .arg = "SIZE",
      .min = 0,
      .max = INT64_MAX / 2,
      ENV("EXPORT_RATE"),
      .help = "bytes per second of the exports to each target; 0: no limit" },
    { .name = "cluster",
      .type = MRD_OPT_STR,
      AT(cluster),
      .arg = "NAME",
      ENV("CLUSTER"),
      .help = "name of the cluster, for {cluster} of --export-path" },
    { .name = "merge-split",
      .type = MRD_OPT_SIZE,
      AT(merge_split),
      .def = MRD_SINK_SPLIT,
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      ENV("MERGE_SPLIT"),
      .help = "Perfetto files of merged sessions above this size are split by time; 0: one file" },
    { .name = "merge-formats",
      .type = MRD_OPT_STR,
      AT(merge_formats),
      .arg = "LIST",
      ENV("MERGE_FORMATS"),
      .help = "formats written beside the standard ones when a session is merged: parquet, "
              "parquet-explorer, sqlite, csv, json, ... (with --export: parquet)" },
    { .type = MRD_OPT_HEAD, .help = "Device profiles" },
    { .name = "viewer",
      .type = MRD_OPT_STR,
      AT(viewer),
      .def = "auto",
      .arg = "COMMAND|auto|none",
      ENV("VIEWER"),
      .help = "what makes Perfetto files of NTFF and NEFF: the program of the vendor's viewer, or "
              "a whole command with {input} and {output} (default: neuron-explorer or "
              "neuron-profile on PATH or in /opt/aws/neuron/bin)" },
    { .name = "viewer-tables",
      .type = MRD_OPT_STR,
      AT(viewer_tables),
      .def = "auto",
      .arg = "COMMAND|auto|none",
      ENV("VIEWER_TABLES"),
      .help = "the command that makes tables of them (default: neuron-explorer with Parquet)" },
    { .name = "viewer-timeout",
      .type = MRD_OPT_DUR,
      AT(viewer_timeout),
      .def = "30min",
      .min = MRD_MS,
      .max = 86400 * MRD_SEC,
      .arg = "DURATION",
      ENV("VIEWER_TIMEOUT"),
      .help = "time limit of one run of it" },
    { .name = "viewer-memory",
      .type = MRD_OPT_SIZE,
      AT(viewer_memory),
      .def = "8G",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      ENV("VIEWER_MEMORY"),
      .help = "memory that it and its child processes may use; 0: no limit" },
    { .name = "viewer-size",
      .type = MRD_OPT_SIZE,
      AT(viewer_size),
      .def = "16G",
      .min = 0,
      .max = INT64_MAX / 2,
      .arg = "SIZE",
      ENV("VIEWER_SIZE"),
      .help = "bytes that a run may write into the store, never into --disk-reserve; 0: no limit" },
    { .name = "viewers",
      .type = MRD_OPT_INT,
      AT(viewers),
      .def = "1",
      .min = 1,
      .max = 64,
      ENV("VIEWERS"),
      .help = "how many may run at one time" },
    { .type = MRD_OPT_HEAD, .help = "Limits of traffic" },
    { .name = "agent-rate",
      .type = MRD_OPT_SIZE,
      AT(agent_rate),
      .def = "0",
      .arg = "SIZE",
      .min = 0,
      .max = INT64_MAX / 2,
      ENV("AGENT_RATE"),
      .help = "most bytes per second from one agent, artifacts included; 0: no limit" },
    { .name = "total-rate",
      .type = MRD_OPT_SIZE,
      AT(total_rate),
      .def = "0",
      .arg = "SIZE",
      .min = 0,
      .max = INT64_MAX / 2,
      ENV("TOTAL_RATE"),
      .help = "most bytes per second from all agents; 0: no limit" },
    { .name = "node-timeout",
      .type = MRD_OPT_DUR,
      AT(node_timeout),
      .def = "5s",
      .arg = "DURATION",
      .min = 100 * MRD_MS,
      .max = 3600 * MRD_SEC,
      ENV("NODE_TIMEOUT"),
      .help = "an agent that sends nothing for this long counts as disconnected" },
    { .name = "hang-wait",
      .type = MRD_OPT_DUR,
      AT(hang_wait),
      .def = "30min",
      .arg = "DURATION",
      .min = MRD_SEC,
      .max = 86400 * MRD_SEC,
      ENV("HANG_WAIT"),
      .help = "longest wait of a rank in an operation whose usual length is not known yet, before "
              "the hang watch judges" },
    { .name = "node-forget",
      .type = MRD_OPT_DUR,
      AT(node_forget),
      .def = "1h",
      .arg = "DURATION",
      .min = 100 * MRD_MS,
      .max = 3650 * 86400 * MRD_SEC,
      ENV("NODE_FORGET"),
      .help = "an agent that was disconnected for this long is gone; until then sessions list it "
              "as missing" },
    { .name = "flush-timeout",
      .type = MRD_OPT_DUR,
      AT(flush_timeout),
      .def = "60s",
      .arg = "DURATION",
      .min = 100 * MRD_MS,
      .max = 86400 * MRD_SEC,
      ENV("FLUSH_TIMEOUT"),
      .help = "how long a stopped session waits for the events that agents still hold" },
    { .name = "arm-timeout",
      .type = MRD_OPT_DUR,
      AT(arm_timeout),
      .def = "2s",
      .arg = "DURATION",
      .min = 50 * MRD_MS,
      .max = 600 * MRD_SEC,
      ENV("ARM_TIMEOUT"),
      .help = "how long agents may take to answer that they are ready" },
    { .name = "lead",
      .type = MRD_OPT_DUR,
      AT(lead),
      .def = "500ms",
      .arg = "DURATION",
      .min = 10 * MRD_MS,
      .max = 60 * MRD_SEC,
      ENV("LEAD"),
      .help = "time between the answers of the agents and the common start of a session" },
    { .type = MRD_OPT_HEAD, .help = "General" },
    { .name = "user",
      .type = MRD_OPT_STR,
      AT(user),
      .arg = "NAME",
      ENV("USER"),
      .help = "become this user (or UID:GID) when everything is open; it should be able to read "
              "certificates, keys and tokens again" },
    { .name = "config",
      .type = MRD_OPT_STR,
      AT(config),
      .arg = "FILE",
      ENV("AGGREGATOR_CONFIG"),
      .help = "JSON file whose members are these options" },
    { .name = "log-level",
      .type = MRD_OPT_CHOICE,
      AT(log_level),
      .def = "info",
      .arg = "error,warn,info,debug",
      ENV("LOG_LEVEL"),
      .help = "least severe level that is logged" },
    { .name = "log-json",
      .type = MRD_OPT_BOOL,
      AT(json_log),
      ENV("LOG_JSON"),
      .help = "one JSON object per line" },
    { .name = "version", .type = MRD_OPT_BOOL, AT(version), .help = "print the version" },
    { .name = "help", .letter = 'h', .type = MRD_OPT_BOOL, AT(help), .help = "print this" },
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
options_fill(const settings *s, char host[256], mrd_aggregator_options *o, mrd_why *why)
{
    *o = (mrd_aggregator_options){
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
    o->http_address = host;
    return http_address(s->http_listen, host, 256, &o->http_port, why);
}

typedef struct {
    char last[MRD_WHY_MAX]; /* why a file could not be read again */
    mrd_local_ns at;
} secret_log;

/* A file that stays invalid is logged once a minute. */
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
wait_and_watch(mrd_aggregator *a, const sigset_t *set)
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
        n = mrd_aggregator_secrets(a, sig != SIGHUP, say_secret, &told);
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
    mrd_secret_process(); /* a change of user may have undone it */
    return err;
}

/* Does not return if the transport's threads cannot be stopped. */
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
    mrd_aggregator_options o;
    mrd_aggregator *a = NULL;
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
    if (addresses_check(s, &why) != MRD_OK || options_fill(s, host, &o, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 2;
    }
    mrd_daemon_signals(&set);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit becomes an error of the write */
    mrd_link_raise_files();
    new_store = access(s->store, F_OK) != 0;
    if (mrd_aggregator_open(&o, &a, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 1;
    }
    if (s->user != NULL && become(&user, s->store, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        mrd_aggregator_close(a);
        return 1;
    }
    mrd_log(MRD_LOG_INFO, "AGG-UP",
            "The aggregator started%s: store=%s data=%s control=%s http_port=%u",
            new_store ? " and created the folder of its store (--store)" : "", s->store,
            mrd_aggregator_data_url(a), mrd_aggregator_control_url(a), mrd_aggregator_http_port(a));
    if ((sig = wait_and_watch(a, &set)) == 0)
        mrd_log(MRD_LOG_ERROR, "AGG-TRANSPORT",
                "The transport library hangs and keeps every connection that ends, so this process "
                "ends and has to be started again, as systemd and Kubernetes do");
    mrd_log(MRD_LOG_INFO, "AGG-DOWN", "The aggregator stops: signal=%d", sig);
    mrd_aggregator_close(a);
    return leave(sig == 0 ? 1 : 0);
}

int
main(int argc, char **argv)
{
    static const mrd_manual manual = {
        .program = "meridian-aggregator",
        .what = "Receives the events of all agents, stores them and merges them into profiles",
        .usage = "[options]",
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
    if (mrd_conf_program(table, OPTIONS, &s, argc, argv, &why) != MRD_OK) {
        mrd_plain_line(stderr, "meridian-aggregator", mrd_str_of(why.text));
        return 2;
    }
    mrd_log_init("meridian-aggregator", 2, (mrd_log_level) s.log_level, s.json_log);
    if (s.version) {
        printf("meridian-aggregator %s\n", mrd_version_text(version));
        code = mrd_manual_end("meridian-aggregator", 0);
    } else {
        code = serve(&s);
    }
    mrd_conf_fini(table, OPTIONS, &s);
    return code;
}
