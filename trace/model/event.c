#include "trace/model/event.h"

#include "base/hash.h"

uint64_t
mrd_flow_id(uint64_t input, uint64_t scope_hash, uint64_t id)
{
    uint64_t parts[3] = { input, scope_hash, id };
    uint64_t mixed = mrd_hash64(parts, sizeof(parts), 0);

    return mixed == 0 ? 1 : mixed;
}

uint64_t
mrd_flow_end_id(uint64_t id, uint32_t n)
{
    id += n * UINT64_C(0xd6e8feb86659fd93);
    return id == 0 ? 1 : id;
}

/* Orders kinds at equal times. Flow points come before the span to which they may belong. */
static int
event_rank(uint8_t kind)
{
    return kind == MRD_FLOW ? 0 : kind == MRD_LOSS ? 1 : 2;
}

int
mrd_event_order(const mrd_event *event, const mrd_event *b)
{
    mrd_ev_ns a_end, b_end;

    if (event->ts.ns != b->ts.ns)
        return mrd_ev_before(event->ts, b->ts) ? -1 : 1;
    if (event->track != b->track)
        return event->track < b->track ? -1 : 1;
    if (event_rank(event->kind) != event_rank(b->kind))
        return event_rank(event->kind) - event_rank(b->kind);
    a_end = mrd_event_end(event);
    b_end = mrd_event_end(b);
    if (a_end.ns != b_end.ns)
        return mrd_ev_after(a_end, b_end) ? -1 : 1;
    return event->seq < b->seq ? -1 : event->seq > b->seq;
}
