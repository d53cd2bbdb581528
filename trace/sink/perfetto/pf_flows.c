#include "trace/sink/perfetto/pf_flows.h"

#include <stdlib.h>

#include "base/vec.h"

#define FLOW_ENDED 0x80000000u

static size_t
flow_home(const mrd_pf_flows *flows, uint64_t id)
{
    return (size_t) (id * 0x9e3779b97f4a7c15u >> 32) & flows->mask;
}

/* Returns the slot of a flow arrow's id, or the free slot in which the id would be stored. */
static size_t
flow_slot(const mrd_pf_flows *flows, uint64_t id)
{
    size_t at = flow_home(flows, id);

    while (flows->slots[at].id != 0 && flows->slots[at].id != id)
        at = (at + 1) & flows->mask;
    return at;
}

/* Copies the table of flow arrows to a new one with `slots` slots. Leaves out arrows with a bit of
 * `drop` set in `uses`, and arrows that began more than max_age spans before span `newest`. */
static bool
flows_rebuild(mrd_pf_flows *flows, size_t slots, uint32_t drop, uint32_t newest, uint32_t max_age)
{
    mrd_pf_flows to = { .mask = slots - 1 };

    if ((to.slots = calloc(slots, sizeof(*to.slots))) == NULL) {
        flows->err = MRD_NOMEM;
        return false;
    }
    for (size_t i = 0; flows->slots != NULL && i <= flows->mask; i++) {
        const mrd_pf_flow *flow = &flows->slots[i];

        if (flow->id == 0 || (flow->uses & drop) != 0 || newest - flow->order > max_age)
            continue;
        to.slots[flow_slot(&to, flow->id)] = *flow;
        to.n++;
    }
    free(flows->slots);
    flows->slots = to.slots;
    flows->mask = to.mask;
    flows->n = to.n;
    return true;
}

/* Makes room in a full table: removes flow arrows that have ended, then the older half of the
 * others. */
static bool
flows_forget(mrd_pf_flows *flows, uint32_t newest)
{
    uint32_t oldest = 0;

    flows->forgot = true;
    if (!flows_rebuild(flows, flows->mask + 1, FLOW_ENDED, newest, UINT32_MAX))
        return false;
    for (size_t i = 0; i <= flows->mask; i++) {
        if (flows->slots[i].id != 0 && newest - flows->slots[i].order > oldest)
            oldest = newest - flows->slots[i].order;
    }
    while (flows->n > MRD_PF_FLOWS_MAX / 2 && oldest > 0) {
        oldest /= 2;
        if (!flows_rebuild(flows, flows->mask + 1, 0, newest, oldest))
            return false;
    }
    /* Still full, because a single span starts more flow arrows than the table can hold. Then
     * remove all arrows. */
    return flows->n < MRD_PF_FLOWS_MAX || flows_rebuild(flows, flows->mask + 1, 0, newest + 1, 0);
}

static bool
flows_room(mrd_pf_flows *flows, uint32_t newest)
{
    if (flows->slots != NULL && flows->n * 2 <= flows->mask)
        return true;
    if (flows->n >= MRD_PF_FLOWS_MAX)
        return flows_forget(flows, newest);
    return flows_rebuild(flows, flows->slots == NULL ? 1024 : (flows->mask + 1) * 2, 0, newest,
                         UINT32_MAX);
}

/* Returns the id that the flow arrow gets in the file. The profile may reuse an id for several
 * arrows, so the `uses`-th arrow gets an id of its own. */
static uint64_t
flow_file_id(uint64_t id, uint32_t uses)
{
    uint64_t use = (uses & ~FLOW_ENDED) - 1;

    id += use * 0x9e3779b97f4a7c15u;
    return id == 0 ? 1 : id;
}

uint64_t
mrd_pf_flows_start(mrd_pf_flows *flows, uint64_t id, uint32_t order, uint32_t ends)
{
    mrd_pf_flow *flow;

    if (!flows_room(flows, order))
        return 0;
    flow = &flows->slots[flow_slot(flows, id)];
    flows->n += flow->id == 0;
    *flow = (mrd_pf_flow){ .id = id,
                           .uses = ((flow->uses & ~FLOW_ENDED) + 1) & ~FLOW_ENDED,
                           .order = order,
                           .ends = ends,
                           .row = flows->row,
                           .at = flows->at,
                           .part = flows->part };
    return flow_file_id(id, flow->uses);
}

uint64_t
mrd_pf_flows_point(mrd_pf_flows *flows, uint64_t id, bool end)
{
    mrd_pf_flow *flow = flows->n == 0 ? NULL : &flows->slots[flow_slot(flows, id)];

    flows->before.id = 0;
    if (flow == NULL || flow->id == 0)
        return flows->forgot ? id : 0;
    if (flow->part != flows->part)
        flows->before = *flow;
    if (end)
        flow->uses |= FLOW_ENDED;
    /* Each end of a flow arrow with several ends is written as an arrow of its own, with another
     * id. All of them start at the last point before the ends. */
    if (end && flow->ends > 1)
        return mrd_flow_end_id(flow_file_id(id, flow->uses), --flow->ends);
    flow->row = flows->row;
    flow->at = flows->at;
    flow->part = flows->part;
    return flow_file_id(id, flow->uses);
}

void
mrd_pf_flows_defer(mrd_pf_flows *flows, uint64_t id, uint32_t order)
{
    if (!MRD_VEC_ROOM(flows->late, flows->n_late, flows->cap_late, 1)) {
        flows->err = MRD_NOMEM;
        return;
    }
    flows->late[flows->n_late++] = (mrd_pf_late){ id, order };
}

static void
late_compact(mrd_pf_flows *flows)
{
    size_t kept = 0;

    for (size_t i = 0; i < flows->n_late; i++) {
        if (flows->late[i].id != 0)
            flows->late[kept++] = flows->late[i];
    }
    flows->n_late = kept;
    flows->done_late = 0;
}

uint64_t
mrd_pf_flows_due(mrd_pf_flows *flows, uint32_t order)
{
    size_t low = 0, high = flows->n_late;
    uint64_t id = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((int32_t) (flows->late[middle].order - order) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; id == 0 && low < flows->n_late && flows->late[low].order == order; low++) {
        id = flows->late[low].id;
        flows->late[low].id = 0;
        flows->done_late += id != 0;
    }
    if (id == 0 && flows->done_late * 2 > flows->n_late)
        late_compact(flows);
    return id;
}

void
mrd_pf_flows_fini(mrd_pf_flows *flows)
{
    free(flows->slots);
    free(flows->late);
    *flows = (mrd_pf_flows){ 0 };
}
