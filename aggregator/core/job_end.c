/* When a job is over: that on all its nodes, and a node that vanished is not waited for when others have ended. */
#include "aggregator/core/jobs.h"

#define MORE_NODES (10 * MRD_SEC) /* after the last end, so long others may still begin */
#define ANY_NODES  (2 * MRD_SEC)  /* ... where nobody says how many it has */
#define AWAY       12             /* x node_timeout: a node unseen for so long is not waited for */

/* How long the node has been away; negative: it is there. */
static mrd_dur_ns
away(const mrd_core *c, const mrd_part *p)
{
    const mrd_node *n = mrd_nodes_by_id(&c->nodes, p->instance_id);

    if (n == NULL)
        return INT64_MAX;
    return mrd_core_is_alive(c, n) ? -1 : c->now.local.ns - n->seen.ns;
}

bool
mrd_job_part_is_gone(const mrd_core *c, const mrd_session *s, const mrd_part *p)
{
    return s->of_job.key.text[0] != '\0' && away(c, p) > AWAY * c->limits.node_timeout;
}

bool
mrd_job_is_over(const mrd_core *c, const mrd_session *s)
{
    size_t ended = 0;
    mrd_dur_ns least = INT64_MAX;

    for (size_t i = 0; i < s->n_parts; i++) {
        const mrd_part *p = s->parts[i];
        mrd_dur_ns d;

        if (p->job_ended) {
            ended++;
            continue;
        }
        if ((d = away(c, p)) < 0)
            return false;
        least = d < least ? d : least;
    }
    if (ended == s->n_parts)
        return (s->of_job.nodes > 0 && ended >= s->of_job.nodes) ||
               c->now.local.ns >
                   s->of_job.ended.ns + (s->of_job.nodes > 0 ? MORE_NODES : ANY_NODES);
    return least > (ended > 0 ? AWAY * c->limits.node_timeout : c->limits.flush_timeout);
}
