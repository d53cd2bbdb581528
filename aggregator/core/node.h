/*
 * aggregator/core/node.h - one agent as the aggregator knows it, and the table of all of them.
 *
 * While it is connected it stays; one that is gone and forgotten gives its place to another when
 * there are as many as there may be.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_H
#define MRD_AGGREGATOR_CORE_NODE_H

#include "aggregator/core/counts.h"
#include "aggregator/core/host_reading.h"
#include "aggregator/core/models.h"
#include "aggregator/core/runtime_features.h"
#include "aggregator/core/unread.h"
#include "base/map.h"

/* What is believed about a node's clock, for people. */
typedef struct {
    char state[24], method[24];
    mrd_dur_ns bound, offset; /* bound -1: unknown */
    uint64_t probes;
} mrd_clock_quality;

/* Frames against the live bound: what was sent has happened before it arrived, what was answered
 * came after. Violations must be 0. */
typedef struct {
    uint64_t checked, violations;
    mrd_dur_ns worst;
} mrd_causality;

typedef struct {
    char instance_id[MRD_NODE_ID_MAX], host_name[MRD_TEXT_MAX], boot_id[64], release[32];
    char commit[64];                  /* it was built from; empty: not known */
    mrd_wall_ns cert_begin, cert_end; /* of its certificate, as it says; 0: none, or not said */
    uint64_t key, run, epoch;
    uint32_t at;          /* its index in the table */
    uint32_t conn;        /* 0: not connected */
    unsigned proof_epoch; /* of the core at its hello */
    bool simulated;
    unsigned wire_minor; /* of the agent, as its last hello says */
    bool reported;       /* has said hello since the aggregator started; else known from before */
    bool has_sent;       /* the store had a frame of it, also in an earlier run */
    /* An administrator removed the node. It is deleted when none of its frames is pending. */
    bool forget;
    mrd_local_ns seen; /* aggregator's clock, last frame of any kind; of before the boot below 0 */
    mrd_wall_ns seen_wall;
    mrd_local_ns hello_local; /* the node's own clocks at its last hello */
    mrd_wall_ns hello_wall;
    mrd_local_ns beat; /* ... at the youngest heartbeat since then, 0: none */
    char state[32];
    mrd_counts counts;
    mrd_local_ns counted; /* its own time of them */
    mrd_clock_quality clock;
    mrd_causality causality; /* heartbeats and their answers */
    uint32_t rings, processes;
    mrd_unread unread;
    uint64_t spool_bytes, memory_bytes;
    uint64_t frames, bytes, events; /* received and stored */
    uint64_t gaps;                  /* in the numbers of its frames, over all sessions */
    mrd_bucket bucket;
    uint64_t slowed; /* frames that a limit sent back */
    mrd_limit_kind limited_by;
    mrd_local_ns limited_at;         /* aggregator's clock */
    mrd_strlist labels;              /* "key=value" */
    char reason[MRD_TEXT_MAX];       /* the trigger that its last heartbeat reported, "": none */
    char reason_at[24];              /* which tells it from an earlier one of the same words */
    struct mrd_follow *follow;       /* what its probes say, NULL before the first */
    struct mrd_probe_memory *probes; /* the last ones, for frames of further sessions */
    bool has_asleep;
    mrd_dur_ns asleep;  /* how long its machine slept since it booted, as it told last, and */
    mrd_local_ns told;  /* ... by its clock then */
    mrd_local_ns awake; /* what is known of its clock is of since then; 0: it never slept */
    bool has_reading;
    mrd_host_reading reading;       /* the last one of its own clocks */
    mrd_node_models *models;        /* loaded now; NULL: not told */
    mrd_runtime_features *features; /* NULL: not reported */
} mrd_node;

typedef struct {
    mrd_node **v;
    size_t n;
    mrd_map by_id, by_conn; /* index into v */
} mrd_nodes;

void mrd_nodes_fini(mrd_nodes *t);
mrd_node *mrd_nodes_by_conn(const mrd_nodes *t, uint32_t conn);
mrd_node *mrd_nodes_by_id(const mrd_nodes *t, const char *instance_id);
mrd_node *mrd_nodes_add(mrd_nodes *t, const char *instance_id, mrd_local_ns now); /* NULL: NOMEM */
void mrd_nodes_remove(mrd_nodes *t, mrd_node *n);                                 /* and frees it */
/* The node speaks on this connection from now on; whoever did before does not any more. 0: none. */
void mrd_nodes_connect(mrd_nodes *t, mrd_node *n, uint32_t conn);
/*
 * Returns the node that makes room for a new one in a full table, NULL if all stay. First go nodes that were disconnected for
 * node_forget, then nodes that are not alive and never sent a frame of a session, those without a heartbeat before the others.
 * So hellos alone cannot keep new nodes out. Of equals the one goes whose last frame is the oldest.
 */
mrd_node *mrd_nodes_replaceable(const mrd_nodes *t, mrd_local_ns now, const mrd_core_limits *l);

bool mrd_node_is_alive(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l);
/* Seen within node_forget, by an earlier run too: sessions list it, missing when it is not
 * connected. */
bool mrd_node_is_expected(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l);
mrd_json *mrd_node_json(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l);
mrd_json *mrd_clock_quality_json(const mrd_clock_quality *c);
void mrd_clock_quality_take(mrd_clock_quality *to, const Mrd__ClockQuality *from);
/* Takes over what a hello says. */
void mrd_node_hello(mrd_node *n, const mrd_msg *msg);
/* A copy that belongs to the caller and holds no probes; NULL without memory. */
mrd_node *mrd_node_copy(const mrd_node *n);
void mrd_node_free(mrd_node *n);
/* What its probes said means nothing any more. */
void mrd_node_forget_clock(mrd_node *n);

#endif
