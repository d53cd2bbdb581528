/* tests/sim/cluster_int.h - internals of the simulated cluster: cluster.c (time, network, run),
 * cluster_agent.c (nodes), cluster_server.c (core, and a model of its disk), cluster_store.c (its
 * real journals and manifests on a simulated disk), cluster_check.c (invariants). */
#ifndef MRD_TESTS_SIM_CLUSTER_INT_H
#define MRD_TESTS_SIM_CLUSTER_INT_H

#include "aggregator/core/manifest/manifest.h"
#include "base/map.h"
#include "proto/batch/batch.h"
#include "tests/sim/cluster.h"

#define WINDOW       8
#define SESSIONS_MAX 8   /* maximum number of concurrent sessions of a node */
#define SPOOL_MAX    400 /* maximum number of batches in a node's spool */
#define REPORTED_MAX 16  /* maximum number of triggers per node and session */
#define RUNS_MAX     64

typedef struct world world;
typedef struct agent agent;
typedef struct store_model store_model;

/* ---- Time ---- */

typedef struct {
    int64_t at;
    uint64_t order; /* order in which tasks of equal time run */
    void (*run)(world *w, uint64_t a, uint64_t b, void *p);
    uint64_t a, b;
    void *p;
} task;

/* ---- Clocks ---- */

/* A segment of a clock. At the true time `from` the clock shows `local`. From then on it is fast by
 * `ppm`, or it is stopped. */
typedef struct {
    int64_t from, local;
    double ppm;
    bool stands;
} clock_segment;

typedef struct {
    clock_segment *v;
    size_t n, cap;
} sim_clock;

int64_t sim_clock_local(const sim_clock *c, int64_t now);
long double sim_clock_true(const sim_clock *c, int64_t local);
void sim_clock_begin(sim_clock *c, int64_t now, int64_t local, double ppm);
void sim_clock_bend(sim_clock *c, int64_t now, double ppm, bool stands);

/* A clock of the aggregator, as the model agent learned it from a welcome message. */
typedef struct {
    int64_t server_offset, offset;
    double server_ppm;
} sim_timeline;

/* ---- Nodes ---- */

typedef struct sim_node sim_node; /* with the real agent: cluster_node.h */

/* The bytes of a numbered frame of a real agent, as they first arrived. Repetitions must be equal. */
typedef struct {
    uint32_t node;
    uint64_t session, epoch, seq;
    uint64_t events; /* number of events in the frame, without lost events */
    mrd_buf data;
} wire_frame_bytes;

typedef struct {
    uint64_t session, seq, epoch;
    uint32_t events;
    bool clock; /* clock data instead of events */
    bool sent;
    uint64_t request;
    int64_t resend;
    int64_t wait_until;
} batch;

typedef struct {
    uint64_t id; /* id of the session; 0 means that the slot is free */
    bool recorder;
    Mrd__NodePhase phase;
    int64_t go, stop; /* start and stop in local time; 0 if not decided yet */
    int64_t armed_until;
    uint64_t next_seq, begun, delivered, window_events, lost_spool, lost_window, refused;
    uint64_t ring; /* events in the recorder's memory */
    uint64_t triggers[REPORTED_MAX];
    unsigned n_triggers;
    int64_t next_batch;
} part_model;

/* State of the check that an agent does not exceed its rate limit (cluster_limits.c). */
typedef struct {
    unsigned incarnation;
    int64_t at;
    double level;
    size_t largest;
} limit_state;

struct agent {
    world *w;
    sim_node *node; /* the real agent; NULL if this agent is a model */
    unsigned index;
    char id[24];
    uint64_t key, run, epoch;
    bool up, linked, welcomed, partitioned;
    uint32_t conn;
    unsigned incarnation; /* number of the agent's process; tasks of an earlier process are void */
    unsigned link;        /* number of the connection; messages of an earlier one are void */
    sim_clock clock;
    batch *spool;
    size_t n_spool, first_sent;
    unsigned in_flight;
    unsigned n_parts; /* length of the used range of `parts`, which may contain free slots */
    uint64_t urgent;  /* the pending hello or heartbeat, 0 for none */
    int64_t urgent_resend;
    mrd_probe *probes;
    size_t n_probes;
    uint32_t probe_k;
    bool knows_offset;
    int64_t session_offset; /* session time - local time in ns, as the aggregator reported it */
    char reason[32];
    unsigned spools_lost;
    part_model parts[SESSIONS_MAX];
    /* The agent's counts and last frame numbers of sessions that it has forgotten. If such a session
     * begins again, no frame number is reused and the counts continue. */
    part_model numbers[RUNS_MAX];
    unsigned n_numbers;
    limit_state limit;
};

/* ---- The aggregator ---- */

typedef struct {
    uint64_t session, seq, epoch;
    uint32_t events, node;
    uint8_t type;
    bool synced;
} stored_frame;

/* The part of a session that is on the aggregator's disk. It remains when the aggregator's process
 * ends. */
typedef struct {
    uint64_t id;
    char *text;        /* the manifest; NULL if not yet written */
    mrd_session *copy; /* in large runs, the manifest as a struct, because formatting takes time */
    bool durable_go, durable_stop;
    size_t durable_nodes; /* number of nodes in the manifest on the medium */
    bool removed, closed;
    bool merged;    /* the session's profile was verified on the medium */
    bool forgotten; /* the session was deleted before a crash and will be removed */
    bool deleted_by_people;
    bool merging, copying;
    /* since when the session exceeds its size limit, 0 if it does not; large_in is the incarnation
     * of the aggregator that runs then */
    int64_t large_at;
    unsigned large_in;
    uint64_t content,
        /* numbers of the merge that made the session's profile, and of the one whose profile was
         * copied */
        copied;
    stored_frame *frames;
    size_t n_frames, cap_frames;
} disk_session;

typedef struct {
    uint64_t ticket;
    unsigned node, link, incarnation;
    uint64_t request;
    int64_t came;
    bool numbered;
    uint64_t session, seq, epoch; /* of what is numbered */
} ticket_model;

typedef struct {
    uint64_t ticket, session;
    stored_frame f;
} append_model;

typedef struct {
    uint64_t id, session;
    bool over; /* the test saw in the core that the session has ended */
    unsigned node_windows;
} asked_session;

typedef struct {
    uint64_t id;
    int64_t from, to;
} window_model;

/* The pauses of a session with a revision, as sent to nodes. */
typedef struct {
    uint64_t session;
    unsigned revision;
    size_t n;
    int64_t from[MRD_PAUSES_MAX], to[MRD_PAUSES_MAX];
} told_change;

struct world {
    const sim_plan *plan;
    sim_result *r;
    uint64_t rng;
    int64_t now; /* true time */
    uint64_t order;
    task *heap;
    size_t n_heap, cap_heap;
    agent *agents;
    uint32_t last_conn;
    uint64_t last_request;
    bool healing;
    /* the aggregator */
    mrd_core *core;
    unsigned incarnation;
    bool up, running;          /* `up`: the aggregator answers. `running`: its process exists */
    store_model *store;        /* NULL if the aggregator's disk is only a model */
    struct mrd_loop *loop;     /* with real agents: the real aggregator, cluster_loop.c */
    struct mrd_server *server; /* the real aggregator's end of the simulated network */
    struct mrd_clocks *clocks;
    mrd_timescale scale;
    int64_t server_offset;
    double server_ppm;
    int64_t server_wall;   /* sum of all steps of the server's wall clock */
    unsigned server_steps; /* number of these steps */
    unsigned steps_wait;   /* number of steps that will follow when the next probes are read */
    uint64_t last_ticket;
    ticket_model *tickets;
    size_t n_tickets, cap_tickets;
    append_model *queue; /* frames that wait to be written to the journals */
    size_t n_queue, cap_queue;
    bool committing;
    size_t n_commit;
    bool disk_full;
    disk_session *disk;
    size_t n_disk;
    mrd_json *nodes_file;
    struct saved_manifest *saving; /* manifests being written */
    asked_session asked[256];
    size_t n_asked;
    window_model windows[4096];
    size_t n_windows;
    told_change *changes;
    size_t n_changes;
    mrd_buf joined;
    /* frames that real agents sent; wire_at maps node, session, epoch and number to an index */
    wire_frame_bytes *wire;
    size_t n_wire, cap_wire;
    mrd_map wire_at;
    /* `codec` and `reader` decode the batches that arrive at the aggregator */
    mrd_codec *codec;
    mrd_batch_reader *reader;
    sim_timeline *timelines;
    size_t n_timelines;
    struct file_promise *file_promises;
    size_t n_file_promises;
    uint64_t disk_hash;
};

uint64_t sim_random(world *w);
uint64_t sim_below(world *w, uint64_t n);
bool sim_chance(world *w, unsigned per_thousand);
void sim_at(world *w, int64_t at, void (*run)(world *w, uint64_t a, uint64_t b, void *p),
            uint64_t a, uint64_t b, void *p);
void sim_fail(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_mix(world *w, uint64_t v); /* adds v to the hash of the run */
/* Draws the delay of a message in ns. A negative value means that the message is lost. */
int64_t sim_delay(world *w, const agent *a);

/* cluster_agent.c */
void agents_start(world *w);
/* called when the answer arrives */
void agent_reply(world *w, agent *a, uint64_t request, const mrd_effect *e);
void agent_control(world *w, agent *a, uint64_t survey, Mrd__ControlType type, uint64_t session,
                   bool recorder, int64_t at, const mrd_trigger *t);
void agent_crash(world *w, agent *a, bool with_spool);
void agent_cut(world *w, agent *a);
int64_t agent_local(const agent *a, int64_t now);

/* cluster_server.c */
void server_start(world *w);
void server_crash(world *w, bool power);
void server_end(world *w);
void server_request(world *w, agent *a, uint64_t request, const batch *b, bool hello);
void server_answer(world *w, uint64_t survey, agent *a, Mrd__ControlType type, bool selected,
                   Mrd__NodePhase phase, mrd_err err);
void server_begin(world *w, bool recorder, mrd_dur_ns duration);
void server_trigger(world *w);
void server_stop(world *w);
void server_delete(world *w);
void server_merge(world *w); /* starts another merge of a complete session */
mrd_core_time server_now(const world *w);
void server_carry(world *w); /* executes the core's effects */
/* called when a command has created the session */
void server_answered(world *w, uint64_t ticket, uint64_t session);
disk_session *disk_of(world *w, uint64_t id);
disk_session *disk_make(world *w, uint64_t id);
void frame_add(disk_session *d, const stored_frame *f);

/* cluster_store.c */
void store_new(world *w);
void store_free(world *w);
void store_boot(world *w, const char *name);
bool
/* store_open, store_recover and store_loop return false if the store cannot be used now, or if the
 * aggregator was killed meanwhile. */
store_open(world *w);
bool store_recover(world *w);
bool store_loop(world *w, const mrd_core_options *core);   /* opens it for the real aggregator */
void store_saved(world *w, uint64_t session, bool failed); /* the core receives that it was saved */
void store_bad_moment(world *w, const mrd_session *s);     /* called when a frame is appended */
void store_crash(world *w, bool power);
void store_die_soon(world *w, bool power); /* the aggregator dies in one of its next disk calls */
void store_full(world *w, bool full);
void store_append(world *w, const mrd_effect *e);
void store_save(world *w, const mrd_effect *e);
void store_save_nodes(world *w, const mrd_effect *e);
void store_close_session(world *w, const mrd_session *s);
void store_measure(world *w, const mrd_session *s);
void store_remove(world *w, const mrd_session *s);
void store_look(world *w);
/* called when a frame is answered as stored */
void store_promised(world *w, const ticket_model *t, bool again);
void store_read_back(world *w);
sim_disk *store_disk(world *w);
/* true if the session is deleted or about to be deleted */
bool store_is_gone(world *w, uint64_t session);

/* cluster_export.c: of models */
void export_merging(world *w, uint64_t session);
void export_merged(world *w, uint64_t session); /* its profile has changed */
void export_start(world *w, const mrd_session *s);
void export_crash(world *w);
void export_removing(world *w, const mrd_session *s);
void export_end(world *w);

/* cluster_check.c */
void check_step(world *w);
void check_ack(world *w, const ticket_model *t, const mrd_effect *e, const batch *b);
void check_reported(world *w, const agent *a, Mrd__ControlType type, uint64_t session);
void check_window(world *w, const agent *a, uint64_t id, int64_t from, int64_t to);
void check_estimate(world *w, const agent *a, const Mrd__ClockEstimate *e, const char *state,
                    int64_t local);
void check_end(world *w);

#endif
