/* Copies the data of a session that a merge needs. */
#include "aggregator/merge/merge.h"

#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"

static void
node_gaps(const mrd_counts *c, merge_node *n)
{
    for (unsigned i = 0; i < c->gaps.n; i++)
        if (!c->gaps.v[i].marked)
            n->gaps[n->n_gaps++] = c->gaps.v[i];
    for (unsigned i = 0; i < c->n_losses; i++)
        mrd_text_set(n->causes[i], sizeof(n->causes[i]), c->losses[i].cause);
}

/* Converts the session's pauses to the node's clock. A pause without an end lasts until the end of
 * the session. */
static void
node_pauses(const mrd_session *s, const mrd_part *p, merge_node *n)
{
    int64_t stop = s->stop.ns == 0 ? INT64_MAX : mrd_sat_sub(s->stop.ns, mrd_part_shift(p));
    mrd_gap all[MRD_PAUSES_MAX];
    size_t n_all = mrd_session_pauses(s, p, all);

    for (size_t i = 0; i < n_all; i++) {
        mrd_local_ns end = { stop < all[i].last.ns ? stop : all[i].last.ns };

        if (end.ns != INT64_MAX && end.ns > all[i].first.ns)
            n->pauses[n->n_pauses++] = (mrd_gap){ .first = all[i].first, .last = end };
    }
}

merge_input *
mrd_merge_input_new(const mrd_session_store *store, const mrd_timescale *t, const mrd_session *s)
{
    merge_input *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return NULL;
    in->dir = mrd_session_store_path(store, s->text, ".");
    in->durable = store->sync == MRD_SYNC_GROUP;
    in->nodes = calloc(s->n_parts + 1, sizeof(*in->nodes));
    in->damage = calloc(s->n_parts + 1, sizeof(*in->damage));
    in->artifacts = calloc(s->n_artifacts + 1, sizeof(*in->artifacts));
    if (in->dir == NULL || in->nodes == NULL || in->damage == NULL || in->artifacts == NULL) {
        mrd_merge_input_free(in);
        return NULL;
    }
    in->violations = mrd_session_violations(s);
    in->reference_ns = t->offset;
    in->one_incarnation = strcmp(s->timeline, t->timeline) == 0;
    mrd_text_set(in->id, sizeof(in->id), s->text);
    mrd_text_set(in->name, sizeof(in->name), s->params.name);
    for (size_t i = 0; i < s->n_parts; i++) {
        const mrd_part *p = s->parts[i];
        merge_node *n = &in->nodes[in->n_nodes++];

        mrd_text_set(n->instance_id, sizeof(n->instance_id), p->instance_id);
        mrd_text_set(n->message, sizeof(n->message), p->message);
        n->local = p->local;
        n->wall = p->wall;
        n->same_clock = t->same_clock && !p->simulated && strcmp(p->boot_id, t->boot_id) == 0;
        n->dropped = mrd_part_lost(p) - mrd_counts_unwanted(&p->counts);
        node_gaps(&p->counts, n);
        node_pauses(s, p, n);
        n->events = p->events;
        n->frames = mrd_part_frames(p);
        in->events += p->events;
        in->simulated = in->simulated || p->simulated;
    }
    if (s->n_artifacts > 0)
        memcpy(in->artifacts, s->artifacts, s->n_artifacts * sizeof(*in->artifacts));
    in->n_artifacts = s->n_artifacts;
    return in;
}

void
mrd_merge_input_free(merge_input *in)
{
    if (in == NULL)
        return;
    free(in->dir);
    free(in->nodes);
    free(in->damage);
    free(in->artifacts);
    free(in);
}
