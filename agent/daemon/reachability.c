/* agent/daemon/reachability.c - notices when the aggregator is unreachable, and reports this in the
 * log, in the metrics and in /readyz. */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "base/conf/agent_waits.h"
#include "base/conf/log.h"

static bool
is_reached(const mrd_agent *agent, mrd_publish_stats *ret_stats)
{
    mrd_publish_get_stats(agent->publish, ret_stats);
    return ret_stats->welcome;
}

mrd_dur_ns
mrd_agent_unreached_ns(const mrd_agent *agent)
{
    return agent->unreached_since.ns == 0 ? 0
                                          : mrd_local_diff(mrd_local_now(), agent->unreached_since);
}

/* Stores in `text` why the aggregator is unreachable, if the agent can find out. The transport does
 * not report why a connection failed. */
static void
reason(const mrd_agent *agent, const mrd_publish_stats *st, char text[MRD_WHY_MAX])
{
    if (agent->enrol != NULL && mrd_enrol_lacks(agent->enrol)[0] != '\0')
        snprintf(text, MRD_WHY_MAX, "%.500s", mrd_enrol_lacks(agent->enrol));
    else if (!st->up)
        snprintf(text, MRD_WHY_MAX,
                 "no connection: check that meridian-aggregator runs there and that the port is "
                 "open (`meridian doctor` checks both)");
    else if (st->message[0] != '\0')
        snprintf(text, MRD_WHY_MAX, "the aggregator refuses this agent: %.500s", st->message);
    else
        snprintf(text, MRD_WHY_MAX,
                 "connected, but no answer: check that this is the data port of an aggregator");
}

void
mrd_agent_reach_step(mrd_agent *agent, mrd_local_ns now)
{
    mrd_publish_stats st;
    mrd_spool_stats spool;
    char why[MRD_WHY_MAX];

    if (agent->publish == NULL)
        return;
    if (is_reached(agent, &st)) {
        agent->unreached_since = agent->unreached_said = (mrd_local_ns){ 0 };
        return;
    }
    if (agent->unreached_since.ns == 0)
        agent->unreached_since = now;
    if (mrd_local_diff(now, agent->unreached_since) < MRD_WAIT_UNREACHED_FIRST ||
        (agent->unreached_said.ns != 0 &&
         mrd_local_diff(now, agent->unreached_said) < MRD_WAIT_UNREACHED_AGAIN))
        return;
    agent->unreached_said = now;
    reason(agent, &st, why);
    mrd_spool_get_stats(agent->spool, &spool);
    mrd_log(MRD_LOG_WARN, "AGT-UNREACHED",
            "The agent cannot reach the aggregator; it keeps what sessions record %s until the "
            "spool is full, then drops and counts the oldest: url=%s for_s=%lld sessions=%zu "
            "spool_bytes=%llu spool_size=%lld reason=%s",
            agent->o.spool_dir == NULL ? "in memory (without --spool-dir a restart loses it)"
                                       : "on disk",
            agent->o.data_url == NULL ? "" : agent->o.data_url,
            (long long) (mrd_local_diff(now, agent->unreached_since) / MRD_SEC),
            mrd_record_sessions(agent->record), (unsigned long long) spool.file_bytes,
            (long long) agent->o.spool_bytes, why);
}

mrd_local_ns
mrd_agent_reach_next_ns(const mrd_agent *agent)
{
    if (agent->unreached_since.ns == 0)
        return (mrd_local_ns){ INT64_MAX };
    return agent->unreached_said.ns == 0
               ? mrd_local_add(agent->unreached_since, MRD_WAIT_UNREACHED_FIRST)
               : mrd_local_add(agent->unreached_said, MRD_WAIT_UNREACHED_AGAIN);
}

bool
mrd_agent_ready(void *self, char text[MRD_WHY_MAX])
{
    const mrd_agent *agent = self;
    mrd_dur_ns away = mrd_agent_unreached_ns(agent);
    mrd_publish_stats st;
    char why[MRD_WHY_MAX];

    if (agent->publish == NULL) {
        snprintf(text, MRD_WHY_MAX, "no aggregator is given");
        return false;
    }
    if (is_reached(agent, &st)) {
        snprintf(text, MRD_WHY_MAX, "ok");
        return true;
    }
    reason(agent, &st, why);
    snprintf(text, MRD_WHY_MAX, "the aggregator has not been reached for %lld s: %.560s",
             (long long) (away / MRD_SEC), why);
    return false;
}
