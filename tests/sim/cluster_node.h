/*
 * tests/sim/cluster_node.h - a node of the simulated cluster that runs the real agent: its loop
 * (agent/agent.h), recorder, spool with its recovery, publisher, control and clock synchronisation
 * with probes, over a disk (tests/sim/disk.h), a network and clocks that are fake.
 *
 * What is not real: events come from a generator (cluster_source.c) that stands for the rings of a
 * workload: it goes on while the agent is away, keeps what was not committed, and gives it again.
 * Files lie on a disk of the workload's own.
 * Collectors that read the machine (rings, counters, jobs) are left out.
 *
 * A process dies at a call of its disk or between two turns: from then on nothing of it is seen any
 * more, neither on its disk nor on its network, until its successor starts.
 *
 * Files    cluster_node.c (life, turns, faults), cluster_link.c (connections), cluster_udp.c (clock
 *          probes by UDP), cluster_loop.c (the real aggregator), cluster_wire.c (what the two say), cluster_files.c (files),
 *          cluster_merge.c (profiles), cluster_pause.c (pauses), cluster_source.c (events), cluster_clock.c (clocks),
 *          cluster_truth.c (what must hold of a node).
 */
#ifndef MRD_TESTS_SIM_CLUSTER_NODE_H
#define MRD_TESTS_SIM_CLUSTER_NODE_H

#include "agent/agent_int.h"
#include "aggregator/loop.h"
#include "tests/sim/cluster_int.h"
#include "tests/sim/disk.h"

/* ---- Events of the workload ---- */

#define SOURCE_KEY 0x73696d2d736f7572u /* of its position in a commit */

typedef struct {
    int64_t ts_ns, dur_ns; /* RAW of the sim_node */
    int64_t at;            /* true time of its end */
    uint32_t lost;         /* above 0: so many were lost, instead of an event */
} source_event;

typedef struct {
    source_event *v;
    size_t n, cap;
    size_t first;          /* of this process */
    size_t given;          /* of them, to this process's recorder */
    size_t told;           /* as the last commit under way says */
    size_t committed;      /* a successor begins there */
    uint64_t events, lost; /* given by this process */
} source;

/* What a session must have got. */
typedef struct {
    uint64_t session;
    uint8_t *has; /* of each of the source's events */
    size_t n_has;
    uint64_t begun;
    bool weak; /* what was begun is not known exactly: a reboot, a cancel, a spool that is gone */
    bool anew; /* ... but what was begun since the spool is gone: all but `before` */
    uint64_t before; /* of begun */
    bool known;      /* to this process */
    uint64_t late;   /* counted so when this process began */
    bool over;       /* flushed */
    enum { STOP_NOT_TOLD, STOP_SAVED, STOP_NOT_SAVED } stop; /* by the node, for a successor */
    int64_t checked_start;
    unsigned revision; /* the last change that it carried out, */
    int64_t
        pause_margin; /* ... and how far its pauses may be from those it was told; -1: not known */
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
    mrd_agent *agent;  /* NULL: no process */
    mrd_agent *opened; /* the same, while it is opened and closed, too */
    mrd_agent_options o;
    mrd_node_identity id;
    char spool[64];
    sim_disk *disk;
    unsigned boot, disks, power_cuts;
    bool dying;     /* the process is dead and has not returned */
    bool kept;      /* what of it is unacknowledged, as it died in a call of the disk */
    bool suspended; /* the machine */
    int64_t wall_off, slept, woken_at;
    int64_t second; /* that of the turns below */
    unsigned turns;
    int64_t slow;       /* of its link, one way */
    uint64_t dies_in;   /* calls of the disk; 0: not */
    bool dies_between;  /* ... each of another file than the one before */
    bool dies_again;    /* and its successor */
    bool full_between;  /* as dies_between */
    char last_path[96]; /* of those calls */
    bool tears;         /* it dies in its next write to a segment of its spool */
    unsigned starved;   /* so many answers find no room there */
    enum {
        APART_NOT,
        APART_ANSWER,
        APART_COUNTS
    } apart;            /* then it dies between an answer's record and the counts */
    uint64_t full_in;   /* ... until one fails with ENOSPC; 0: not */
    bool short_of_room; /* its disk */
    bool spool_gone;    /* the next process finds none */
    bool checked;       /* this process, once */
    bool disk_failed;   /* in this turn, or may have */
    sim_link *links;
    sim_disk *work; /* that of the workload's files: it loses nothing */
    char capture[64];
    char *watch[1];
    struct work_file *files;
    size_t n_files;
    bool wall_stepped;
    unsigned wakes; /* the wake that counts */
    int64_t wake_at;
    unsigned timeline; /* of the last welcome, in w->timelines */
    bool welcomed;
    source source;
    session_truth *truths;
    size_t n_truths;
    /* What may be stored, and is lost as far as its successor knows: it was forced out on its way, when its process died. */
    frame_numbers unacknowledged;
    frame_numbers sent; /* by the last process, and not answered when it died */
    mrd_drain_process process;
    int64_t crossed_at;
    /* Of its clock probes. */
    int64_t cpu_at; /* true time that its process has come to, ahead of the world's or behind */
    int64_t reading_takes; /* each reading of a clock brings it so much further */
    int64_t udp_base[2];   /* delay to the aggregator, and back */
    unsigned udp_loss[2];  /* per thousand */
    bool udp_blocked;      /* by a firewall */
};

/* cluster_clock.c: whose clocks clock_gettime tells; n NULL: the aggregator's; w NULL: the machine's
 * that the test runs on. */
void turn_of(world *w, sim_node *n);
sim_node *node_of_turn(void);

/* True time as the node's process sees it: between two calls of a turn time may pass. */
int64_t node_now(const sim_node *n);

/* cluster_udp.c: sockets that are opened to listen are this world's. */
void udp_server_of(world *w);
/* The aggregator's wall clock is set by so many octaves above a microsecond, at most: 32 are hours. */
void udp_step_wall(world *w, unsigned octaves);

/* cluster_link.c: connections of the node whose turn it is. */
mrd_transport *link_new(sim_node *n, bool probes);
void link_cut_all(sim_node *n);
void link_reply(sim_node *n, uint32_t conn, uint64_t request, mrd_bytes frame, unsigned timeline);
void link_survey(sim_node *n, uint64_t survey, mrd_bytes frame);

/* cluster_loop.c */
bool loop_begin(world *w, mrd_session_store *store, const mrd_core_options *core);
void loop_end(world *w);
void loop_command(world *w, mrd_loop_fn *fn, const void *arg, size_t len);
void loop_conn(world *w, uint32_t conn, bool up); /* as the aggregator sees it */
void loop_frame(world *w, const agent *a, uint32_t conn, uint64_t request, mrd_bytes data);
void loop_answer(world *w, uint64_t survey, mrd_bytes data);
void loop_check(world *w);

/* cluster_wire.c */
void wire_keep(world *w, const agent *a, const mrd_frame *f, mrd_bytes data); /* it arrived */
void wire_survey(world *w, mrd_bytes frame);
/* What the aggregator answers; returns the timeline that a welcome tells, else 0. */
unsigned wire_answer(world *w, const agent *a, mrd_bytes request, mrd_bytes answer);
void wire_free(world *w);
uint64_t wire_events(const world *w, uint32_t node, const stored_frame *f); /* losses apart */
/* The bytes of a frame that arrived; NULL: none did. */
const mrd_buf *wire_bytes(const world *w, uint32_t node, const stored_frame *f);

/* cluster_source.c */
void source_work(world *w, uint64_t index, uint64_t boot, void *p);
void source_lost(sim_node *n); /* with the machine */

/* cluster_files.c */
void files_new(sim_node *n);
void files_free(sim_node *n);
void files_work(world *w, uint64_t index, uint64_t boot, void *p);
/* An announcement or an end was answered. */
void files_answered(world *w, const agent *a, const mrd_msg *request, const mrd_msg *answer);
void files_flushed(sim_node *n,
                   const mrd_record_status *st); /* the node says so, for the first time */
void files_recovered(world *w);
void files_end(world *w);

/* cluster_store.c */
const mrd_session_store *store_folder(world *w);

/* cluster_pause.c */
void pause_some(world *w);
void pause_told(world *w, const Mrd__Control *c);
void pause_check(world *w);
/* Of the session that the node has at this place. */
bool pause_leaves_out(const sim_node *n, size_t session, const source_event *ev);
void pause_given(sim_node *n, size_t session, session_truth *t, const source_event *ev);

/* cluster_shared.c */
void shared_of(const world *w, mrd_loop_options *o);
void shared_told(world *w, const mrd_session *s); /* the core is told that it was exported */
void shared_recovered(world *w);
void shared_end(world *w);

/* cluster_limits.c */
void limits_of(const world *w, mrd_core_limits *limits);
void limits_ask(world *w, mrd_session_params *params);
void limits_stored(world *w, const char *instance_id, size_t len); /* a batch */
void limits_check(world *w);
void limits_end(world *w);

/* cluster_merge.c */
void merge_saved(world *w, const mrd_session *s); /* its manifest is on disk */
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
void truth_give(sim_node *n, size_t event); /* it is about to be given */
void truth_weaken(sim_node *n);
void truth_void(sim_node *n);  /* a new process begins */
void truth_begin(sim_node *n); /* and has found what there is */
void truth_spool_gone(sim_node *n);
void truth_step(sim_node *n); /* after each turn */
void truth_end(world *w);
bool truth_is_unacknowledged(const sim_node *n, const stored_frame *f);
void truth_free(sim_node *n);
session_truth *truth_of(sim_node *n, uint64_t session);
long double session_time(const sim_node *n, long double now);

#endif
