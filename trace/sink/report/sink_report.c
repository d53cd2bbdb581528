#include "trace/sink/report/sink_report.h"

mrd_err
mrd_report_sink_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    mrd_report_sink *sink = state;

    sink->env = env;
    sink->report = mrd_report_new(env);
    sink->scopes = mrd_scope_memory_new(env);
    sink->memory = mrd_memory_use_new(env);
    if (sink->report != NULL && sink->scopes != NULL && sink->memory != NULL)
        return MRD_OK;
    mrd_report_free(sink->report);
    mrd_scope_memory_free(sink->scopes);
    mrd_memory_use_free(sink->memory);
    return mrd_why_set(why, MRD_NOMEM, 0, "report");
}

mrd_err
mrd_report_sink_event(void *state, const mrd_event *ev)
{
    mrd_report_sink *sink = state;

    if (ev->kind == MRD_COUNTER) {
        mrd_err err = mrd_memory_use_add(sink->memory, ev);

        mrd_scope_memory_add(sink->scopes, ev);
        if (err != MRD_OK)
            return err;
    }
    return mrd_report_add(sink->report, ev);
}

mrd_err
mrd_report_sink_close(void *state, mrd_err (*write)(void *state), mrd_why *why)
{
    mrd_report_sink *sink = state;
    mrd_err err = sink->report == NULL ? MRD_NOMEM : mrd_report_finish(sink->report);

    if (err == MRD_OK)
        err = write(state);
    mrd_report_free(sink->report);
    mrd_scope_memory_free(sink->scopes);
    mrd_memory_use_free(sink->memory);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "report: %s", mrd_err_text(err));
}
