/*
 * aggregator/aggregator.h - opens and closes a whole aggregator: for the program
 * meridian-aggregator, for `meridian inspect` (inproc, no ports) and for tests
 *
 * Threads  open starts the loop (aggregator/loop/loop.h) and its worker threads. All functions may be
 *          called from any thread. Because of NNG, a process must not fork after open.
 */
#ifndef MRD_AGGREGATOR_AGGREGATOR_H
#define MRD_AGGREGATOR_AGGREGATOR_H

#include "aggregator/journal/journal.h"
#include "aggregator/viewer/converter.h"
#include "base/clock.h"
#include "proto/link.h"

typedef struct mrd_aggregator mrd_aggregator;

/* Zeroed members mean the default in brackets. Text is borrowed until open returns. */
typedef struct {
    const char *store;        /* directory, created if missing; required */
    const char *data_url;     /* required: "tcp://127.0.0.1:7770", "inproc://x" */
    const char *control_url;  /* required */
    const char *http_address; /* NULL: no HTTP */
    uint16_t http_port;       /* 0: any free one */
    mrd_link_tls tls;         /* of data and control, if their URLs say tls+tcp */
    /* with tls.ca_file: the certificate need not name the agent's instance */
    bool any_certificate;
    size_t http_segments_max;         /* http_api_options.segments_max */
    const char *http_names;           /* mrd_httpd_options.names. NULL means no further names */
    const char *http_cert, *http_key; /* both or none */
    /* token file of aggregator/access/auth.h. NULL means callers without a token have all rights */
    const char *tokens;
    /* settings of aggregator/access/oidc.h, together with tokens. NULL means not used */
    const char *oidc;
    const char *token_review; /* ... of aggregator/access/token_review.h */
    /* authority that signs certificates of nodes; both files or neither */
    const char *agent_ca, *agent_key;
    mrd_dur_ns agent_validity_ns;   /* of such a certificate [30 days] */
    unsigned time_port;             /* UDP port of the clock probes. 0 means any free port */
    mrd_sync sync;                  /* [GROUP] */
    unsigned max_connections;       /* [by the file limit] */
    int64_t agent_rate, total_rate; /* bytes/s [no limit] */
    int64_t max_nodes;              /* [10000] */
    int64_t max_sessions, max_open_sessions; /* [10000], [16] */
    int64_t node_gaps;                       /* [16384] */
    int64_t disk_reserve;                    /* bytes that stay free, -1 means 0 [1 GiB] */
    /* a node without a frame for this long is not connected [5 s] */
    mrd_dur_ns node_timeout_ns;
    /* a node that was away for this long is no longer expected [1 h] */
    mrd_dur_ns node_forget_ns;
    /* from stop until a silent node counts as lost [60 s] */
    mrd_dur_ns flush_timeout_ns;
    mrd_dur_ns hang_wait_ns;                 /* mrd_hang_options.unlearned [30 min] */
    mrd_dur_ns arm_timeout_ns, lead_ns;      /* [2 s]; from the last answer to the start [500 ms] */
    mrd_dur_ns retain_ns;                    /* [for ever] */
    int64_t retain_bytes;                    /* [no limit] */
    int64_t session_bytes;                   /* [no limit] */
    const char *job_default, *job_allow;     /* borrowed. NULL means "off", "" */
    int64_t job_sessions, job_sessions_user; /* [none] */
    /* maximum bytes of a Perfetto file [unlimited: one file] */
    uint64_t merge_split;
    const char
        /* further formats of merged sessions, separated by commas; this text and the next three
         * must live until close */
        *merge_formats;
    const char *export_to; /* shared storage: a directory or s3://bucket/prefix. NULL means none */
    const char
        /* further targets that a session may name, aggregator/core/common/targets.h. NULL means none */
        *export_targets;
    bool export_owner;                 /* exported files belong to the user of the session's job */
    const char *export_path, *cluster; /* [{date}/{session}], [""] */
    int64_t export_rate;               /* bytes/s [no limit] */
    mrd_converter_settings viewer;     /* viewer of device profiles. zeroed means no viewer runs */
} mrd_aggregator_options;

/* Errors: errors of the store, the addresses and the certificates, each with a message. */
mrd_err mrd_aggregator_open(const mrd_aggregator_options *options, mrd_aggregator **ret_aggregator,
                            mrd_why *why);
/* Answers the queued requests, closes journals and writes manifests. NULL is fine. */
void mrd_aggregator_close(mrd_aggregator *aggregator);
/*
 * Reads certificates, keys, authorities and tokens again; with `only_changed` only the files that
 * changed. Connections stay, and agents authenticate once more. A file that cannot be read keeps
 * its old state. `say` receives a message for each such file, and for each TLS connection that
 * failed since the last call. Returns how many files were read.
 */
unsigned mrd_aggregator_secrets(mrd_aggregator *aggregator, bool only_changed,
                                void (*say)(void *self, const char *id, const mrd_why *why),
                                void *self);
const char *mrd_aggregator_data_url(const mrd_aggregator *aggregator); /* with the real port */
const char *mrd_aggregator_control_url(const mrd_aggregator *aggregator);
uint16_t mrd_aggregator_http_port(const mrd_aggregator *aggregator); /* 0 without HTTP */

/* ---- Sessions, for programs that run the aggregator inside ---- */

typedef struct {
    const char *name;
    bool recorder;
    const char *require; /* "all", "any" or a number. NULL means any */
    mrd_dur_ns duration_ns;
    bool merge; /* at the end */
} mrd_aggregator_session;

mrd_err mrd_aggregator_start(mrd_aggregator *aggregator, const mrd_aggregator_session *request,
                             uint64_t *ret_session, mrd_why *why);
mrd_err mrd_aggregator_stop(mrd_aggregator *aggregator, uint64_t session, mrd_why *why);
/* Returns the state as text ("recording", ...), "unknown" for an unknown session. Sets *ret_over if
 * the state is final. `message` may be NULL. */
const char *mrd_aggregator_state(mrd_aggregator *aggregator, uint64_t session, bool *ret_over,
                                 char message[MRD_WHY_MAX]);
/* Returns the manifest as JSON text, empty for an unknown session. Free with mrd_buf_fini. */
mrd_buf mrd_aggregator_manifest(mrd_aggregator *aggregator, uint64_t session);
/* Returns the stored events of all sessions since open, for tests and progress. */
uint64_t mrd_aggregator_events(mrd_aggregator *aggregator);

#endif
