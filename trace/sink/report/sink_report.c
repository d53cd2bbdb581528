#include "trace/sink/report/sink_report.h"

mrd_err
mrd_report_sink_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    mrd_report_sink *s = state;

    s->env = env;
    s->report = mrd_report_new(env);
    s->scopes = mrd_scope_memory_new(env);
    s->memory = mrd_memory_use_new(env);
    if (s->report != NULL && s->scopes != NULL && s->memory != NULL)
        return MRD_OK;
    mrd_report_free(s->report);
    mrd_scope_memory_free(s->scopes);
    mrd_memory_use_free(s->memory);
    return mrd_why_set(why, MRD_NOMEM, 0, "report");
}

mrd_err
mrd_report_sink_event(void *state, const mrd_event *ev)
{
    mrd_report_sink *s = state;

    if (ev->kind == MRD_COUNTER) {
        mrd_err err = mrd_memory_use_add(s->memory, ev);

        mrd_scope_memory_add(s->scopes, ev);
        if (err != MRD_OK)
            return err;
    }
    return mrd_report_add(s->report, ev);
}

mrd_err
mrd_report_sink_close(void *state, mrd_err (*write)(void *state), mrd_why *why)
{
    mrd_report_sink *s = state;
    mrd_err err = s->report == NULL ? MRD_NOMEM : mrd_report_finish(s->report);

    if (err == MRD_OK)
        err = write(state);
    mrd_report_free(s->report);
    mrd_scope_memory_free(s->scopes);
    mrd_memory_use_free(s->memory);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "report: %s", mrd_err_text(err));
}
