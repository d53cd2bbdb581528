/* agent/daemon/agent.h - the daemon of a node as a library. A single loop handles the ring buffers
 * of processes, the spool, the connection and control messages. The functions must be called by one
 * thread. The transport and the counter sessions have threads of their own. Nothing here calls
 * fork(). */
#ifndef MRD_AGENT_DAEMON_AGENT_H
#define MRD_AGENT_DAEMON_AGENT_H

#include "agent/link/transport.h"
#include "agent/record/record.h"
#include "hw/hw.h"
#include "hw/identity.h"

typedef struct {
    char *data_url, *control_url, *token_file;
    char *tls_ca, *tls_cert, *tls_key, *tls_name;
    /* Server and token file from which the agent gets its certificate. NULL means that the agent
     * does not manage its certificate. */
    char *join_server, *join_token_file;
    char *instance_id, *job;
    char *ring_dir, *proc_root, *sys_root, *cgroup_root, *monitor, *neuron_ls;
    char *spool_dir, *job_dir, *pod_dir;
    int64_t spool_bytes, recorder_bytes, ring_bytes;
    int clock_probes; /* how clock probes are sent to the aggregator: a mrd_probes_transport */
    mrd_dur_ns flush;
    bool containers, imds;
    mrd_strlist counters; /* names of hardware counters to sample; may be patterns with * and ? */
    mrd_dur_ns sample_period, process_period;
    mrd_strlist watch; /* paths of capture directories to watch */
    /* also send files from the directory that NEURON_RT_INSPECT_OUTPUT_DIR names in the environment
     * of a process */
    bool watch_inspect;
    /* A capture file is complete if it is unchanged for this time and no process has it open for
     * writing. */
    mrd_dur_ns stable;
    int64_t artifact_max, files_max;
    double cpu_limit; /* maximum CPU use in percent of one core; 0 means no limit */
    int64_t metrics_port;
    char *metrics_address, *metrics_token_file;
    bool simulated;
    int log_level;
    bool log_json, insecure, check;
    char *config, *user;
} mrd_agent_options;

/* Returns true if the agent obtains and renews its own certificate (agent/link/enrol.h). */
static inline bool
mrd_agent_joins(const mrd_agent_options *o)
{
    return o->join_server != NULL || o->join_token_file != NULL;
}
/*
 * Fills in *ret_link, which says where and how the agent connects. The texts in *ret_link belong to
 * `options`. Also fills in missing options: the control address and, for an agent with its own
 * certificate, the HTTP address and the certificate files.
 *
 * Errors: INVALID for an address that is not tcp://host:port or tls+tcp://host:port, for TLS files
 * although no address uses TLS, and for a certificate that the agent obtains itself without a
 * directory for its files. AUTH for an address on another machine without TLS, unless `insecure` is
 * set.
 */
mrd_err mrd_agent_link_options(mrd_agent_options *options, mrd_link_options *ret_link,
                               mrd_why *why);

typedef struct mrd_agent mrd_agent;

/* Opens the agent. Takes ownership of the transport, also on failure. If the transport is NULL, the
 * agent runs without an aggregator. The spool then fills up, and its oldest frames are dropped and
 * counted. Errors: the errors of the modules that the agent opens. */
mrd_err mrd_agent_open(const mrd_agent_options *options, const mrd_node_identity *node,
                       mrd_transport *transport, mrd_agent **ret_agent, mrd_why *why);
/* Runs one turn of the agent's loop. Waits at most timeout_ms if there is nothing to do. */
void mrd_agent_step(mrd_agent *agent, int timeout_ms);
/* For a program that runs many agents in one loop. mrd_agent_next_ns returns when the agent's next
 * step is due, on CLOCK_MONOTONIC_RAW. mrd_agent_fds gets file descriptors and returns their
 * number. If one of them is readable, the next step is due at once. Time and descriptors may change
 * with every step. */
#define MRD_AGENT_FDS 16
mrd_local_ns mrd_agent_next_ns(const mrd_agent *agent);
size_t mrd_agent_fds(const mrd_agent *agent, int ret_fds[MRD_AGENT_FDS]);
/* Reads the remaining events from the rings, seals all batches, and sends frames for at most
 * `patience` nanoseconds. Returns true if the aggregator acknowledged all frames. */
bool mrd_agent_drain(mrd_agent *agent, mrd_dur_ns patience);
void mrd_agent_close(mrd_agent *agent);
/* Reads certificate, key, authorities and token from their files again. Connections stay open. The
 * agent also does this by itself when a file changes. If a file cannot be read, the old contents
 * remain in use, which is logged. */
void mrd_agent_reload(mrd_agent *agent);

typedef struct {
    mrd_drain_tally drain;
    mrd_spool_stats spool;
    uint64_t begun, delivered, held;
    uint64_t dropped[MRD_DROP_CAUSES];
    uint64_t frames_sent, frames_acked, frames_refused, frames_retried, hellos, reconnects;
    uint64_t bytes_sent;
    uint64_t triggers_seen;
    uint64_t artifacts, artifacts_sent, artifact_bytes, artifacts_failed, files_beyond;
    /* Numbers of files in the current capture directories that are not sent. `refused` counts links
     * and files of other users, `ignored` unknown kinds of files, `elsewhere` files of other
     * nodes. */
    uint64_t files_refused, files_ignored, files_elsewhere;
    uint64_t traces, trace_events, traces_failed;
    uint64_t samples, sample_errors;
    bool connected; /* the aggregator has answered the hello message */
} mrd_agent_counts;

/* Gets the agent's counts of events and files. Between two steps, each event that was begun is
 * either delivered, dropped or held. Events that were in the spool when the agent started count as
 * begun. */
void mrd_agent_counters(const mrd_agent *agent, mrd_agent_counts *ret_counts);
/* Appends the metrics to *to, as OpenMetrics if `open` is true, otherwise as Prometheus text
 * 0.0.4. */
void mrd_agent_metrics(const mrd_agent *agent, bool open, mrd_buf *to);
/* Handles a control message as if the aggregator had sent the message. Used by tests and `meridian
 * inspect`. */
void mrd_agent_control(mrd_agent *agent, const Mrd__Control *control, Mrd__ControlReply *ret_reply,
                       char message[MRD_WHY_MAX]);
mrd_record *mrd_agent_borrow_record(const mrd_agent *agent);
mrd_drain *mrd_agent_borrow_drain(const mrd_agent *agent);

#endif
