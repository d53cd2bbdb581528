/*
 * aggregator/core/node/node.h - what the aggregator stores about one agent (node), and the table of
 * all agents.
 *
 * A connected node is never replaced in the table. When the table is full, a new node takes the
 * slot of a disconnected one.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_NODE_H
#define MRD_AGGREGATOR_CORE_NODE_NODE_H

#include "aggregator/core/node/counts.h"
#include "aggregator/core/node/host_reading.h"
#include "aggregator/core/node/models.h"
#include "aggregator/core/node/runtime_features.h"
#include "aggregator/core/node/unread.h"
#include "base/map.h"

/* The quality of the node's clock estimate, as its agent reported it. */
typedef struct {
    char state[24], method[24];
    mrd_dur_ns bound, offset; /* `bound` is -1 if unknown */
    uint64_t probes;
} mrd_clock_quality;

/* Result of checks of the live clock estimate with frames. If the bound is right, no frame arrives
 * before it was sent, and `violations` is 0. */
typedef struct {
    uint64_t checked, violations;
    mrd_dur_ns worst;
} mrd_causality;

typedef struct {
    char instance_id[MRD_NODE_ID_MAX], host_name[MRD_TEXT_MAX], boot_id[64], release[32];
    char commit[64]; /* commit that the agent was built from; empty if unknown */
    /* validity of the agent's certificate, as the agent reported it; 0 means unknown or no
     * certificate */
    mrd_wall_ns cert_begin, cert_end;
    uint64_t key, run, epoch;
    uint32_t at;          /* index of this node in the table of nodes */
    uint32_t conn;        /* id of the node's connection; 0 if not connected */
    unsigned proof_epoch; /* the core's proof_epoch when the node sent its last hello */
    bool simulated;
    unsigned wire_minor; /* minor version of the agent's wire protocol, from its last hello */
    /* True if the node has sent a hello since the aggregator started. False if it was only loaded
     * from the registry. */
    bool reported;
    /* a frame of the node was stored, possibly in an earlier run of the aggregator */
    bool has_sent;
    /* An administrator removed the node. The core deletes this entry when no frame of the node is
     * pending. */
    bool forget;
    /* when the node's last frame of any kind arrived, by the aggregator's clock. Negative if it
     * arrived before the last boot of the aggregator's machine */
    mrd_local_ns seen;
    mrd_wall_ns seen_wall;
    mrd_local_ns hello_local; /* the two clocks of the node at its last hello */
    mrd_wall_ns hello_wall;
    /* the node's clock at the latest heartbeat after the hello; 0 means that there was none */
    mrd_local_ns beat;
    char state[32];
    mrd_counts counts;
    mrd_local_ns counted; /* the node's clock when it reported `counts` */
    mrd_clock_quality clock;
    mrd_causality causality; /* causality checks with heartbeats and their answers */
    uint32_t rings, processes;
    mrd_unread unread;
    uint64_t spool_bytes, memory_bytes;
    /* sums over the frames of the node that were received and stored */
    uint64_t frames, bytes, events;
    /* number of gaps in the sequence numbers of its frames, over all sessions */
    uint64_t gaps;
    mrd_bucket bucket;
    uint64_t slowed; /* number of frames that a limit delayed */
    mrd_limit_kind limited_by;
    mrd_local_ns limited_at; /* time of the last delay, by the aggregator's clock */
    mrd_strlist labels;      /* labels that the agent reported, each of the form "key=value" */
    /* reason of the trigger that the last heartbeat reported; "" means none */
    char reason[MRD_TEXT_MAX];
    /* Time of the trigger in `reason`, as text. With an unchanged reason, a new time shows a new
     * trigger. */
    char reason_at[24];
    struct mrd_follow *follow; /* state of the live estimate; NULL before the first probe */
    /* Recent complete probes. They are kept because a node in several sessions sends its times of a
     * probe once per session. */
    struct mrd_probe_memory *probes;
    bool has_asleep;
    /* total time for which the machine was suspended since its boot, as the agent last reported
     * it */
    mrd_dur_ns asleep;
    mrd_local_ns told; /* time of the last report of `asleep`, by the node's clock */
    /* A time of the node's clock after the last suspend of its machine, 0 if there was none. The
     * clock estimate uses only probes after this time. */
    mrd_local_ns awake;
    bool has_reading;
    /* the latest reading that the agent made of the clocks of its machine */
    mrd_host_reading reading;
    /* models that are loaded on the node now; NULL if not reported */
    mrd_node_models *models;
    /* features of the Neuron runtimes on the node; NULL if not reported */
    mrd_runtime_features *features;
} mrd_node;

typedef struct {
    mrd_node **v;
    size_t n;
    mrd_map by_id, by_conn; /* map an instance id, or the id of a connection, to an index in `v` */
} mrd_nodes;

void mrd_nodes_fini(mrd_nodes *nodes);
mrd_node *mrd_nodes_by_conn(const mrd_nodes *nodes, uint32_t conn);
mrd_node *mrd_nodes_by_id(const mrd_nodes *nodes, const char *instance_id);
mrd_node *mrd_nodes_add(mrd_nodes *nodes, const char *instance_id,
                        mrd_local_ns now);               /* returns NULL if out of memory */
void mrd_nodes_remove(mrd_nodes *nodes, mrd_node *node); /* removes and frees the node */
/* Assigns the connection to the node. If another node had this connection, that node is
 * disconnected. Connection 0 means none. */
void mrd_nodes_connect(mrd_nodes *nodes, mrd_node *node, uint32_t conn);
/*
 * Returns the node that a new node may replace in a full table, NULL if all nodes must stay.
 * Candidates are taken in this order:
 *
 *  1. disconnected nodes that are not expected (mrd_node_is_expected)
 *  2. nodes that are not alive and sent neither a heartbeat nor a frame of a session
 *  3. other nodes that are not alive and never sent a frame of a session
 *
 * Among equal candidates, the node with the oldest last frame is replaced. Clients that send only
 * hellos are in group 2, so they cannot keep new nodes out of the table.
 */
mrd_node *mrd_nodes_replaceable(const mrd_nodes *nodes, mrd_local_ns now,
                                const mrd_core_limits *limits);

bool mrd_node_is_alive(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits);
/* Returns true if the node was seen within node_forget, by this run of the aggregator or an earlier
 * one. Sessions list an expected node as missing if it is not connected. */
bool mrd_node_is_expected(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits);
mrd_json *mrd_node_json(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits);
mrd_json *mrd_clock_quality_json(const mrd_clock_quality *quality);
void mrd_clock_quality_take(mrd_clock_quality *to, const Mrd__ClockQuality *from);
/* Copies the contents of a hello message into the node. */
void mrd_node_hello(mrd_node *node, const mrd_msg *msg);
/* Returns a copy of the node without its probes, which the caller frees. NULL if out of memory. */
mrd_node *mrd_node_copy(const mrd_node *node);
void mrd_node_free(mrd_node *node);
/* Discards the estimate of the node's clock and the stored probes. */
void mrd_node_forget_clock(mrd_node *node);

#endif
