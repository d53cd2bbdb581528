/* Decides when a job is over: when it has ended on all its nodes. If the job has ended on other
 * nodes, a node that is disconnected for a long time is not waited for. */
#include "aggregator/core/decide/jobs.h"

/* How long a job whose number of nodes is known is still open after all nodes that reported it have
 * reported its end. In this time, further nodes may report the begin of the job. */
#define MORE_NODES (10 * MRD_SEC)
/* used instead of MORE_NODES if the number of the job's nodes is unknown */
#define ANY_NODES (2 * MRD_SEC)
/* A node that is disconnected for more than AWAY times `node_timeout` does not delay the end of its
 * job. */
#define AWAY 12

/* Returns how long the part's node has been disconnected, in ns. Returns -1 if the node is
 * connected, and INT64_MAX if its entry was removed from the table of nodes. */
static mrd_dur_ns
away(const mrd_core *core, const mrd_part *part)
{
    const mrd_node *node = mrd_nodes_by_id(&core->nodes, part->instance_id);

    if (node == NULL)
        return INT64_MAX;
    return mrd_core_is_alive(core, node) ? -1 : core->now.local.ns - node->seen.ns;
}

bool
mrd_job_part_is_gone(const mrd_core *core, const mrd_session *session, const mrd_part *part)
{
    return session->of_job.key.text[0] != '\0' &&
           away(core, part) > AWAY * core->limits.node_timeout;
}

bool
mrd_job_is_over(const mrd_core *core, const mrd_session *session)
{
    size_t ended = 0;
    mrd_dur_ns least = INT64_MAX;

    for (size_t i = 0; i < session->n_parts; i++) {
        const mrd_part *part = session->parts[i];
        mrd_dur_ns d;

        if (part->job_ended) {
            ended++;
            continue;
        }
        if ((d = away(core, part)) < 0)
            return false;
        least = d < least ? d : least;
    }
    if (ended == session->n_parts)
        return (session->of_job.nodes > 0 && ended >= session->of_job.nodes) ||
               core->now.local.ns >
                   session->of_job.ended.ns + (session->of_job.nodes > 0 ? MORE_NODES : ANY_NODES);
    return least > (ended > 0 ? AWAY * core->limits.node_timeout : core->limits.flush_timeout);
}
