/* Writes and loads the registry of nodes, nodes.json. With the registry, a restarted aggregator can
 * report nodes that do not reconnect. The file also has the time when each node was last seen.
 * After a crash these times may be 30 s too old. */
#include "aggregator/core/manifest/manifest.h"

#include "aggregator/core/common/text.h"
#include "base/obj.h"

#define VERSION 1

typedef struct {
    const mrd_json *from;
    mrd_wall_ns seen;
    /* the node has sent data at some time; entries of earlier releases lack this and count as
     * true */
    bool has_sent;
} entry;

static int
by_worth(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->has_sent != y->has_sent)
        return x->has_sent ? -1 : 1;
    return x->seen.ns < y->seen.ns ? 1 : x->seen.ns > y->seen.ns ? -1 : 0;
}

static mrd_err
load_one(mrd_core *core, const entry *item)
{
    const char *id = mrd_json_str(item->from, "instance_id", "");
    int64_t ago = core->now.wall.ns > item->seen.ns ? core->now.wall.ns - item->seen.ns : 0;
    mrd_node *node;

    if (!mrd_instance_id_valid(mrd_str_of(id)) || mrd_nodes_by_id(&core->nodes, id) != NULL ||
        ago >= core->limits.node_forget)
        /* the node is not loaded, because it was not seen for `node_forget` and no session expects
         * it */
        return MRD_OK;
    if ((node = mrd_nodes_add(&core->nodes, id, core->now.local)) == NULL)
        return MRD_NOMEM;
    node->key = mrd_agent_key(mrd_str_of(id));
    node->simulated = mrd_json_bool(item->from, "simulated", false);
    node->seen_wall = item->seen;
    node->has_sent = item->has_sent;
    node->seen.ns = core->now.local.ns - ago;
    mrd_text_set(node->host_name, sizeof(node->host_name),
                 mrd_json_str(item->from, "host_name", ""));
    mrd_text_set(node->boot_id, sizeof(node->boot_id), mrd_json_str(item->from, "boot_id", ""));
    mrd_text_set(node->release, sizeof(node->release), mrd_json_str(item->from, "release", ""));
    mrd_text_set(node->commit, sizeof(node->commit), mrd_json_str(item->from, "commit", ""));
    return MRD_OK;
}

mrd_err
mrd_core_load_registry(mrd_core *core, const mrd_json *json, mrd_why *why)
{
    const mrd_json *list = mrd_json_get(json, "nodes");
    size_t n = list == NULL ? 0 : mrd_json_size(list);
    entry *item = calloc(n + 1, sizeof(*item));
    mrd_err err = item == NULL ? MRD_NOMEM : MRD_OK;

    if (mrd_json_int(json, "version", VERSION) > VERSION)
        err = mrd_why_set(why, MRD_VERSION, 0, "nodes.json was written by a newer release");
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        item[i].from = mrd_json_at(list, i);
        item[i].seen.ns = mrd_time_checked(mrd_json_int(item[i].from, "seen_ns", 0));
        item[i].has_sent = mrd_json_bool(item[i].from, "sent", true);
    }
    if (err == MRD_OK)
        qsort(item, n, sizeof(*item), by_worth);
    for (size_t i = 0; i < n && err == MRD_OK && (int64_t) core->nodes.n < core->limits.max_nodes;
         i++)
        err = load_one(core, &item[i]);
    free(item);
    return err == MRD_NOMEM ? mrd_why_set(why, MRD_NOMEM, 0, "list of nodes") : err;
}

void
mrd_core_registry_text(const mrd_core *core, mrd_buf *to)
{
    bool first = true;

    mrd_buf_fmt(to, "{\"version\": %d, \"nodes\": [", VERSION);
    for (size_t i = 0; i < core->nodes.n; i++) {
        const mrd_node *node = core->nodes.v[i];

        if (node->forget)
            continue;
        mrd_buf_text(to, first ? "\n  {\"instance_id\": " : ",\n  {\"instance_id\": ");
        mrd_json_quote(to, mrd_str_of(node->instance_id));
        mrd_buf_text(to, ", \"host_name\": ");
        mrd_json_quote(to, mrd_str_of(node->host_name));
        mrd_buf_text(to, ", \"boot_id\": ");
        mrd_json_quote(to, mrd_str_of(node->boot_id));
        mrd_buf_text(to, ", \"release\": ");
        mrd_json_quote(to, mrd_str_of(node->release));
        mrd_buf_text(to, ", \"commit\": ");
        mrd_json_quote(to, mrd_str_of(node->commit));
        mrd_buf_fmt(to, ", \"simulated\": %s, \"sent\": %s, \"seen_ns\": %lld}",
                    node->simulated ? "true" : "false", node->has_sent ? "true" : "false",
                    (long long) node->seen_wall.ns);
        first = false;
    }
    mrd_buf_text(to, "\n]}\n");
}
