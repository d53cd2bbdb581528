/* agent/daemon/collect_models.c - the models that processes load, for the sessions (agent/neuron/models.h). */
#include <stdio.h>

#include "agent/daemon/agent_int.h"
#include "agent/daemon/collector.h"

static mrd_err
start_models(void *self, mrd_why *why)
{
    mrd_agent *a = self;

    if (a->o.spool_dir != NULL)
        snprintf(a->models_path, sizeof(a->models_path), "%s/models", a->o.spool_dir);
    return mrd_model_table_open(a->models_path[0] == '\0' ? NULL : a->models_path, a->node.boot_id,
                                a->proc_root, a->record, &a->models, why);
}

static void
step_models(void *self, mrd_local_ns now)
{
    mrd_agent *a = self;

    mrd_model_table_step(a->models, now);
}

static void
process_of_models(void *self, mrd_drain_process *process)
{
    mrd_agent *a = self;

    if (process->gone)
        mrd_model_table_gone(a->models, process, mrd_local_now());
    else
        mrd_model_table_seen(a->models, process);
}

static void
model_event(void *self, mrd_drain_process *process, uint64_t number, bool load, const mrd_event *ev)
{
    mrd_agent *a = self;

    mrd_model_table_event(a->models, process, number, load, ev);
}

static void
stop_models(void *self)
{
    mrd_agent *a = self;

    mrd_model_table_close(a->models);
    a->models = NULL;
}

const mrd_collector mrd_collector_models = {
    .name = "models",
    .start = start_models,
    .step = step_models,
    .process = process_of_models,
    .model = model_event,
    .stop = stop_models,
    .close = stop_models, /* where start failed */
};
