#include "trace/sink/perfetto/pf_flows.h"

#include <stdlib.h>

#include "base/vec.h"

#define FLOW_ENDED 0x80000000u

static size_t
flow_home(const mrd_pf_flows *f, uint64_t id)
{
    return (size_t) (id * 0x9e3779b97f4a7c15u >> 32) & f->mask;
}

/* Returns the slot of the id, or the free slot where it belongs. */
static size_t
flow_slot(const mrd_pf_flows *f, uint64_t id)
{
    size_t at = flow_home(f, id);

    while (f->slots[at].id != 0 && f->slots[at].id != id)
        at = (at + 1) & f->mask;
    return at;
}

/* Rebuilds the table with this number of slots. Removes flows with the bits `drop` in uses, and too
 * old ones. */
static bool
flows_rebuild(mrd_pf_flows *f, size_t slots, uint32_t drop, uint32_t newest, uint32_t max_age)
{
    mrd_pf_flows to = { .mask = slots - 1 };

    if ((to.slots = calloc(slots, sizeof(*to.slots))) == NULL) {
        f->err = MRD_NOMEM;
        return false;
    }
    for (size_t i = 0; f->slots != NULL && i <= f->mask; i++) {
        const mrd_pf_flow *flow = &f->slots[i];

        if (flow->id == 0 || (flow->uses & drop) != 0 || newest - flow->order > max_age)
            continue;
        to.slots[flow_slot(&to, flow->id)] = *flow;
        to.n++;
    }
    free(f->slots);
    f->slots = to.slots;
    f->mask = to.mask;
    f->n = to.n;
    return true;
}

/* For a full table: removes ended flows, then the older half of the rest. */
static bool
flows_forget(mrd_pf_flows *f, uint32_t newest)
{
    uint32_t oldest = 0;

    f->forgot = true;
    if (!flows_rebuild(f, f->mask + 1, FLOW_ENDED, newest, UINT32_MAX))
        return false;
    for (size_t i = 0; i <= f->mask; i++) {
        if (f->slots[i].id != 0 && newest - f->slots[i].order > oldest)
            oldest = newest - f->slots[i].order;
    }
    while (f->n > MRD_PF_FLOWS_MAX / 2 && oldest > 0) {
        oldest /= 2;
        if (!flows_rebuild(f, f->mask + 1, 0, newest, oldest))
            return false;
    }
    /* More arrows start on one span than the table can hold. */
    return f->n < MRD_PF_FLOWS_MAX || flows_rebuild(f, f->mask + 1, 0, newest + 1, 0);
}

static bool
flows_room(mrd_pf_flows *f, uint32_t newest)
{
    if (f->slots != NULL && f->n * 2 <= f->mask)
        return true;
    if (f->n >= MRD_PF_FLOWS_MAX)
        return flows_forget(f, newest);
    return flows_rebuild(f, f->slots == NULL ? 1024 : (f->mask + 1) * 2, 0, newest, UINT32_MAX);
}

/* Returns the id in the file of the n-th arrow with this id. */
static uint64_t
flow_file_id(uint64_t id, uint32_t uses)
{
    uint64_t use = (uses & ~FLOW_ENDED) - 1;

    id += use * 0x9e3779b97f4a7c15u;
    return id == 0 ? 1 : id;
}

uint64_t
mrd_pf_flows_start(mrd_pf_flows *f, uint64_t id, uint32_t order, uint32_t ends)
{
    mrd_pf_flow *flow;

    if (!flows_room(f, order))
        return 0;
    flow = &f->slots[flow_slot(f, id)];
    f->n += flow->id == 0;
    *flow = (mrd_pf_flow){ .id = id,
                           .uses = ((flow->uses & ~FLOW_ENDED) + 1) & ~FLOW_ENDED,
                           .order = order,
                           .ends = ends,
                           .row = f->row,
                           .at = f->at,
                           .part = f->part };
    return flow_file_id(id, flow->uses);
}

uint64_t
mrd_pf_flows_point(mrd_pf_flows *f, uint64_t id, bool end)
{
    mrd_pf_flow *flow = f->n == 0 ? NULL : &f->slots[flow_slot(f, id)];

    f->before.id = 0;
    if (flow == NULL || flow->id == 0)
        return f->forgot ? id : 0;
    if (flow->part != f->part)
        f->before = *flow;
    if (end)
        flow->uses |= FLOW_ENDED;
    if (end && flow->ends > 1) /* several ends: the point before them is also the start of each */
        return mrd_flow_end_id(flow_file_id(id, flow->uses), --flow->ends);
    flow->row = f->row;
    flow->at = f->at;
    flow->part = f->part;
    return flow_file_id(id, flow->uses);
}

void
mrd_pf_flows_defer(mrd_pf_flows *f, uint64_t id, uint32_t order)
{
    if (!MRD_VEC_ROOM(f->late, f->n_late, f->cap_late, 1)) {
        f->err = MRD_NOMEM;
        return;
    }
    f->late[f->n_late++] = (mrd_pf_late){ id, order };
}

static void
late_compact(mrd_pf_flows *f)
{
    size_t kept = 0;

    for (size_t i = 0; i < f->n_late; i++) {
        if (f->late[i].id != 0)
            f->late[kept++] = f->late[i];
    }
    f->n_late = kept;
    f->done_late = 0;
}

uint64_t
mrd_pf_flows_due(mrd_pf_flows *f, uint32_t order)
{
    size_t low = 0, high = f->n_late;
    uint64_t id = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((int32_t) (f->late[middle].order - order) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; id == 0 && low < f->n_late && f->late[low].order == order; low++) {
        id = f->late[low].id;
        f->late[low].id = 0;
        f->done_late += id != 0;
    }
    if (id == 0 && f->done_late * 2 > f->n_late)
        late_compact(f);
    return id;
}

void
mrd_pf_flows_fini(mrd_pf_flows *f)
{
    free(f->slots);
    free(f->late);
    *f = (mrd_pf_flows){ 0 };
}
