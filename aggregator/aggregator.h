/*
 * aggregator/aggregator.h - a whole aggregator in one call: for the program meridian-aggregator,
 * for `meridian inspect` (inproc, no ports) and for tests.
 *
 * Threads  open starts the loop (aggregator/loop.h) and the threads it gives work to; all functions may be called from
 *          any thread. Because of NNG: never fork after open.
 */
#ifndef MRD_AGGREGATOR_AGGREGATOR_H
#define MRD_AGGREGATOR_AGGREGATOR_H

#include "aggregator/journal.h"
#include "aggregator/viewer.h"
#include "base/clock.h"
#include "proto/link.h"

typedef struct mrd_aggregator mrd_aggregator;

/* Zeroed members mean the default in brackets. Text is borrowed until open returns. */
typedef struct {
    const char *store;                /* folder, created; required */
    const char *data_url;             /* required: "tcp://127.0.0.1:7770", "inproc://x" */
    const char *control_url;          /* required */
    const char *http_address;         /* NULL: no HTTP */
    uint16_t http_port;               /* 0: any free one */
    mrd_link_tls tls;                 /* of data and control, when their URLs say tls+tcp */
    bool any_certificate;             /* with tls.ca_file: it need not name the agent's instance */
    size_t http_segments_max;         /* http_api_options.segments_max */
    const char *http_names;           /* mrd_httpd_options.names; NULL: none */
    const char *http_cert, *http_key; /* both or none */
    const char *tokens;               /* token file of aggregator/auth.h; NULL: everybody may all */
    const char *oidc;                 /* settings of aggregator/oidc.h, with tokens; NULL: none */
    const char *token_review;         /* ... of aggregator/token_review.h */
    const char *agent_ca, *agent_key; /* authority that signs certificates of nodes; both or none */
    mrd_dur_ns agent_validity_ns;     /* of such a certificate [30 days] */
    unsigned time_port;               /* UDP, of the clock probes; 0: any free one */
    mrd_sync sync;                    /* [GROUP] */
    unsigned max_connections;         /* [by the file limit] */
    int64_t agent_rate, total_rate;   /* bytes/s [no limit] */
    int64_t max_nodes;                /* [10000] */
    int64_t max_sessions, max_open_sessions; /* [10000], [16] */
    int64_t node_gaps;                       /* [16384] */
    int64_t disk_reserve;                    /* bytes; -1: none [1 GiB] */
    mrd_dur_ns node_timeout_ns;              /* silent for so long: not there [5 s] */
    mrd_dur_ns node_forget_ns;               /* gone for so long: not expected any more [1 h] */
    mrd_dur_ns flush_timeout_ns;             /* from stop to giving a node up [60 s] */
    mrd_dur_ns arm_timeout_ns, lead_ns;      /* [2 s]; from agreement to start [500 ms] */
    mrd_dur_ns retain_ns;                    /* [for ever] */
    int64_t retain_bytes;                    /* [no limit] */
    int64_t session_bytes;                   /* [no limit] */
    const char *job_default, *job_allow;     /* borrowed; NULL: "off", "" */
    int64_t job_sessions, job_sessions_user; /* [none] */
    uint64_t merge_split;                    /* bytes of a Perfetto file [one file] */
    const char
        *merge_formats;    /* further formats of merged sessions, a comma list; this text and the
                                  next three must live until close */
    const char *export_to; /* shared storage: a folder or s3://bucket/prefix; NULL: none */
    const char
        *export_targets; /* others that a session may name, aggregator/core/targets.h; NULL: none */
    bool export_owner;   /* copies belong to the user of the session's job */
    const char *export_path, *cluster; /* [{date}/{session}], [""] */
    int64_t export_rate;               /* bytes/s [no limit] */
    mrd_viewer_settings viewer;        /* of device profiles; zeroed: none is run */
} mrd_aggregator_options;

/* Errors: those of the store, the addresses, the certificates, each with a message. */
mrd_err mrd_aggregator_open(const mrd_aggregator_options *options, mrd_aggregator **ret_aggregator,
                            mrd_why *why);
/* Answers what is in the queue, closes journals, writes manifests. NULL is fine. */
void mrd_aggregator_close(mrd_aggregator *a);
/*
 * Certificates, keys, authorities and tokens again from their files; with `only_changed` only what
 * is not what was read. Connections stay; agents prove their identity once more. Each thing that
 * cannot be read keeps its old state and is a message for say, as are TLS connections that failed
 * since the last call. Returns how many things were read.
 */
unsigned mrd_aggregator_secrets(mrd_aggregator *a, bool only_changed,
                                void (*say)(void *self, const char *id, const mrd_why *why),
                                void *self);
const char *mrd_aggregator_data_url(const mrd_aggregator *a); /* with the real port */
const char *mrd_aggregator_control_url(const mrd_aggregator *a);
uint16_t mrd_aggregator_http_port(const mrd_aggregator *a); /* 0 without HTTP */

/* ---- Sessions, as HTTP does it, for programs that run the aggregator inside ---- */

typedef struct {
    const char *name;
    bool recorder;
    const char *require; /* "all", "any" or a number; NULL: any */
    mrd_dur_ns duration_ns;
    bool merge; /* at the end */
} mrd_aggregator_session;

mrd_err mrd_aggregator_start(mrd_aggregator *a, const mrd_aggregator_session *request,
                             uint64_t *ret_session, mrd_why *why);
mrd_err mrd_aggregator_stop(mrd_aggregator *a, uint64_t session, mrd_why *why);
/* The state as text ("recording", ...), with *ret_over when nothing more will happen; message may
 * be NULL. "unknown" for a session that is not there. */
const char *mrd_aggregator_state(mrd_aggregator *a, uint64_t session, bool *ret_over,
                                 char message[MRD_WHY_MAX]);
/* The manifest as JSON text; empty for a session that is not there. Free with mrd_buf_fini. */
mrd_buf mrd_aggregator_manifest(mrd_aggregator *a, uint64_t session);
/* Stored events of all sessions since open, for tests and progress. */
uint64_t mrd_aggregator_events(mrd_aggregator *a);

#endif
