/* Makes flight recorders keep the events that led to a verdict about a job. */
#include "aggregator/core/decide/watch.h"

/* Returns true if the session records the job, so that the session's readers may see the
 * verdict. */
static bool
concerns(const mrd_session *session, const mrd_job_key *job)
{
    return session->of_job.key.text[0] == '\0' || mrd_job_key_equal(&session->of_job.key, job);
}

/* One report for each session is enough, because its trigger reaches all nodes. */
void
mrd_watch_freeze(mrd_core *core, const mrd_job_key *job, const char *reason)
{
    for (size_t i = 0; i < core->n_sessions; i++) {
        mrd_session *session = core->sessions[i];

        if (!concerns(session, job))
            continue;
        for (size_t k = 0; k < core->nodes.n; k++) {
            const mrd_node *node = core->nodes.v[k];

            if (mrd_session_part(session, node->instance_id) == NULL ||
                !mrd_hang_is_on(core->hang, job, node->key))
                continue;
            mrd_session_report(core, session, node, reason);
            break;
        }
    }
}
