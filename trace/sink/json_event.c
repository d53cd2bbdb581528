#include "trace/sink/json_event.h"

void
mrd_json_put_bound(mrd_jw *jw, uint32_t bound_ns)
{
    if (bound_ns == MRD_BOUND_LOCAL)
        return;
    MRD_JW_KEY(jw, "clock_bound_ns");
    if (bound_ns == MRD_BOUND_UNKNOWN)
        mrd_jw_null(jw);
    else
        mrd_jw_u64(jw, bound_ns);
}

void
mrd_json_put_marks(mrd_jw *jw, const mrd_event *ev)
{
    static const char *const dirs[] = { "", "start", "step", "end" };

    mrd_jw_put_sid(jw, MRD_STR("category"), ev->category);
    if (ev->kind == MRD_INSTANT) {
        MRD_JW_PUT(jw, "kind", str, MRD_STR("instant"));
    }
    mrd_jw_put_flag(jw, MRD_STR("unfinished"), ev->kind == MRD_SPAN && ev->dur_ns < 0);
    mrd_jw_put_flag(jw, MRD_STR("no_start"), ev->flags & MRD_EV_NO_START);
    mrd_jw_put_flag(jw, MRD_STR("simulated"), ev->flags & MRD_EV_SIMULATED);
    mrd_json_put_bound(jw, ev->bound_ns);
    if (ev->flow_count == 0)
        return;
    MRD_JW_PUT(jw, "flow_id", open, '[');
    for (uint8_t i = 0; i < ev->flow_count; i++)
        mrd_jw_u64_text(jw, ev->flows[i].id);
    mrd_jw_close(jw, ']');
    MRD_JW_PUT(jw, "flow_dir", open, '[');
    for (uint8_t i = 0; i < ev->flow_count; i++)
        mrd_jw_str(jw, mrd_str_of(dirs[ev->flows[i].dir & 3]));
    mrd_jw_close(jw, ']');
}

void
mrd_json_put_sample(mrd_jw *jw, const mrd_event *ev)
{
    if (!(ev->flags & MRD_EV_INT))
        mrd_jw_double(jw, ev->value);
    else if (ev->flags & MRD_EV_UNSIGNED)
        mrd_jw_u64(jw, (uint64_t) ev->ivalue);
    else
        mrd_jw_i64(jw, ev->ivalue);
}
