/*
 * tests/sim/cluster_node.h - a node of the simulated cluster that runs the real agent: its loop
 * (agent/daemon/agent.h), recorder, spool with recovery, publisher, control, and clock
 * synchronisation with probes. Disk (tests/sim/disk.h), network and clocks are simulated.
 *
 * Events come from a generator (cluster_source.c) instead of a workload's rings. It continues while
 * the agent is down, keeps uncommitted events and gives them again. Files are on the workload's own
 * disk. Collectors that read the machine (rings, counters, jobs) are absent.
 *
 * A process dies in a call of its disk or between two turns. From then on it has no effect on its
 * disk or network until its successor starts.
 *
 * Files    cluster_node.c (processes, turns, faults), cluster_link.c (connections), cluster_udp.c
 *          (clock probes by UDP), cluster_loop.c (the real aggregator), cluster_wire.c (messages of
 *          both), cluster_files.c (files), cluster_merge.c (profiles), cluster_pause.c (pauses),
 *          cluster_source.c (events), cluster_clock.c (clocks), cluster_truth.c (invariants of a
 *          node).
 */
#ifndef MRD_TESTS_SIM_CLUSTER_NODE_H
#define MRD_TESTS_SIM_CLUSTER_NODE_H

#include "agent/daemon/agent_int.h"
#include "aggregator/loop/loop.h"
#include "tests/sim/cluster_int.h"
#include "tests/sim/disk.h"

/* ---- Events of the workload ---- */

#define SOURCE_KEY 0x73696d2d736f7572u /* key of the source's position in a commit */

typedef struct {
    int64_t ts_ns, dur_ns; /* start in the node's RAW time, and duration */
    int64_t at;            /* true time of the event's end */
    uint32_t lost;         /* if above 0: this number of events was lost, instead of an event */
} source_event;

typedef struct {
    source_event *v;
    size_t n, cap;
    size_t first;          /* index of the first event that the running agent process reads */
    size_t given;          /* number of events given to the recorder of this process */
    size_t told;           /* read position that the pending commit of the spool contains */
    size_t committed;      /* the next agent process begins to read at this position */
    uint64_t events, lost; /* events and losses that this process gave to its recorder */
} source;

/* The expected contents of a session. */
typedef struct {
    uint64_t session;
    uint8_t *has; /* for each event of the source: whether the session must contain it */
    size_t n_has;
    uint64_t begun;
    /* the expected number of events is uncertain after a reboot, a cancelled session or a lost
     * spool */
    bool weak;
    bool anew;       /* the spool was lost, and only events begun after that are counted */
    uint64_t before; /* number of events begun before the spool was lost */
    bool known;      /* the running agent process has the session */
    uint64_t late;   /* count of late events when this process started */
    bool over;       /* the node reported all events of the session as flushed */
    enum { STOP_NOT_TOLD, STOP_SAVED, STOP_NOT_SAVED } stop; /* saved by the node for a successor */
    int64_t checked_start;
    unsigned revision;    /* revision of the last change that the agent applied */
    int64_t pause_margin; /* possible error of the times of its pauses; -1 if unknown */
    uint64_t shown;
    uint64_t windows[MRD_RECORD_TRIGGERS];
    unsigned n_windows;
} session_truth;

/* ---- Frames ---- */

typedef struct {
    uint64_t session, epoch, seq;
} frame_number;

typedef struct {
    frame_number *v;
    size_t n;
} frame_numbers;

/* ---- Connections ---- */

typedef struct sim_link sim_link;

/* ---- A node ---- */

struct sim_node {
    world *w;
    agent *a;
    mrd_agent *agent;  /* NULL if the agent's process does not run */
    mrd_agent *opened; /* like `agent`, but also set while the agent opens and closes */
    mrd_agent_options o;
    mrd_node_identity id;
    char spool[64];
    sim_disk *disk;
    unsigned boot, disks, power_cuts;
    bool dying;     /* the process counts as dead, but its code has not returned yet */
    bool kept;      /* its unacknowledged frames were recorded when it died in a disk call */
    bool suspended; /* the node's machine is suspended */
    int64_t wall_off, slept, woken_at;
    /* begin of the current second, and number of turns (passes of the agent's main loop) in it */
    int64_t second;
    unsigned turns;
    int64_t slow;       /* delay of the node's link, one way */
    uint64_t dies_in;   /* the agent is killed in this number of disk calls; 0 for never */
    bool dies_between;  /* dies_in counts only calls for another file than the previous call */
    bool dies_again;    /* the next agent is killed, too */
    bool full_between;  /* full_in counts only calls for another file than the previous call */
    char last_path[96]; /* path of the last counted call */
    bool tears;         /* the agent is killed in its next write to a segment of its spool */
    unsigned starved;   /* number of answers for which the spool's disk will have no space */
    enum {
        APART_NOT,
        APART_ANSWER,
        APART_COUNTS
    } apart;            /* then it dies between the record of an answer and the counts */
    uint64_t full_in;   /* number of disk calls until one fails with ENOSPC; 0 for never */
    bool short_of_room; /* the node's disk has little space */
    bool spool_gone;    /* the next agent finds no spool */
    bool checked;       /* the running agent was checked once */
    bool disk_failed;   /* a disk call failed in this turn, or may have */
    sim_link *links;
    sim_disk *work; /* the disk of the workload's files, which loses nothing */
    char capture[64];
    char *watch[1];
    struct work_file *files;
    size_t n_files;
    bool wall_stepped;
    unsigned wakes; /* the wake that counts */
    int64_t wake_at;
    unsigned timeline; /* index in w->timelines of the timeline in the last welcome message */
    bool welcomed;
    source source;
    session_truth *truths;
    size_t n_truths;
    /* Frames that a full spool dropped while they were in flight, before the process died. The
     * aggregator may have stored them, but the next process counts them as lost. */
    frame_numbers unacknowledged;
    frame_numbers sent; /* sent by the last process and unanswered when it died */
    mrd_drain_process process;
    int64_t crossed_at;
    /* For its clock probes. */
    /* true time in the node's process, which may differ from the world's time during a turn */
    int64_t cpu_at;
    int64_t reading_takes; /* time in ns that each reading of a clock takes */
    int64_t udp_base[2];   /* delay to the aggregator, and back */
    unsigned udp_loss[2];  /* per thousand */
    bool udp_blocked;      /* by a firewall */
};

/* cluster_clock.c: selects the clocks that clock_gettime reads. n is NULL for the aggregator. w is
 * NULL for the machine that runs the test. */
void turn_of(world *w, sim_node *n);
sim_node *node_of_turn(void);

/* Returns the true time in the node's process. Time may pass between two calls of a turn. */
int64_t node_now(const sim_node *n);

/* cluster_udp.c: new listening sockets belong to this world. */
void udp_server_of(world *w);
/* Sets the aggregator's wall clock by up to 2^octaves microseconds, so 32 means hours. */
void udp_step_wall(world *w, unsigned octaves);

/* cluster_link.c: connections of the node that has the turn. */
mrd_transport *link_new(sim_node *n, bool probes);
void link_cut_all(sim_node *n);
void link_reply(sim_node *n, uint32_t conn, uint64_t request, mrd_bytes frame, unsigned timeline);
void link_survey(sim_node *n, uint64_t survey, mrd_bytes frame);

/* cluster_loop.c */
bool loop_begin(world *w, mrd_session_store *store, const mrd_core_options *core);
void loop_end(world *w);
void loop_command(world *w, mrd_loop_fn *fn, const void *arg, size_t len);
void loop_conn(world *w, uint32_t conn, bool up); /* from the aggregator's view */
void loop_frame(world *w, const agent *a, uint32_t conn, uint64_t request, mrd_bytes data);
void loop_answer(world *w, uint64_t survey, mrd_bytes data);
void loop_check(world *w);

/* cluster_wire.c */
void wire_keep(world *w, const agent *a, const mrd_frame *f, mrd_bytes data); /* it arrived */
void wire_survey(world *w, mrd_bytes frame);
/* Checks an answer of the aggregator. Returns the timeline of a welcome, else 0. */
unsigned wire_answer(world *w, const agent *a, mrd_bytes request, mrd_bytes answer);
void wire_free(world *w);
uint64_t wire_events(const world *w, uint32_t node, const stored_frame *f); /* losses apart */
/* Returns the bytes of a frame that arrived, or NULL. */
const mrd_buf *wire_bytes(const world *w, uint32_t node, const stored_frame *f);

/* cluster_source.c */
void source_work(world *w, uint64_t index, uint64_t boot, void *p);
void source_lost(sim_node *n); /* with the machine */

/* cluster_files.c */
void files_new(sim_node *n);
void files_free(sim_node *n);
void files_work(world *w, uint64_t index, uint64_t boot, void *p);
/* Called when the aggregator answers the announcement or the end of a file. */
void files_answered(world *w, const agent *a, const mrd_msg *request, const mrd_msg *answer);
/* called when the node first reports the session as flushed */
void files_flushed(sim_node *n, const mrd_record_status *st);
void files_recovered(world *w);
void files_end(world *w);

/* cluster_store.c */
const mrd_session_store *store_folder(world *w);

/* cluster_pause.c */
void pause_some(world *w);
void pause_told(world *w, const Mrd__Control *c);
void pause_check(world *w);
/* These functions are about the session with index `session` on the node. */
bool pause_leaves_out(const sim_node *n, size_t session, const source_event *ev);
void pause_given(sim_node *n, size_t session, session_truth *t, const source_event *ev);

/* cluster_shared.c */
void shared_of(const world *w, mrd_loop_options *o);
/* called when the core receives that the session was exported */
void shared_told(world *w, const mrd_session *s);
void shared_recovered(world *w);
void shared_end(world *w);

/* cluster_limits.c */
void limits_of(const world *w, mrd_core_limits *limits);
void limits_ask(world *w, mrd_session_params *params);
void limits_stored(world *w, const char *instance_id, size_t len); /* a batch */
void limits_check(world *w);
void limits_end(world *w);

/* cluster_merge.c */
void merge_saved(world *w,
                 const mrd_session *s); /* called when the session's manifest is on disk */
void merge_recovered(world *w);
void merge_end(world *w);

/* cluster_node.c */
void node_start_all(world *w);
void node_free(sim_node *n);
void node_wake(sim_node *n, int64_t at);
void node_crash(sim_node *n, bool with_spool);
void node_fault(world *w, agent *a);
void node_heal(sim_node *n);
bool node_dead(const sim_node *n);

/* cluster_truth.c */
void truth_give(sim_node *n, size_t event); /* called before the event is given to the agent */
void truth_weaken(sim_node *n);
void truth_void(sim_node *n);  /* called when a new process of the agent begins */
void truth_begin(sim_node *n); /* called after the new process has recovered its state */
void truth_spool_gone(sim_node *n);
void truth_step(sim_node *n); /* called after each turn */
void truth_end(world *w);
bool truth_is_unacknowledged(const sim_node *n, const stored_frame *f);
void truth_free(sim_node *n);
session_truth *truth_of(sim_node *n, uint64_t session);
long double session_time(const sim_node *n, long double now);

#endif
