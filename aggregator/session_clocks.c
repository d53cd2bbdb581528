/* What the manifest says about clocks: of each part its last state and the frames that contradict
 * it, of the session whether anything contradicts its clocks. */
#include "aggregator/hub.h"

mrd_json *
clock_json(const hub_clock *c)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "state", mrd_json_new_str(c->state[0] == '\0' ? "unaligned" : c->state));
    mrd_json_set(o, "method", mrd_json_new_str(c->method[0] == '\0' ? "none" : c->method));
    mrd_json_set(o, "bound_ns", mrd_json_new_int(c->state[0] == '\0' ? -1 : c->bound_ns));
    mrd_json_set(o, "offset_ns", mrd_json_new_int(c->offset_ns));
    mrd_json_set(o, "probes", mrd_json_new_int((int64_t) c->probes));
    return o;
}

mrd_json *
part_clock_json(const hub_part *p)
{
    mrd_json *o = clock_json(&p->clock);

    mrd_json_set(o, "frames_checked", mrd_json_new_int((int64_t) p->causality.checked));
    mrd_json_set(o, "frame_violations", mrd_json_new_int((int64_t) p->causality.violations));
    mrd_json_set(o, "frame_worst_ns", mrd_json_new_int(p->causality.worst_ns));
    if (p->has_reading)
        mrd_json_set(o, "host", mrd_host_reading_json(&p->reading));
    return o;
}

uint64_t
verdict_violations(const merge_verdict *v)
{
    return v->held_out_violations + v->collectives.violations + v->absolute_violations +
           mrd_timeline_violations(&v->timeline);
}

uint64_t
session_violations(const hub_session *s)
{
    uint64_t violations = verdict_violations(&s->verdict);

    for (size_t i = 0; i < s->n_parts; i++)
        violations += s->parts[i]->causality.violations;
    return violations;
}

mrd_json *
session_clocks_json(const hub_session *s)
{
    mrd_json *o = mrd_json_new_object();
    const merge_verdict *v = &s->verdict;
    uint64_t frames = 0, violations = session_violations(s);

    for (size_t i = 0; i < s->n_parts; i++)
        frames += s->parts[i]->causality.checked;
    mrd_json_set(o, "violations", mrd_json_new_int((int64_t) violations));
    mrd_json_set(o, "trusted", mrd_json_new_bool(violations == 0));
    mrd_json_set(o, "frames_checked", mrd_json_new_int((int64_t) frames));
    mrd_json_set(o, "merged", mrd_json_new_bool(v->done));
    mrd_json_set(o, "held_out_checked", mrd_json_new_int((int64_t) v->held_out));
    mrd_json_set(o, "held_out_violations", mrd_json_new_int((int64_t) v->held_out_violations));
    mrd_json_set(o, "absolute_checked", mrd_json_new_int((int64_t) v->absolute));
    mrd_json_set(o, "absolute_violations", mrd_json_new_int((int64_t) v->absolute_violations));
    mrd_json_set(o, "collectives_checked", mrd_json_new_int((int64_t) v->collectives.collectives));
    mrd_json_set(o, "collectives_out_of_order",
                 mrd_json_new_int((int64_t) v->collectives.out_of_order));
    mrd_json_set(o, "collective_violations", mrd_json_new_int((int64_t) v->collectives.violations));
    mrd_json_set(o, "collective_worst_ns", mrd_json_new_int(v->collectives.worst));
    if (v->timeline.n > 1)
        mrd_json_set(o, "timeline", mrd_timeline_json(&v->timeline));
    if (v->sentence[0] != '\0')
        mrd_json_set(o, "sentence", mrd_json_new_str(v->sentence));
    return o;
}

/* ---- Back from a manifest ---- */

void
part_clock_recover(hub_part *p, const mrd_json *o)
{
    hub_copy(p->clock.method, sizeof(p->clock.method), mrd_json_str(o, "method", ""));
    p->clock.bound_ns = mrd_json_int(o, "bound_ns", -1);
    p->clock.offset_ns = hub_time(mrd_json_int(o, "offset_ns", 0));
    p->clock.probes = (uint64_t) mrd_json_int(o, "probes", 0);
    p->causality.checked = (uint64_t) mrd_json_int(o, "frames_checked", 0);
    p->causality.violations = (uint64_t) mrd_json_int(o, "frame_violations", 0);
    p->causality.worst_ns = mrd_json_int(o, "frame_worst_ns", 0);
    p->has_reading = mrd_host_reading_load(&p->reading, mrd_json_get(o, "host"));
}

void
session_clocks_recover(hub_session *s, const mrd_json *o)
{
    merge_verdict *v = &s->verdict;

    v->done = mrd_json_bool(o, "merged", false);
    v->held_out = (uint64_t) mrd_json_int(o, "held_out_checked", 0);
    v->held_out_violations = (uint64_t) mrd_json_int(o, "held_out_violations", 0);
    v->absolute = (uint64_t) mrd_json_int(o, "absolute_checked", 0);
    v->absolute_violations = (uint64_t) mrd_json_int(o, "absolute_violations", 0);
    v->collectives.collectives = (size_t) mrd_json_int(o, "collectives_checked", 0);
    v->collectives.out_of_order = (size_t) mrd_json_int(o, "collectives_out_of_order", 0);
    v->collectives.violations = (size_t) mrd_json_int(o, "collective_violations", 0);
    v->collectives.worst = mrd_json_int(o, "collective_worst_ns", 0);
    mrd_timeline_of_json(&v->timeline, mrd_json_get(o, "timeline"));
    hub_copy(v->sentence, sizeof(v->sentence), mrd_json_str(o, "sentence", ""));
}
