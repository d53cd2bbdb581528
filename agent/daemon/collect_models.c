/* agent/daemon/collect_models.c - the collector of the models that processes load
 * (agent/neuron/models.h). */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_err
start_models(void *self, mrd_why *why)
{
    mrd_agent *agent = self;

    if (agent->o.spool_dir != NULL)
        snprintf(agent->models_path, sizeof(agent->models_path), "%s/models", agent->o.spool_dir);
    return mrd_model_table_open(agent->models_path[0] == '\0' ? NULL : agent->models_path,
                                agent->node.boot_id, agent->proc_root, agent->record,
                                &agent->models, why);
}

static void
step_models(void *self, mrd_local_ns now)
{
    mrd_agent *agent = self;

    mrd_model_table_step(agent->models, now);
}

static void
process_of_models(void *self, mrd_drain_process *process)
{
    mrd_agent *agent = self;

    if (process->gone)
        mrd_model_table_gone(agent->models, process, mrd_local_now());
    else
        mrd_model_table_seen(agent->models, process);
}

static void
model_event(void *self, mrd_drain_process *process, uint64_t number, bool load, const mrd_event *ev)
{
    mrd_agent *agent = self;

    mrd_model_table_event(agent->models, process, number, load, ev);
}

static void
stop_models(void *self)
{
    mrd_agent *agent = self;

    mrd_model_table_close(agent->models);
    agent->models = NULL;
}

const mrd_collector mrd_collector_models = {
    .name = "models",
    .start = start_models,
    .step = step_models,
    .process = process_of_models,
    .model = model_event,
    .stop = stop_models,
    /* needed if the agent's phase `start` failed, because stop is not called then */
    .close = stop_models,
};
