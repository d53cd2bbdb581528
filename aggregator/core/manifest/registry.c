/* The nodes that are remembered across restarts, so that a node that does not come back is reported
 * as missing. After a crash "last seen" may be 30 s too old. */
#include "aggregator/core/manifest/manifest.h"

#include "aggregator/core/common/text.h"
#include "base/obj.h"

#define VERSION 1

typedef struct {
    const mrd_json *from;
    mrd_wall_ns seen;
    bool has_sent; /* true for entries of a release that did not store the value */
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
load_one(mrd_core *c, const entry *e)
{
    const char *id = mrd_json_str(e->from, "instance_id", "");
    int64_t ago = c->now.wall.ns > e->seen.ns ? c->now.wall.ns - e->seen.ns : 0;
    mrd_node *n;

    if (!mrd_instance_id_valid(mrd_str_of(id)) || mrd_nodes_by_id(&c->nodes, id) != NULL ||
        ago >= c->limits.node_forget)
        return MRD_OK; /* no session expects the node any more */
    if ((n = mrd_nodes_add(&c->nodes, id, c->now.local)) == NULL)
        return MRD_NOMEM;
    n->key = mrd_agent_key(mrd_str_of(id));
    n->simulated = mrd_json_bool(e->from, "simulated", false);
    n->seen_wall = e->seen;
    n->has_sent = e->has_sent;
    n->seen.ns = c->now.local.ns - ago;
    mrd_text_set(n->host_name, sizeof(n->host_name), mrd_json_str(e->from, "host_name", ""));
    mrd_text_set(n->boot_id, sizeof(n->boot_id), mrd_json_str(e->from, "boot_id", ""));
    mrd_text_set(n->release, sizeof(n->release), mrd_json_str(e->from, "release", ""));
    mrd_text_set(n->commit, sizeof(n->commit), mrd_json_str(e->from, "commit", ""));
    return MRD_OK;
}

mrd_err
mrd_core_load_registry(mrd_core *c, const mrd_json *o, mrd_why *why)
{
    const mrd_json *list = mrd_json_get(o, "nodes");
    size_t n = list == NULL ? 0 : mrd_json_size(list);
    entry *v = calloc(n + 1, sizeof(*v));
    mrd_err err = v == NULL ? MRD_NOMEM : MRD_OK;

    if (mrd_json_int(o, "version", VERSION) > VERSION)
        err = mrd_why_set(why, MRD_VERSION, 0, "nodes.json was written by a newer release");
    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        v[i].from = mrd_json_at(list, i);
        v[i].seen.ns = mrd_time_checked(mrd_json_int(v[i].from, "seen_ns", 0));
        v[i].has_sent = mrd_json_bool(v[i].from, "sent", true);
    }
    if (err == MRD_OK)
        qsort(v, n, sizeof(*v), by_worth);
    for (size_t i = 0; i < n && err == MRD_OK && (int64_t) c->nodes.n < c->limits.max_nodes; i++)
        err = load_one(c, &v[i]);
    free(v);
    return err == MRD_NOMEM ? mrd_why_set(why, MRD_NOMEM, 0, "list of nodes") : err;
}

void
mrd_core_registry_text(const mrd_core *c, mrd_buf *to)
{
    bool first = true;

    mrd_buf_fmt(to, "{\"version\": %d, \"nodes\": [", VERSION);
    for (size_t i = 0; i < c->nodes.n; i++) {
        const mrd_node *n = c->nodes.v[i];

        if (n->forget)
            continue;
        mrd_buf_text(to, first ? "\n  {\"instance_id\": " : ",\n  {\"instance_id\": ");
        mrd_json_quote(to, mrd_str_of(n->instance_id));
        mrd_buf_text(to, ", \"host_name\": ");
        mrd_json_quote(to, mrd_str_of(n->host_name));
        mrd_buf_text(to, ", \"boot_id\": ");
        mrd_json_quote(to, mrd_str_of(n->boot_id));
        mrd_buf_text(to, ", \"release\": ");
        mrd_json_quote(to, mrd_str_of(n->release));
        mrd_buf_text(to, ", \"commit\": ");
        mrd_json_quote(to, mrd_str_of(n->commit));
        mrd_buf_fmt(to, ", \"simulated\": %s, \"sent\": %s, \"seen_ns\": %lld}",
                    n->simulated ? "true" : "false", n->has_sent ? "true" : "false",
                    (long long) n->seen_wall.ns);
        first = false;
    }
    mrd_buf_text(to, "\n]}\n");
}
