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
mrd_node_forget_clock(mrd_node *n)
{
    mrd_follow_free(n->follow);
    n->follow = NULL;
    free(n->probes);
    n->probes = NULL;
    n->has_asleep = false;
    n->asleep = 0;
    n->told = n->awake = (mrd_local_ns){ 0 };
}

void
mrd_node_free(mrd_node *n)
{
    if (n == NULL)
        return;
    mrd_strlist_fini(&n->labels);
    mrd_node_models_unref(n->models);
    mrd_runtime_features_unref(n->features);
    mrd_node_forget_clock(n);
    free(n);
}

void
mrd_nodes_fini(mrd_nodes *t)
{
    for (size_t i = 0; i < t->n; i++)
        mrd_node_free(t->v[i]);
    free(t->v);
    mrd_map_fini(&t->by_id);
    mrd_map_fini(&t->by_conn);
}

mrd_node *
mrd_nodes_by_conn(const mrd_nodes *t, uint32_t conn)
{
    uint32_t at = mrd_map_get(&t->by_conn, conn_key(conn));

    return at == MRD_MAP_NONE ? NULL : t->v[at];
}

mrd_node *
mrd_nodes_by_id(const mrd_nodes *t, const char *instance_id)
{
    uint32_t at = mrd_map_get(&t->by_id, mrd_id_key(instance_id));

    if (at == MRD_MAP_NONE || strcmp(t->v[at]->instance_id, instance_id) == 0)
        return at == MRD_MAP_NONE ? NULL : t->v[at];
    for (size_t i = 0; i < t->n; i++) { /* two names with one hash, which only an attacker makes */
        if (strcmp(t->v[i]->instance_id, instance_id) == 0)
            return t->v[i];
    }
    return NULL;
}

mrd_node *
mrd_nodes_add(mrd_nodes *t, const char *instance_id, mrd_local_ns now)
{
    mrd_node *n;

    if (!MRD_VEC_NEXT(t->v, t->n))
        return NULL;
    if ((n = calloc(1, sizeof(*n))) == NULL || mrd_id_put(&t->by_id, instance_id, t->n) != MRD_OK) {
        free(n);
        return NULL;
    }
    mrd_text_set(n->instance_id, sizeof(n->instance_id), instance_id);
    n->clock.bound = -1;
    n->bucket.at = now;
    n->at = (uint32_t) t->n;
    t->v[t->n++] = n;
    return n;
}

void
mrd_nodes_remove(mrd_nodes *t, mrd_node *n)
{
    mrd_node *last = t->v[--t->n];

    if (n->conn != 0)
        mrd_map_remove(&t->by_conn, conn_key(n->conn));
    if (mrd_map_get(&t->by_id, mrd_id_key(n->instance_id)) == n->at)
        mrd_map_remove(&t->by_id, mrd_id_key(n->instance_id));
    if (last != n) { /* moves the last node into the free slot; neither map grows */
        if (mrd_map_get(&t->by_id, mrd_id_key(last->instance_id)) == last->at)
            (void) mrd_map_put(&t->by_id, mrd_id_key(last->instance_id), n->at);
        if (last->conn != 0)
            (void) mrd_map_put(&t->by_conn, conn_key(last->conn), n->at);
        last->at = n->at;
        t->v[n->at] = last;
    }
    mrd_node_free(n);
}

void
mrd_nodes_connect(mrd_nodes *t, mrd_node *n, uint32_t conn)
{
    mrd_node *before = conn == 0 ? NULL : mrd_nodes_by_conn(t, conn);

    if (before != NULL && before != n)
        before->conn = 0;
    if (n->conn != 0 && n->conn != conn)
        mrd_map_remove(&t->by_conn, conn_key(n->conn));
    n->conn = 0;
    if (conn != 0 && mrd_map_put(&t->by_conn, conn_key(conn), n->at) == MRD_OK)
        n->conn = conn;
}

/* The node with the lowest rank makes room first. */
enum { RANK_FORGOTTEN, RANK_HELLO_ONLY, RANK_NO_DATA, RANK_STAYS };

static int
rank_of(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l)
{
    if (n->conn == 0 && !mrd_node_is_expected(n, now, l))
        return RANK_FORGOTTEN;
    if (n->has_sent || mrd_node_is_alive(n, now, l))
        return RANK_STAYS;
    return n->beat.ns == 0 ? RANK_HELLO_ONLY : RANK_NO_DATA;
}

mrd_node *
mrd_nodes_replaceable(const mrd_nodes *t, mrd_local_ns now, const mrd_core_limits *l)
{
    mrd_node *first = NULL;
    int first_rank = RANK_STAYS;

    for (size_t i = 0; i < t->n; i++) {
        mrd_node *n = t->v[i];
        int rank = rank_of(n, now, l);

        if (rank < first_rank ||
            (first != NULL && rank == first_rank && n->seen.ns < first->seen.ns)) {
            first = n;
            first_rank = rank;
        }
    }
    return first;
}

bool
mrd_node_is_alive(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l)
{
    return n->conn != 0 && now.ns - n->seen.ns < l->node_timeout;
}

bool
mrd_node_is_expected(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l)
{
    return !n->forget && now.ns - n->seen.ns < l->node_forget;
}

/* Returns the limit that delayed the node in the last seconds. */
static mrd_limit_kind
node_limit(const mrd_node *n, mrd_local_ns now)
{
    return n->limited_by != MRD_LIMIT_NONE && now.ns - n->limited_at.ns < LIMIT_SHOWN
               ? n->limited_by
               : MRD_LIMIT_NONE;
}

/* Returns "missing", "gone", "connected" or the state that the agent reports. */
static const char *
node_state(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l)
{
    if (!mrd_node_is_alive(n, now, l))
        return mrd_node_is_expected(n, now, l) ? "missing" : "gone";
    return n->state[0] == '\0' ? "connected" : n->state;
}

mrd_json *
mrd_clock_quality_json(const mrd_clock_quality *c)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "state", mrd_json_new_str(c->state[0] == '\0' ? "unaligned" : c->state));
    mrd_json_set(o, "method", mrd_json_new_str(c->method[0] == '\0' ? "none" : c->method));
    mrd_json_set(o, "bound_ns", mrd_json_new_int(c->state[0] == '\0' ? -1 : c->bound));
    mrd_json_set(o, "offset_ns", mrd_json_new_int(c->offset));
    mrd_json_set(o, "probes", mrd_json_new_count(c->probes));
    return o;
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
put_certificate(const mrd_node *n, mrd_json *to)
{
    mrd_json *o;

    if (n->cert_end.ns == 0)
        return;
    o = mrd_json_new_object();
    mrd_json_put_instant(o, "begin", n->cert_begin.ns);
    mrd_json_put_instant(o, "end", n->cert_end.ns);
    mrd_json_set(to, "certificate", o);
}

mrd_json *
mrd_node_json(const mrd_node *n, mrd_local_ns now, const mrd_core_limits *l)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "instance_id", mrd_json_new_str(n->instance_id));
    mrd_json_set(o, "host_name", mrd_json_new_str(n->host_name));
    mrd_json_set(o, "boot_id", mrd_json_new_str(n->boot_id));
    mrd_json_set(o, "release", mrd_json_new_str(n->release));
    if (n->commit[0] != '\0')
        mrd_json_set(o, "commit", mrd_json_new_str(n->commit));
    mrd_json_set(o, "connected", mrd_json_new_bool(mrd_node_is_alive(n, now, l)));
    mrd_json_set(o, "state", mrd_json_new_str(node_state(n, now, l)));
    mrd_json_set(o, "reported", mrd_json_new_bool(n->reported));
    mrd_json_set(o, "simulated", mrd_json_new_bool(n->simulated));
    mrd_json_put_instant(o, "seen", n->seen_wall.ns);
    mrd_json_set(o, "rings", mrd_json_new_int(n->rings));
    mrd_json_set(o, "processes", mrd_json_new_int(n->processes));
    mrd_unread_put(&n->unread, o);
    mrd_json_set(o, "spool_bytes", mrd_json_new_count(n->spool_bytes));
    mrd_json_set(o, "memory_bytes", mrd_json_new_count(n->memory_bytes));
    mrd_json_set(o, "frames", mrd_json_new_count(n->frames));
    mrd_json_set(o, "bytes", mrd_json_new_count(n->bytes));
    mrd_json_set(o, "events", mrd_json_new_count(n->events));
    mrd_json_set(o, "counters", mrd_counts_json(&n->counts));
    mrd_json_set(o, "counted_local_ns", mrd_json_new_int(n->counted.ns));
    mrd_json_set(o, "slowed", mrd_json_new_count(n->slowed));
    if (node_limit(n, now) != MRD_LIMIT_NONE)
        mrd_json_set(o, "limited_by", mrd_json_new_str(mrd_limit_text(node_limit(n, now))));
    mrd_json_set(o, "clock", mrd_clock_quality_json(&n->clock));
    put_certificate(n, o);
    mrd_json_set(o, "labels", mrd_strings_json(&n->labels));
    mrd_runtime_features_put(n->features, o);
    return o;
}

void
mrd_node_hello(mrd_node *n, const mrd_msg *msg)
{
    const Mrd__Hello *hello = msg->u.hello;

    n->key = msg->frame.agent;
    n->run = hello->run;
    n->epoch = hello->epoch;
    n->wire_minor = hello->wire_minor;
    n->simulated = hello->simulated;
    n->hello_local.ns = mrd_time_checked(hello->local_ns);
    n->hello_wall.ns = mrd_time_checked(hello->wall_ns);
    n->beat.ns = 0;
    mrd_text_set(n->boot_id, sizeof(n->boot_id), hello->boot_id);
    mrd_text_set(n->host_name, sizeof(n->host_name), hello->host_name);
    mrd_text_set(n->release, sizeof(n->release), hello->release);
    mrd_text_set(n->commit, sizeof(n->commit), hello->commit);
    mrd_strlist_fini(&n->labels);
    for (size_t i = 0; i < hello->n_labels && i < LABELS_MAX; i++) {
        char text[MRD_TEXT_MAX];

        snprintf(text, sizeof(text), "%s=%s", hello->labels[i]->key, hello->labels[i]->value);
        if (mrd_strlist_add(&n->labels, mrd_str_of(text)) != MRD_OK)
            return;
    }
}

mrd_node *
mrd_node_copy(const mrd_node *n)
{
    mrd_node *c = malloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    *c = *n;
    c->follow = NULL;
    c->probes = NULL;
    mrd_node_models_ref(c->models);
    mrd_runtime_features_ref(c->features);
    c->labels = (mrd_strlist){ 0 };
    if (mrd_strings_copy(&c->labels, &n->labels) != MRD_OK) {
        mrd_node_free(c);
        return NULL;
    }
    return c;
}
