/* Copies a session's data for a merge, which runs on another thread. */
#include "aggregator/merge/merge.h"

#include <stdlib.h>

#include "aggregator/core/common/text.h"
#include "base/num.h"

static void
node_gaps(const mrd_counts *counts, merge_node *node)
{
    for (unsigned i = 0; i < counts->gaps.n; i++)
        if (!counts->gaps.v[i].marked)
            node->gaps[node->n_gaps++] = counts->gaps.v[i];
    for (unsigned i = 0; i < counts->n_losses; i++)
        mrd_text_set(node->causes[i], sizeof(node->causes[i]), counts->losses[i].cause);
}

/* Converts the session's pauses to the node's RAW clock. A pause without an end lasts until the
 * session ends. */
static void
node_pauses(const mrd_session *session, const mrd_part *part, merge_node *node)
{
    int64_t stop =
        session->stop.ns == 0 ? INT64_MAX : mrd_sat_sub(session->stop.ns, mrd_part_shift(part));
    mrd_gap all[MRD_PAUSES_MAX];
    size_t n_all = mrd_session_pauses(session, part, all);

    for (size_t i = 0; i < n_all; i++) {
        mrd_local_ns end = { stop < all[i].last.ns ? stop : all[i].last.ns };

        if (end.ns != INT64_MAX && end.ns > all[i].first.ns)
            node->pauses[node->n_pauses++] = (mrd_gap){ .first = all[i].first, .last = end };
    }
}

merge_input *
mrd_merge_input_new(const mrd_session_store *store, const mrd_timescale *timescale,
                    const mrd_session *session)
{
    merge_input *in = calloc(1, sizeof(*in));

    if (in == NULL)
        return NULL;
    in->dir = mrd_session_store_path(store, session->text, ".");
    in->durable = store->sync == MRD_SYNC_GROUP;
    in->nodes = calloc(session->n_parts + 1, sizeof(*in->nodes));
    in->damage = calloc(session->n_parts + 1, sizeof(*in->damage));
    in->artifacts = calloc(session->n_artifacts + 1, sizeof(*in->artifacts));
    if (in->dir == NULL || in->nodes == NULL || in->damage == NULL || in->artifacts == NULL) {
        mrd_merge_input_free(in);
        return NULL;
    }
    in->violations = mrd_session_violations(session);
    in->reference_ns = timescale->offset;
    in->one_incarnation = strcmp(session->timeline, timescale->timeline) == 0;
    mrd_text_set(in->id, sizeof(in->id), session->text);
    mrd_text_set(in->name, sizeof(in->name), session->params.name);
    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];
        merge_node *node = &in->nodes[in->n_nodes++];

        mrd_text_set(node->instance_id, sizeof(node->instance_id), part->instance_id);
        mrd_text_set(node->message, sizeof(node->message), part->message);
        node->local = part->local;
        node->wall = part->wall;
        node->same_clock = timescale->same_clock && !part->simulated &&
                           strcmp(part->boot_id, timescale->boot_id) == 0;
        node->dropped = mrd_part_lost(part) - mrd_counts_unwanted(&part->counts);
        node_gaps(&part->counts, node);
        node_pauses(session, part, node);
        node->events = part->events;
        node->frames = mrd_part_frames(part);
        in->events += part->events;
        in->simulated = in->simulated || part->simulated;
    }
    if (session->n_artifacts > 0)
        memcpy(in->artifacts, session->artifacts, session->n_artifacts * sizeof(*in->artifacts));
    in->n_artifacts = session->n_artifacts;
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
