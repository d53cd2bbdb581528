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

/* Orders kinds of events with equal times. A flow point precedes the span to which it may
 * belong. */
static int
event_rank(uint8_t kind)
{
    return kind == MRD_FLOW ? 0 : kind == MRD_LOSS ? 1 : 2;
}

int
mrd_event_order(const mrd_event *a, const mrd_event *b)
{
    mrd_ev_ns a_end, b_end;

    if (a->ts.ns != b->ts.ns)
        return mrd_ev_before(a->ts, b->ts) ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (event_rank(a->kind) != event_rank(b->kind))
        return event_rank(a->kind) - event_rank(b->kind);
    a_end = mrd_event_end(a);
    b_end = mrd_event_end(b);
    if (a_end.ns != b_end.ns)
        return mrd_ev_after(a_end, b_end) ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}
