/* agent/agent_int.h - inside of the agent: agent.c (loop), control.c (the aggregator's requests), heartbeat.c and status.c
 * (counts, hello, metrics), events.c (what collectors give), collect_*.c (collectors). */
#ifndef MRD_AGENT_AGENT_INT_H
#define MRD_AGENT_AGENT_INT_H

#include "agent/agent.h"
#include "agent/clock.h"
#include "agent/collector.h"
#include "agent/devprof.h"
#include "agent/enrol.h"
#include "agent/files.h"
#include "agent/jobs.h"
#include "agent/metrics.h"
#include "agent/models.h"
#include "agent/publish.h"
#include "agent/runtime_features.h"
#include "agent/sample.h"
#include "agent/traces.h"
#include "agent/trigger.h"
#include "proto/cert_times.h"

#define MRD_TAG_JOB   (1ull << 47) /* agent/jobs.h */
#define MRD_TAG_CLOCK (1ull << 48) /* clock data outside a session: its answer does not matter */

/* Of a session that asked for counters. */
typedef struct {
    uint64_t session; /* 0: free */
    mrd_sample *sample;
    mrd_agent *agent;
} mrd_session_counters;

/* A session that this node could not begin: told with the heartbeats, because who asked may not be
 * listening for an answer. */
typedef struct {
    uint64_t session;
    mrd_err err;
    char message[MRD_WHY_MAX];
    mrd_local_ns at;
} mrd_refusal;

/* Of one row of collectors.def. */
typedef struct {
    void *self;
    bool open, started;
    uint64_t turns_over;
} mrd_collector_slot;

struct mrd_agent {
    mrd_agent_options o; /* texts borrowed from the caller's */
    mrd_node_identity node;
    const char *proc_root;
    uint64_t key, run;
    char *fake_script, state_path[1024], open_path[1024], models_path[1024];
    char *token; /* wiped when it goes */
    uint64_t token_stamp;
    mrd_local_ns secrets_at; /* files of secrets were looked at */
    char secret_said[MRD_WHY_MAX];
    mrd_enrol *enrol;         /* NULL: certificates are somebody else's business */
    mrd_transport *transport; /* NULL: no aggregator */
    mrd_spool *spool;
    mrd_drain *drain;
    mrd_record *record;
    mrd_collector_slot collectors[MRD_COLLECTORS_MAX];
    mrd_local_ns wait_until;                 /* for the first word of sessions; 0: it is over */
    uint64_t collected[MRD_RECORD_SESSIONS]; /* sessions that collectors began */
    size_t n_collected;
    mrd_hw *hw;
    mrd_sample *sample;
    mrd_session_counters counters[MRD_RECORD_SESSIONS];
    mrd_sample_stats counters_before; /* of sessions that are gone */
    mrd_local_ns all_given;           /* when the node's counters were last given whole */
    mrd_files *files;
    mrd_ident *gone[64]; /* the last processes that ended; NULL: not so many yet */
    size_t n_gone;
    mrd_devprof *devprof;
    mrd_model_table *models;
    mrd_runtime_seen features;
    uint64_t models_sent,
        models_reported; /* signature of the lists in the last heartbeat; answered */
    mrd_traces *traces;
    mrd_jobs *jobs;
    mrd_trigger_watch *trigger; /* NULL: none wanted */
    mrd_publish *publish;
    mrd_local_ns unreached_since, unreached_said; /* the aggregator; 0: it is reached; not said */
    mrd_metrics *metrics;                         /* NULL: no port */
    char *metrics_token;
    mrd_local_ns said_at;
    uint64_t spool_failures;   /* seen */
    mrd_local_ns spool_failed; /* the last of them; 0: it is written */
    mrd_dur_ns capped_ns;
    mrd_dur_ns pause_ns; /* with a cap: still to be paused before rings are read again */
    bool said_left_out, said_refused;
    uint64_t notices; /* of this minute */
    mrd_local_ns notices_at;
    mrd_clock_sync *clock;
    mrd_local_ns woke; /* from the last suspend of the machine that was noticed, 0: none */
    bool ended;        /* the session's last burst of probes was made */
    /* Events, not losses. */
    uint64_t recovered, delivered, dropped_spool, dropped_refused;
    uint64_t clock_lost; /* frames of clock data */
    uint64_t cert_stamp; /* of --tls-cert when it was looked at */
    mrd_cert_times cert; /* the one that it holds; end 0: none */
    uint64_t triggers;
    char trigger_reason[256];
    mrd_local_ns trigger_at;
    mrd_refusal refusals[MRD_RECORD_SESSIONS]; /* the last ones */
    size_t n_refusals;
};

/* control.c */
void mrd_agent_welcome(void *self, const Mrd__Welcome *welcome);
void mrd_agent_directive(void *self, const Mrd__Control *control);
void mrd_agent_survey(void *self, const Mrd__Control *control, mrd_buf *to);
void mrd_agent_clock(void *self, mrd_local_ns sent, const Mrd__Ack *ack, mrd_local_ns received);
/* A job's session: from t->start of this node on, whether or not the aggregator began it here before it answered the job. Errors: those
 * of arming and starting. */
mrd_err mrd_agent_job_go(void *self, const Mrd__Control *control, const mrd_job_times *t,
                         mrd_why *why);
void mrd_agent_job_stop(void *self, uint64_t session, mrd_local_ns stop);
void mrd_agent_forget_flushed(mrd_agent *a, mrd_local_ns now); /* and old refusals */

/* agent.c */
uint32_t mrd_agent_boot_key(const mrd_agent *a);
/* It is not known yet which sessions are under way: what workloads give stays where it is, so that those have it. Not
 * without an aggregator, nor when it knows of one: that would lose what others wait for. */
bool mrd_agent_waits(mrd_agent *a, mrd_local_ns now);
/* collect_counters.c: of the sessions; adds to *sum. */
void mrd_agent_counters_sum(const mrd_agent *a, mrd_sample_stats *sum);
/* collect_trace_files.c: what trace files of this process are to be called. */
void mrd_agent_note_process(void *agent, mrd_drain_process *process);

/* reach.c */
void mrd_agent_reach_step(mrd_agent *a, mrd_local_ns now);
mrd_local_ns mrd_agent_reach_next_ns(const mrd_agent *a);
mrd_dur_ns mrd_agent_unreached_ns(const mrd_agent *a); /* 0: it is reached, or none is given */
/* For /readyz: the aggregator is reached; *text says what is the matter when it is not. */
bool mrd_agent_ready(void *self, char text[MRD_WHY_MAX]);

/* heartbeat.c */
mrd_err mrd_agent_heartbeat(void *self, mrd_buf *to);

/* status.c */
mrd_err mrd_agent_hello(void *self, mrd_buf *to);
void mrd_agent_label(Mrd__Label *to, char *key, char *value);
/* *view holds the texts of *to. */
void mrd_agent_clock_quality(const mrd_agent *a, mrd_clock_sync_view *view, Mrd__ClockQuality *to);
/* What is there and not read. */
void mrd_agent_unread(const mrd_agent *a, Mrd__Unread *to);
mrd_err mrd_agent_open_metrics(mrd_agent *a, mrd_why *why);

/* secrets.c */
mrd_err mrd_agent_token_load(mrd_agent *a, mrd_why *why);
void mrd_agent_secrets_step(mrd_agent *a, mrd_local_ns now);
mrd_err mrd_agent_open_enrol(mrd_agent *a, mrd_why *why);

#endif
