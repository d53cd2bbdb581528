/* agent/daemon/collect_runtime.c - the collector of the features of the node's Neuron runtimes
 * (agent/rings/runtime_features.h). */
#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"
#include "base/conf/log.h"

static void
notice_runtime(void *self, mrd_drain_process *process, const mrd_event *ev)
{
    mrd_agent *agent = self;
    mrd_buf names = { 0 };
    bool is_new;

    if (!mrd_runtime_notice(&agent->features, process, ev, &is_new) || !is_new)
        return;
    for (size_t i = 0; i < agent->features.unknown.n; i++)
        mrd_buf_fmt(&names, "%s%s", i == 0 ? "" : ",", agent->features.unknown.v[i]);
    mrd_log(MRD_LOG_WARN, "AGT-RUNTIME",
            "The Neuron runtime has functions that libmeridian does not know: their calls are not "
            "recorded: version=%s functions=%s",
            agent->features.version, mrd_buf_cstr(&names));
    mrd_buf_fini(&names);
}

static void
close_runtime(void *self)
{
    mrd_agent *agent = self;

    mrd_runtime_fini(&agent->features);
}

const mrd_collector mrd_collector_runtime = {
    .name = "runtime",
    .notice = notice_runtime,
    .close = close_runtime,
};
