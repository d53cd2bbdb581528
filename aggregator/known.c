/* Who is known: <store>/nodes.json, so that after a restart those who do not come back are missing,
 * not forgotten. Written by the control thread; a crash costs at most SEEN_NS of "last heard of".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/hub.h"
#include "base/log.h"
#include "base/obj.h"
#include "base/out.h"

#define VERSION 1
#define SEEN_NS (30 * MRD_SEC) /* when nothing changed but that they were heard of */

typedef struct {
    const mrd_json *from;
    int64_t seen_wall_ns;
} entry;

static int
by_seen(const void *a, const void *b)
{
    int64_t x = ((const entry *) a)->seen_wall_ns, y = ((const entry *) b)->seen_wall_ns;

    return x < y ? 1 : x > y ? -1 : 0; /* the last one first */
}

static mrd_err
load_one(hub *h, const entry *e, int64_t wall_ns)
{
    const char *id = mrd_json_str(e->from, "instance_id", "");
    int64_t ago = wall_ns > e->seen_wall_ns ? wall_ns - e->seen_wall_ns : 0;
    hub_node *n;

    if (!mrd_instance_id_valid(mrd_str_of(id)) || hub_node_by_id(h, id) != NULL ||
        ago >= h->limits.node_forget_ns)
        return MRD_OK; /* nobody expects it */
    if ((n = hub_node_add(h, id)) == NULL)
        return MRD_NOMEM;
    n->key = mrd_agent_key(mrd_str_of(id));
    n->simulated = mrd_json_bool(e->from, "simulated", false);
    n->seen_wall_ns = e->seen_wall_ns;
    n->seen_ns = mrd_local_now().ns - ago;
    hub_copy(n->host_name, sizeof(n->host_name), mrd_json_str(e->from, "host_name", ""));
    hub_copy(n->boot_id, sizeof(n->boot_id), mrd_json_str(e->from, "boot_id", ""));
    hub_copy(n->release, sizeof(n->release), mrd_json_str(e->from, "release", ""));
    return MRD_OK;
}

static mrd_err
load_list(hub *h, const mrd_json *list)
{
    size_t n = list == NULL ? 0 : mrd_json_size(list);
    entry *v = calloc(n + 1, sizeof(*v));
    int64_t wall_ns = mrd_wall_now().ns;
    mrd_err err = v == NULL ? MRD_NOMEM : MRD_OK;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        v[i].from = mrd_json_at(list, i);
        v[i].seen_wall_ns = hub_time(mrd_json_int(v[i].from, "seen_ns", 0));
    }
    if (err == MRD_OK)
        qsort(v, n, sizeof(*v), by_seen);
    for (size_t i = 0; i < n && err == MRD_OK && (int64_t) h->n_nodes < h->limits.max_nodes; i++)
        err = load_one(h, &v[i], wall_ns);
    free(v);
    return err;
}

void
known_load(hub *h)
{
    char *path = hub_path(h, NULL, "nodes.json");
    mrd_json *o = NULL;
    mrd_why why = { 0 };
    mrd_err err = path == NULL ? mrd_why_set(&why, MRD_NOMEM, 0, "list of nodes") : MRD_OK;

    h->known.opened_ns = mrd_local_now().ns;
    if (err == MRD_OK && access(path, F_OK) == 0)
        err = mrd_json_load_up_to(path, MRD_JSON_MANIFEST, &o, &why);
    if (err == MRD_OK && mrd_json_int(o, "version", VERSION) > VERSION)
        err = mrd_why_set(&why, MRD_VERSION, 0, "%s: written by a newer release", path);
    if (err == MRD_OK && (err = load_list(h, mrd_json_get(o, "nodes"))) != MRD_OK)
        mrd_why_set(&why, err, 0, "list of nodes");
    if (err != MRD_OK)
        mrd_log(MRD_LOG_WARN, "AGG-NODES-UNREADABLE",
                "Nodes of before are not known, only those that come back: reason=%s", why.text);
    mrd_json_free(o);
    free(path);
}

static void
write_list(const hub *h, mrd_buf *to)
{
    bool first = true;

    mrd_buf_fmt(to, "{\"version\": %d, \"nodes\": [", VERSION);
    for (size_t i = 0; i < h->n_nodes; i++) {
        const hub_node *n = h->nodes[i];

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
        mrd_buf_fmt(to, ", \"simulated\": %s, \"seen_ns\": %lld}", n->simulated ? "true" : "false",
                    (long long) n->seen_wall_ns);
        first = false;
    }
    mrd_buf_text(to, "\n]}\n");
}

void
known_save(hub *h, bool last)
{
    int64_t now = mrd_local_now().ns;
    bool changed = h->known.changed;
    mrd_buf text = { 0 };
    mrd_why why = { 0 };
    mrd_err err;
    char *path;

    if (!changed && (h->n_nodes == 0 || (!last && now < h->known.saved_ns + SEEN_NS)))
        return;
    h->known.changed = false;
    h->known.saved_ns = now;
    write_list(h, &text);
    path = hub_path(h, NULL, "nodes.json");
    pthread_mutex_unlock(&h->lock);
    if (path == NULL || text.err != MRD_OK)
        err = mrd_why_set(&why, MRD_NOMEM, 0, "list of nodes");
    else if (changed && h->sync == MRD_SYNC_GROUP)
        err = mrd_write_file_durable(path, (mrd_bytes){ text.p, text.len }, 0644, &why);
    else
        err = mrd_write_file(path, (mrd_bytes){ text.p, text.len }, 0644, &why);
    mrd_buf_fini(&text);
    free(path);
    pthread_mutex_lock(&h->lock);
    if (err != MRD_OK && !h->known.failed) /* said once; it is tried again every second */
        mrd_log(MRD_LOG_WARN, "AGG-NODES",
                "List of nodes not written, a restart would not miss them: reason=%s", why.text);
    h->known.failed = err != MRD_OK;
    h->known.changed = h->known.changed || err != MRD_OK;
}

mrd_err
known_forget(hub *h, mrd_str instance_id, mrd_why *why)
{
    for (size_t i = 0; i < h->n_nodes; i++) {
        hub_node *n = h->nodes[i];

        if (n->forget || !mrd_str_is(instance_id, n->instance_id))
            continue;
        if (hub_node_alive(h, n))
            return mrd_why_set(why, MRD_STATE, 0,
                               "node %s is connected and would be known again at once: stop its "
                               "meridian-agent first",
                               n->instance_id);
        for (size_t k = 0; k < h->n_sessions; k++) { /* what open ones say when it is given up */
            hub_part *p = hub_part_of(h->sessions[k], n->instance_id);

            if (p != NULL && hub_session_open(h->sessions[k]))
                p->lost_wall_ns = n->seen_wall_ns;
        }
        n->forget = h->known.changed = true;
        return MRD_OK;
    }
    return mrd_why_set(why, MRD_NOTFOUND, 0, "no node '" MRD_STR_FMT "' is known",
                       MRD_STR_ARG(instance_id));
}
