/*
 * aggregator/aggregator.h - opens and closes a complete aggregator. It is used by the program
 * meridian-aggregator, by `meridian inspect` (inproc, no ports), and by tests.
 *
 * Threads  mrd_aggregator_open starts the loop (aggregator/loop/loop.h) and its worker threads. Any
 *          thread may call the functions. The process must not fork after the open, because the
 *          library NNG does not support this.
 */
#ifndef MRD_AGGREGATOR_AGGREGATOR_H
#define MRD_AGGREGATOR_AGGREGATOR_H

#include "aggregator/journal/journal.h"
#include "aggregator/viewer/converter.h"
#include "base/clock.h"
#include "proto/link.h"

typedef struct mrd_aggregator mrd_aggregator;

/* Members that are 0 or NULL have the default that their comment names. The strings must live until
 * mrd_aggregator_open returns, unless a comment says otherwise. */
typedef struct {
    const char *store; /* directory of the store, created if missing; required */
    /* address for agents' events, such as "tcp://127.0.0.1:7770" or "inproc://x"; required */
    const char *data_url;
    const char *control_url;  /* address for surveys to agents, of the same form; required */
    const char *http_address; /* numeric address for HTTP, NULL means no HTTP */
    uint16_t http_port;       /* port for HTTP; 0 means any free port */
    mrd_link_tls tls; /* TLS files for both addresses, used if their URLs begin with tls+tcp */
    /* true if an agent's certificate need not contain the id of the agent's node (with
     * tls.ca_file) */
    bool any_certificate;
    /* maximum number of journal files that an answer over HTTP lists
     * (http_api_options.segments_max) */
    size_t http_segments_max;
    /* further host names that HTTP requests may use (mrd_httpd_options.names); NULL means none */
    const char *http_names;
    const char *http_cert, *http_key; /* TLS files of the HTTP server: both or neither */
    /* token file (aggregator/access/auth.h); NULL means that everyone has all rights */
    const char *tokens;
    /* settings file of aggregator/access/oidc.h, used together with `tokens`; NULL means not
     * used */
    const char *oidc;
    /* settings file of aggregator/access/token_review.h; NULL means not used */
    const char *token_review;
    /* certificate and key of the authority that signs certificates of nodes; both files or
     * neither */
    const char *agent_ca, *agent_key;
    /* validity of the certificates that this authority signs; default 30 days */
    mrd_dur_ns agent_validity_ns;
    unsigned time_port; /* UDP port of the clock probes. 0 means any free port */
    mrd_sync sync;      /* when frames are synced to disk; default GROUP */
    /* maximum number of agents; by default the limit of open files determines it */
    unsigned max_connections;
    /* maximum bytes/s that one agent may send, and that all agents together may send; default no
     * limit */
    int64_t agent_rate, total_rate;
    int64_t max_nodes; /* maximum number of known nodes; default 10000 */
    /* maximum number of sessions, default 10000, and of open sessions, default 16 */
    int64_t max_sessions, max_open_sessions;
    /* maximum number of gaps in the sequence numbers of one agent's frames; default 16384 */
    int64_t node_gaps;
    /* number of bytes that must stay free on the store's disk; 0 means 1 GiB, and -1 means none */
    int64_t disk_reserve;
    /* a node that sent no frame for this long counts as disconnected; default 5 s */
    mrd_dur_ns node_timeout_ns;
    /* a node that was disconnected for this long is no longer expected in sessions; default 1 h */
    mrd_dur_ns node_forget_ns;
    /* time after a stop until a node that sends nothing counts as lost; default 60 s */
    mrd_dur_ns flush_timeout_ns;
    /* longest wait of the hang watch (mrd_hang_options.unlearned); default 30 min */
    mrd_dur_ns hang_wait_ns;
    /* time to wait for nodes to be ready, default 2 s, and from then to the start, default 500
     * ms */
    mrd_dur_ns arm_timeout_ns, lead_ns;
    mrd_dur_ns retain_ns; /* age at which finished sessions are removed; default never */
    /* size of the store above which old sessions are removed; default no limit */
    int64_t retain_bytes;
    int64_t session_bytes; /* size at which a session is stopped; default no limit */
    /* Modes of sessions that jobs request (see mrd_core_limits). These strings must live until
     * mrd_aggregator_close. NULL means "off" for job_default, and "" for job_allow. */
    const char *job_default, *job_allow;
    /* maximum numbers of open sessions that jobs requested, in total and for one user; by default
     * jobs get no session */
    int64_t job_sessions, job_sessions_user;
    /* maximum size in bytes of a Perfetto file; by default a profile is one file of any size */
    uint64_t merge_split;
    /* Further formats of merged sessions, separated by commas. This string, export_to,
     * export_targets and export_path must live until mrd_aggregator_close. */
    const char *merge_formats;
    const char *export_to; /* shared storage: a directory or s3://bucket/prefix. NULL means none */
    /* further export targets that sessions may choose by name (aggregator/core/common/targets.h);
     * NULL means none */
    const char *export_targets;
    /* true if exported files belong to the user of the session's job */
    bool export_owner;
    const char *export_path;       /* path below export_to; default "{date}/{session}" */
    const char *cluster;           /* value of {cluster} in this path; default "" */
    int64_t export_rate;           /* maximum speed of exports in bytes/s; default no limit */
    mrd_converter_settings viewer; /* viewer of device profiles; if zeroed, no viewer runs */
} mrd_aggregator_options;

/* Opens the store, starts the threads, and listens. Errors: errors of the store, the addresses and
 * the certificates. The message names the cause. */
mrd_err mrd_aggregator_open(const mrd_aggregator_options *options, mrd_aggregator **ret_aggregator,
                            mrd_why *why);
/* Answers the queued HTTP requests, closes the journals, writes the manifests, and frees the
 * aggregator. Does nothing for NULL. */
void mrd_aggregator_close(mrd_aggregator *aggregator);
/*
 * Reads certificates, keys, authorities and tokens again. If `only_changed` is true, reads only the
 * files that changed. Connections stay open, and agents must authenticate again. If a file cannot
 * be read, its old contents stay in use. `say` receives a message for each such file, and for each
 * TLS connection that failed since the last call. Returns how many files were read.
 */
unsigned mrd_aggregator_secrets(mrd_aggregator *aggregator, bool only_changed,
                                void (*say)(void *self, const char *id, const mrd_why *why),
                                void *self);
/* The port in the URL is the port in use, even if the options say port 0. */
const char *mrd_aggregator_data_url(const mrd_aggregator *aggregator);
const char *mrd_aggregator_control_url(const mrd_aggregator *aggregator);
/* the port in use; 0 if there is no HTTP */
uint16_t mrd_aggregator_http_port(const mrd_aggregator *aggregator);

/* ---- Sessions, for programs that contain an aggregator ---- */

typedef struct {
    const char *name;
    bool recorder;
    const char *require; /* "all", "any" or a number of nodes that must be ready; NULL means any */
    mrd_dur_ns duration_ns;
    bool merge; /* merge the session at its end */
} mrd_aggregator_session;

mrd_err mrd_aggregator_start(mrd_aggregator *aggregator, const mrd_aggregator_session *request,
                             uint64_t *ret_session, mrd_why *why);
mrd_err mrd_aggregator_stop(mrd_aggregator *aggregator, uint64_t session, mrd_why *why);
/* Returns the state of the session as text, such as "recording", or "unknown" if the session is
 * unknown. Sets *ret_over to true if the state is final. `message` receives the session's message,
 * and may be NULL. */
const char *mrd_aggregator_state(mrd_aggregator *aggregator, uint64_t session, bool *ret_over,
                                 char message[MRD_WHY_MAX]);
/* Returns the session's manifest as JSON text, empty if the session is unknown. The caller frees it
 * with mrd_buf_fini. */
mrd_buf mrd_aggregator_manifest(mrd_aggregator *aggregator, uint64_t session);
/* Returns the number of events that were stored since the open, over all sessions. Tests and
 * progress displays use it. */
uint64_t mrd_aggregator_events(mrd_aggregator *aggregator);

#endif
