/* Decides when a job is over: when it ended on all its nodes. A node that vanished is not awaited
 * if the job ended on others. */
#include "aggregator/core/decide/jobs.h"

/* after the last end, other nodes may still begin for this long */
#define MORE_NODES (10 * MRD_SEC)
#define ANY_NODES  (2 * MRD_SEC) /* ... if the number of its nodes is unknown */
/* x node_timeout: a node that was not seen for this long is not awaited */
#define AWAY 12

/* Returns how long the node has been away; negative if it is connected. */
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
