/*
 * agent/agent.h - the node's daemon as a library: one loop over rings, spool, connection and
 * control.
 *
 * Threads: one; the transport and counter sessions have their own. Nothing here forks.
 */
#ifndef MRD_AGENT_AGENT_H
#define MRD_AGENT_AGENT_H

#include "agent/record.h"
#include "agent/transport.h"
#include "hw/hw.h"
#include "hw/identity.h"

typedef struct {
    char *data_url, *control_url, *token_file;
    char *tls_ca, *tls_cert, *tls_key, *tls_name;
    char *join_server, *join_token_file; /* NULL: certificates are somebody else's business */
    char *instance_id, *job;
    char *ring_dir, *proc_root, *sys_root, *cgroup_root, *monitor, *neuron_ls, *fake_counters;
    char *spool_dir, *job_dir, *pod_dir;
    int64_t spool_bytes, recorder_bytes, ring_bytes;
    int clock_probes; /* mrd_probes_transport */
    int64_t window;
    mrd_dur_ns flush;
    bool containers, imds;
    mrd_strlist counters; /* patterns of hw counters to sample */
    mrd_dur_ns sample_period, process_period;
    mrd_strlist watch;  /* capture directories */
    bool watch_inspect; /* also the NEURON_RT_INSPECT_OUTPUT_DIR of processes */
    mrd_dur_ns
        stable; /* a file that did not change for so long, and nobody has open, is complete */
    int64_t artifact_max, files_max;
    double cpu_limit; /* percent of one core, 0: none */
    mrd_strlist trigger_types;
    double slow_step; /* x median */
    char *slow_step_name;
    mrd_dur_ns pending_collective;
    int64_t metrics_port;
    char *metrics_address, *metrics_token_file;
    bool simulated;
    int log_level;
    bool log_json, insecure, check;
    char *config, *user;
} mrd_agent_options;

/* Whether the agent gets and renews its certificate by itself (agent/enrol.h). */
static inline bool
mrd_agent_joins(const mrd_agent_options *o)
{
    return o->join_server != NULL || o->join_token_file != NULL;
}
/* Where and how the agent connects: fills the control address when it was not given, and, for an agent
 * that joins by itself, the address of HTTP and the files of its certificate. *ret_link borrows from o.
 * Errors: INVALID for an address of another form, for TLS files without an address with TLS, and for
 * files that have no place; AUTH for another machine without TLS, unless `insecure`. */
mrd_err mrd_agent_link_options(mrd_agent_options *o, mrd_link_options *ret_link, mrd_why *why);

typedef struct mrd_agent mrd_agent;

/* transport is owned from here on, also on failure; NULL runs without an aggregator (the spool
 * fills up, then its oldest frames are dropped and counted). Errors: those of its parts. */
mrd_err mrd_agent_open(const mrd_agent_options *options, const mrd_node_identity *node,
                       mrd_transport *transport, mrd_agent **ret_agent, mrd_why *why);
/* One turn; waits at most timeout_ms when there is nothing to do. */
void mrd_agent_step(mrd_agent *a, int timeout_ms);
/* For a loop that plays many agents: when the next step is due (RAW), and the descriptors that ask
 * for one before. Both may change with every step. */
#define MRD_AGENT_FDS 16
mrd_local_ns mrd_agent_next_ns(const mrd_agent *a);
size_t mrd_agent_fds(const mrd_agent *a, int ret_fds[MRD_AGENT_FDS]);
/* Reads what rings hold, closes batches, tries for at most `patience` to get rid of everything.
 * True when all was acknowledged. */
bool mrd_agent_drain(mrd_agent *a, mrd_dur_ns patience);
void mrd_agent_close(mrd_agent *a);
/* Certificate, key, authorities and token again from their files; connections stay. By itself the
 * agent does so when a file changes. What cannot be read keeps its old state, which is logged. */
void mrd_agent_reload(mrd_agent *a);

typedef struct {
    mrd_drain_tally drain;
    mrd_spool_stats spool;
    uint64_t begun, delivered, held;
    uint64_t dropped[MRD_DROP_CAUSES];
    uint64_t frames_sent, frames_acked, frames_refused, frames_retried, hellos, reconnects;
    uint64_t bytes_sent;
    uint64_t triggers_seen;
    uint64_t artifacts, artifacts_sent, artifact_bytes, artifacts_failed, files_beyond;
    uint64_t files_refused, files_ignored, files_elsewhere; /* in capture directories now */
    uint64_t traces, trace_events, traces_failed;
    uint64_t samples, sample_errors;
    bool connected;            /* the aggregator said welcome */
    mrd_dur_ns clock_bound_ns; /* of the start times, -1 unknown */
} mrd_agent_counts;

/* begun = delivered + dropped + held, exact between two steps. Events that were in the spool when
 * the agent started count as begun. */
void mrd_agent_counters(const mrd_agent *a, mrd_agent_counts *ret_counts);
/* Prometheus text 0.0.4, or OpenMetrics. */
void mrd_agent_metrics(const mrd_agent *a, bool open, mrd_buf *to);
/* For control without an aggregator (tests, `meridian inspect`): the same as a survey's message. */
void mrd_agent_control(mrd_agent *a, const Mrd__Control *control, Mrd__ControlReply *ret_reply,
                       char message[MRD_WHY_MAX]);
mrd_record *mrd_agent_borrow_record(const mrd_agent *a);
mrd_drain *mrd_agent_borrow_drain(const mrd_agent *a);

#endif
