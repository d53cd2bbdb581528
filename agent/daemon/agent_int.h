/*
 * agent/daemon/agent_int.h - internals of the agent:
 *
 *   agent.c                the loop
 *   control.c              requests of the aggregator
 *   heartbeat.c, status.c  heartbeats, counts, hello message, metrics
 *   events.c               events of collectors
 *   collect_*.c            collectors
 */
#ifndef MRD_AGENT_DAEMON_AGENT_INT_H
#define MRD_AGENT_DAEMON_AGENT_INT_H

#include "agent/clock/clock.h"
#include "agent/daemon/agent.h"
#include "agent/daemon/collector.h"
#include "agent/daemon/metrics.h"
#include "agent/daemon/sample.h"
#include "agent/daemon/traces.h"
#include "agent/files/files.h"
#include "agent/hang/stacks.h"
#include "agent/link/enrol.h"
#include "agent/link/publish.h"
#include "agent/neuron/devprof.h"
#include "agent/neuron/models.h"
#include "agent/record/jobs.h"
#include "agent/record/trigger.h"
#include "agent/rings/runtime_features.h"
#include "pki/cert_times.h"

/* The tag of a frame is a number that the connection returns with the aggregator's answer. This bit
 * in the tag means that the frame requests a session for a job (agent/record/jobs.h). */
#define MRD_TAG_JOB (1ull << 47)
/* tag of frames with clock data that belong to no session; the agent ignores the answers to these
 * frames */
#define MRD_TAG_CLOCK (1ull << 48)

/* The hardware counters that are sampled for one session. */
typedef struct {
    uint64_t session; /* 0 means that the slot is free */
    mrd_sample *sample;
    mrd_agent *agent;
} mrd_session_counters;

/* Detects slow steps and collectives for one flight recorder (collect_triggers.c). */
typedef struct {
    uint64_t session; /* 0 means that the slot is free */
    mrd_trigger_watch *watch;
} mrd_session_watch;

/* A session that this node could not begin. Heartbeats report it, because the client that requested
 * the session may not wait for the answer any more. */
typedef struct {
    uint64_t session;
    mrd_err err;
    char message[MRD_WHY_MAX];
    mrd_local_ns at;
} mrd_refusal;

/* State of one collector, a row of collectors.def. */
typedef struct {
    void *self;
    bool open, started;
    uint64_t turns_over;
} mrd_collector_slot;

struct mrd_agent {
    mrd_agent_options o; /* options; their texts are borrowed from the caller */
    mrd_node_identity node;
    const char *proc_root;
    uint64_t key, run;
    char state_path[1024], open_path[1024], models_path[1024];
    char *token; /* bearer token; the memory is wiped before it is freed */
    uint64_t token_stamp;
    mrd_local_ns secrets_at; /* when the files with secrets were last checked */
    char secret_said[MRD_WHY_MAX];
    mrd_enrol *enrol;         /* NULL means that the agent does not manage its certificate */
    mrd_transport *transport; /* NULL means that there is no aggregator */
    mrd_spool *spool;
    mrd_drain *drain;
    mrd_record *record;
    mrd_collector_slot collectors[MRD_COLLECTORS_MAX];
    /* until when the agent waits for the aggregator's first list of sessions; 0 means that it does
     * not wait any more */
    mrd_local_ns wait_until;
    /* ids of the sessions for which the collectors' `begin` was called, and `end` was not */
    uint64_t collected[MRD_RECORD_SESSIONS];
    size_t n_collected;
    mrd_hw *hw;
    mrd_sample *sample;
    mrd_session_counters counters[MRD_RECORD_SESSIONS];
    /* sum of the sampling statistics of sessions that have ended */
    mrd_sample_stats counters_before;
    /* when the values of all counters of the node were last emitted, including unchanged values */
    mrd_local_ns all_given;
    mrd_files *files;
    /* ids of the processes that exited most recently; NULL marks an unused entry */
    mrd_ident *gone[64];
    size_t n_gone;
    mrd_devprof *devprof;
    mrd_model_table *models;
    mrd_runtime_seen features;
    /* models_signature() of the last heartbeat with lists of models, and of the last one that the
     * aggregator acknowledged */
    uint64_t models_sent, models_reported;
    mrd_ranks *ranks;   /* tracks what each rank does; NULL if the hang collector does not run */
    mrd_stacks *stacks; /* takes stacks of ranks; NULL if the hang collector does not run */
    /* value of mrd_ranks_version when the last heartbeat was sent, and in the last heartbeat that
     * the aggregator acknowledged */
    uint64_t ranks_sent, ranks_reported;
    /* the same for mrd_ranks_paces; the list of ranks includes the paces */
    uint64_t paces_sent, paces_reported;
    mrd_local_ns paces_at; /* when a list of ranks was last sent */
    mrd_local_ns ranks_at; /* when a heartbeat was last sent early because ranks changed */
    mrd_traces *traces;
    mrd_jobs *jobs;
    /* detects error statuses and numerical errors, for all flight recorders */
    mrd_trigger_watch *errors;
    mrd_session_watch watches[MRD_RECORD_SESSIONS];
    size_t n_watches;
    mrd_publish *publish;
    /* since when the aggregator has been unreachable (0 means reachable), and when this was last
     * logged */
    mrd_local_ns unreached_since, unreached_said;
    mrd_metrics *metrics; /* NULL means that no metrics port is open */
    char *metrics_token;
    mrd_local_ns said_at;
    uint64_t spool_failures;   /* number of failed writes of the spool that were already logged */
    mrd_local_ns spool_failed; /* time of the last failed write of the spool; 0 means none failed */
    mrd_dur_ns capped_ns;
    mrd_dur_ns pause_ns; /* remaining time in which rings are not read, because of the CPU limit */
    bool said_left_out, said_refused;
    uint64_t notices; /* number of notices from workloads that were logged in this minute */
    mrd_local_ns notices_at;
    mrd_clock_sync *clock;
    mrd_local_ns woke; /* end of the last detected suspend of the machine, 0 means none */
    /* a session has stopped, and the burst of clock probes that follows its end was already sent */
    bool ended;
    /* Numbers of events. Events that only report a loss are not counted. */
    uint64_t recovered, delivered, dropped_spool, dropped_refused;
    uint64_t clock_lost; /* number of lost frames of clock data */
    /* stamp of the --tls-cert file when it was last checked; it changes with the file */
    uint64_t cert_stamp;
    mrd_cert_times cert; /* validity of the current certificate; end 0 means that there is none */
    uint64_t triggers;
    char trigger_reason[256];
    mrd_local_ns trigger_at;
    mrd_refusal refusals[MRD_RECORD_SESSIONS]; /* sessions that this node refused most recently */
    size_t n_refusals;
};

/* Text of the notice by which libmeridian reports that the runtime's trace now records other event
 * types (capture/nrt/nrt_trace.c). The argument `before` has the types that it recorded before. */
#define MRD_NOTICE_TYPES "the system trace has other event types"

/* ---- control.c ---- */
void mrd_agent_welcome(void *self, const Mrd__Welcome *welcome);
void mrd_agent_directive(void *self, const Mrd__Control *control);
void mrd_agent_survey(void *self, const Mrd__Control *control, mrd_buf *to);
void mrd_agent_clock(void *self, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received);
/* Records a job's session on this node from times->start on. The aggregator may already have begun
 * the session here before it answered the job's request. Errors: see mrd_record_arm. */
mrd_err mrd_agent_job_go(void *self, const Mrd__Control *control, const mrd_job_times *times,
                         mrd_why *why);
void mrd_agent_job_stop(void *self, uint64_t session, mrd_local_ns stop);
/* Removes sessions and refusals that ended at least MRD_WAIT_FORGET ago. */
void mrd_agent_forget_flushed(mrd_agent *agent, mrd_local_ns now);

/* ---- agent.c ---- */
uint32_t mrd_agent_boot_key(const mrd_agent *agent);
/* Returns true while the agent waits for the first list of sessions from the aggregator. The agent
 * does not read the rings in this time, so that these sessions get their events. Returns false
 * without an aggregator. Also returns false if the agent already has a session, because waiting
 * would lose events of that session. */
bool mrd_agent_waits(mrd_agent *agent, mrd_local_ns now);
/* Adds the counts of all sessions' counters to *sum (collect_counters.c). */
void mrd_agent_counters_sum(const mrd_agent *agent, mrd_sample_stats *sum);
/* Registers a process with the reader of trace files. The reader finds the process of a trace file
 * by its pid (collect_trace_files.c). */
void mrd_agent_note_process(void *agent, mrd_drain_process *process);
/* Implements mrd_files_options.missed (collect_trace_files.c). */
void mrd_agent_trace_missed(void *agent, const mrd_files_complete *file, const char *reason);

/* ---- reachability.c ---- */
void mrd_agent_reach_step(mrd_agent *agent, mrd_local_ns now);
mrd_local_ns mrd_agent_reach_next_ns(const mrd_agent *agent);
/* Returns for how long the aggregator has been unreachable. Returns 0 if it is reachable, or if the
 * agent has no aggregator. */
mrd_dur_ns mrd_agent_unreached_ns(const mrd_agent *agent);
/* Answers /readyz: returns true if the aggregator is reachable. Otherwise stores the reason in
 * `text`. */
bool mrd_agent_ready(void *self, char text[MRD_WHY_MAX]);

/* ---- heartbeat.c ---- */
mrd_err mrd_agent_heartbeat(void *self, mrd_buf *to);

/* ---- status.c ---- */
mrd_err mrd_agent_hello(void *self, mrd_buf *to);
void mrd_agent_label(Mrd__Label *to, char *key, char *value);
/* Fills in the quality of the node's clock. The texts in *to point into *view. */
void mrd_agent_clock_quality(const mrd_agent *agent, mrd_clock_sync_view *view,
                             Mrd__ClockQuality *to);
/* Fills in the numbers of ring files and capture files on this node that are not read. */
void mrd_agent_unread(const mrd_agent *agent, Mrd__Unread *to);
mrd_err mrd_agent_open_metrics(mrd_agent *agent, mrd_why *why);

/* ---- secrets.c ---- */
mrd_err mrd_agent_token_load(mrd_agent *agent, mrd_why *why);
void mrd_agent_secrets_step(mrd_agent *agent, mrd_local_ns now);
mrd_err mrd_agent_open_enrol(mrd_agent *agent, mrd_why *why);

#endif
