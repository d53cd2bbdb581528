#include "trace/sink/sink_report.h"

mrd_err
mrd_report_sink_open(void *state, const mrd_sink_env *env, mrd_why *why)
{
    mrd_report_sink *s = state;

    s->env = env;
    s->report = mrd_report_new(env);
    return s->report == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "report") : MRD_OK;
}

mrd_err
mrd_report_sink_event(void *state, const mrd_event *ev)
{
    return mrd_report_add(((mrd_report_sink *) state)->report, ev);
}

mrd_err
mrd_report_sink_close(void *state, mrd_err (*write)(void *state), mrd_why *why)
{
    mrd_report_sink *s = state;
    mrd_err err = s->report == NULL ? MRD_NOMEM : mrd_report_finish(s->report);

    if (err == MRD_OK)
        err = write(state);
    mrd_report_free(s->report);
    return err == MRD_OK ? MRD_OK : mrd_why_set(why, err, 0, "report: %s", mrd_err_text(err));
}
