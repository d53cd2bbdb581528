#include "aggregator/core/node/node.h"

#include "aggregator/core/common/json.h"
#include "aggregator/core/common/select.h"
#include "aggregator/core/common/text.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "timesync/follow.h"

#define LABELS_MAX  64
#define LIMIT_SHOWN (5 * MRD_SEC)

static mrd_map_key
conn_key(uint32_t conn)
{
    return (mrd_map_key){ .a = conn };
}

void
mrd_node_forget_clock(mrd_node *node)
{
    mrd_follow_free(node->follow);
    node->follow = NULL;
    free(node->probes);
    node->probes = NULL;
    node->has_asleep = false;
    node->asleep = 0;
    node->told = node->awake = (mrd_local_ns){ 0 };
}

void
mrd_node_free(mrd_node *node)
{
    if (node == NULL)
        return;
    mrd_strlist_fini(&node->labels);
    mrd_node_models_unref(node->models);
    mrd_runtime_features_unref(node->features);
    mrd_node_forget_clock(node);
    free(node);
}

void
mrd_nodes_fini(mrd_nodes *nodes)
{
    for (size_t i = 0; i < nodes->n; i++)
        mrd_node_free(nodes->v[i]);
    free(nodes->v);
    mrd_map_fini(&nodes->by_id);
    mrd_map_fini(&nodes->by_conn);
}

mrd_node *
mrd_nodes_by_conn(const mrd_nodes *nodes, uint32_t conn)
{
    uint32_t at = mrd_map_get(&nodes->by_conn, conn_key(conn));

    return at == MRD_MAP_NONE ? NULL : nodes->v[at];
}

mrd_node *
mrd_nodes_by_id(const mrd_nodes *nodes, const char *instance_id)
{
    uint32_t at = mrd_map_get(&nodes->by_id, mrd_id_key(instance_id));

    if (at == MRD_MAP_NONE || strcmp(nodes->v[at]->instance_id, instance_id) == 0)
        return at == MRD_MAP_NONE ? NULL : nodes->v[at];
    for (size_t i = 0; i < nodes->n; i++) {
        /* The map has one entry per hash. Only an attacker finds two ids with equal hashes, and
         * then the second id is only in the list. */
        if (strcmp(nodes->v[i]->instance_id, instance_id) == 0)
            return nodes->v[i];
    }
    return NULL;
}

mrd_node *
mrd_nodes_add(mrd_nodes *nodes, const char *instance_id, mrd_local_ns now)
{
    mrd_node *node;

    if (!MRD_VEC_NEXT(nodes->v, nodes->n))
        return NULL;
    if ((node = calloc(1, sizeof(*node))) == NULL ||
        mrd_id_put(&nodes->by_id, instance_id, nodes->n) != MRD_OK) {
        free(node);
        return NULL;
    }
    mrd_text_set(node->instance_id, sizeof(node->instance_id), instance_id);
    node->clock.bound = -1;
    node->bucket.at = now;
    node->at = (uint32_t) nodes->n;
    nodes->v[nodes->n++] = node;
    return node;
}

void
mrd_nodes_remove(mrd_nodes *nodes, mrd_node *node)
{
    mrd_node *last = nodes->v[--nodes->n];

    if (node->conn != 0)
        mrd_map_remove(&nodes->by_conn, conn_key(node->conn));
    if (mrd_map_get(&nodes->by_id, mrd_id_key(node->instance_id)) == node->at)
        mrd_map_remove(&nodes->by_id, mrd_id_key(node->instance_id));
    /* move the last node into the free slot; the maps do not grow, so this cannot fail */
    if (last != node) {
        if (mrd_map_get(&nodes->by_id, mrd_id_key(last->instance_id)) == last->at)
            (void) mrd_map_put(&nodes->by_id, mrd_id_key(last->instance_id), node->at);
        if (last->conn != 0)
            (void) mrd_map_put(&nodes->by_conn, conn_key(last->conn), node->at);
        last->at = node->at;
        nodes->v[node->at] = last;
    }
    mrd_node_free(node);
}

void
mrd_nodes_connect(mrd_nodes *nodes, mrd_node *node, uint32_t conn)
{
    mrd_node *before = conn == 0 ? NULL : mrd_nodes_by_conn(nodes, conn);

    if (before != NULL && before != node)
        before->conn = 0;
    if (node->conn != 0 && node->conn != conn)
        mrd_map_remove(&nodes->by_conn, conn_key(node->conn));
    node->conn = 0;
    if (conn != 0 && mrd_map_put(&nodes->by_conn, conn_key(conn), node->at) == MRD_OK)
        node->conn = conn;
}

/* The order in which nodes are removed from a full table: those with the lowest rank first. */
enum { RANK_FORGOTTEN, RANK_HELLO_ONLY, RANK_NO_DATA, RANK_STAYS };

static int
rank_of(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits)
{
    if (node->conn == 0 && !mrd_node_is_expected(node, now, limits))
        return RANK_FORGOTTEN;
    if (node->has_sent || mrd_node_is_alive(node, now, limits))
        return RANK_STAYS;
    return node->beat.ns == 0 ? RANK_HELLO_ONLY : RANK_NO_DATA;
}

mrd_node *
mrd_nodes_replaceable(const mrd_nodes *nodes, mrd_local_ns now, const mrd_core_limits *limits)
{
    mrd_node *first = NULL;
    int first_rank = RANK_STAYS;

    for (size_t i = 0; i < nodes->n; i++) {
        mrd_node *node = nodes->v[i];
        int rank = rank_of(node, now, limits);

        if (rank < first_rank ||
            (first != NULL && rank == first_rank && node->seen.ns < first->seen.ns)) {
            first = node;
            first_rank = rank;
        }
    }
    return first;
}

bool
mrd_node_is_alive(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits)
{
    return node->conn != 0 && now.ns - node->seen.ns < limits->node_timeout;
}

bool
mrd_node_is_expected(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits)
{
    return !node->forget && now.ns - node->seen.ns < limits->node_forget;
}

/* Returns the limit that delayed the node recently; MRD_LIMIT_NONE if none did. */
static mrd_limit_kind
node_limit(const mrd_node *node, mrd_local_ns now)
{
    return node->limited_by != MRD_LIMIT_NONE && now.ns - node->limited_at.ns < LIMIT_SHOWN
               ? node->limited_by
               : MRD_LIMIT_NONE;
}

/* Returns the node's state for users. A connected node has the state that its agent reports, or
 * "connected". A disconnected one is "missing" if it is expected to return, else "gone". */
static const char *
node_state(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits)
{
    if (!mrd_node_is_alive(node, now, limits))
        return mrd_node_is_expected(node, now, limits) ? "missing" : "gone";
    return node->state[0] == '\0' ? "connected" : node->state;
}

mrd_json *
mrd_clock_quality_json(const mrd_clock_quality *quality)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "state",
                 mrd_json_new_str(quality->state[0] == '\0' ? "unaligned" : quality->state));
    mrd_json_set(json, "method",
                 mrd_json_new_str(quality->method[0] == '\0' ? "none" : quality->method));
    mrd_json_set(json, "bound_ns",
                 mrd_json_new_int(quality->state[0] == '\0' ? -1 : quality->bound));
    mrd_json_set(json, "offset_ns", mrd_json_new_int(quality->offset));
    mrd_json_set(json, "probes", mrd_json_new_count(quality->probes));
    return json;
}

void
mrd_clock_quality_take(mrd_clock_quality *to, const Mrd__ClockQuality *from)
{
    if (from == NULL)
        return;
    mrd_text_set(to->state, sizeof(to->state), from->state);
    mrd_text_set(to->method, sizeof(to->method), from->method);
    to->bound = mrd_time_sane(from->bound_ns) ? from->bound_ns : -1;
    to->offset = mrd_time_checked(from->offset_ns);
    to->probes = mrd_count_checked(from->probes);
}

static void
put_certificate(const mrd_node *node, mrd_json *to)
{
    mrd_json *json;

    if (node->cert_end.ns == 0)
        return;
    json = mrd_json_new_object();
    mrd_json_put_instant(json, "begin", node->cert_begin.ns);
    mrd_json_put_instant(json, "end", node->cert_end.ns);
    mrd_json_set(to, "certificate", json);
}

mrd_json *
mrd_node_json(const mrd_node *node, mrd_local_ns now, const mrd_core_limits *limits)
{
    mrd_json *json = mrd_json_new_object();

    mrd_json_set(json, "instance_id", mrd_json_new_str(node->instance_id));
    mrd_json_set(json, "host_name", mrd_json_new_str(node->host_name));
    mrd_json_set(json, "boot_id", mrd_json_new_str(node->boot_id));
    mrd_json_set(json, "release", mrd_json_new_str(node->release));
    if (node->commit[0] != '\0')
        mrd_json_set(json, "commit", mrd_json_new_str(node->commit));
    mrd_json_set(json, "connected", mrd_json_new_bool(mrd_node_is_alive(node, now, limits)));
    mrd_json_set(json, "state", mrd_json_new_str(node_state(node, now, limits)));
    mrd_json_set(json, "reported", mrd_json_new_bool(node->reported));
    mrd_json_set(json, "simulated", mrd_json_new_bool(node->simulated));
    mrd_json_put_instant(json, "seen", node->seen_wall.ns);
    mrd_json_set(json, "rings", mrd_json_new_int(node->rings));
    mrd_json_set(json, "processes", mrd_json_new_int(node->processes));
    mrd_unread_put(&node->unread, json);
    mrd_json_set(json, "spool_bytes", mrd_json_new_count(node->spool_bytes));
    mrd_json_set(json, "memory_bytes", mrd_json_new_count(node->memory_bytes));
    mrd_json_set(json, "frames", mrd_json_new_count(node->frames));
    mrd_json_set(json, "bytes", mrd_json_new_count(node->bytes));
    mrd_json_set(json, "events", mrd_json_new_count(node->events));
    mrd_json_set(json, "counters", mrd_counts_json(&node->counts));
    mrd_json_set(json, "counted_local_ns", mrd_json_new_int(node->counted.ns));
    mrd_json_set(json, "slowed", mrd_json_new_count(node->slowed));
    if (node_limit(node, now) != MRD_LIMIT_NONE)
        mrd_json_set(json, "limited_by", mrd_json_new_str(mrd_limit_text(node_limit(node, now))));
    mrd_json_set(json, "clock", mrd_clock_quality_json(&node->clock));
    put_certificate(node, json);
    mrd_json_set(json, "labels", mrd_strings_json(&node->labels));
    mrd_runtime_features_put(node->features, json);
    return json;
}

void
mrd_node_hello(mrd_node *node, const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;

    node->key = msg->frame.agent;
    node->run = hello->run;
    node->epoch = hello->epoch;
    node->wire_minor = hello->wire_minor;
    node->simulated = hello->simulated;
    node->hello_local.ns = mrd_time_checked(hello->local_ns);
    node->hello_wall.ns = mrd_time_checked(hello->wall_ns);
    node->beat.ns = 0;
    mrd_text_set(node->boot_id, sizeof(node->boot_id), hello->boot_id);
    mrd_text_set(node->host_name, sizeof(node->host_name), hello->host_name);
    mrd_text_set(node->release, sizeof(node->release), hello->release);
    mrd_text_set(node->commit, sizeof(node->commit), hello->commit);
    mrd_strlist_fini(&node->labels);
    for (size_t i = 0; i < hello->n_labels && i < LABELS_MAX; i++) {
        char text[MRD_TEXT_MAX];

        snprintf(text, sizeof(text), "%s=%s", hello->labels[i]->key, hello->labels[i]->value);
        if (mrd_strlist_add(&node->labels, mrd_str_of(text)) != MRD_OK)
            return;
    }
}

mrd_node *
mrd_node_copy(const mrd_node *node)
{
    mrd_node *c = malloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    *c = *node;
    c->follow = NULL;
    c->probes = NULL;
    mrd_node_models_ref(c->models);
    mrd_runtime_features_ref(c->features);
    c->labels = (mrd_strlist){ 0 };
    if (mrd_strings_copy(&c->labels, &node->labels) != MRD_OK) {
        mrd_node_free(c);
        return NULL;
    }
    return c;
}
