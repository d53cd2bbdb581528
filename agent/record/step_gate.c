#include "agent/record/step_gate.h"

#include "base/num.h"
#include "base/obj.h"

void
mrd_step_gate_init(mrd_step_gate *gate, uint64_t session, int64_t from)
{
    *gate = (mrd_step_gate){ .session = session,
                             .from = { from <= 1 ? INT64_MIN : INT64_MAX },
                             .to = { INT64_MAX } };
}

/* Gets the number at the end of a step's name, -1 if there is none. Returns false if this is not
 * the name of a step. */
static bool
named_step(mrd_str name, int64_t *ret_number)
{
    static const char *const words[] = { "ProfilerStep", "step", "Step", "train_step",
                                         "training_step" };

    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        size_t at = strlen(words[i]), digits;
        int64_t number = -1;

        if (!mrd_str_starts(name, words[i]))
            continue;
        while (at < name.len && strchr(" _-#:", name.p[at]) != NULL)
            at++;
        digits = at;
        while (at < name.len && name.p[at] >= '0' && name.p[at] <= '9')
            at++;
        if (at != name.len)
            continue;
        if (digits < at &&
            mrd_num_i64((mrd_str){ name.p + digits, at - digits }, &number) != MRD_OK)
            number = -1;
        *ret_number = number;
        return true;
    }
    return false;
}

static bool
step_of(mrd_step_gate *gate, const mrd_drain_process *process, const mrd_event *ev, bool executions,
        int64_t *ret_number)
{
    mrd_str name = mrd_catalog_text(process->catalog, ev->name);
    mrd_source_kind source = mrd_catalog_borrow_track(process->catalog, ev->track)->source;

    if (ev->kind != MRD_SPAN || ev->dur_ns < 0 || (ev->flags & MRD_EV_NO_START) != 0)
        return false;
    if (executions) {
        if (source != MRD_SRC_API ||
            (!mrd_str_is(name, "nrt_execute") && !mrd_str_is(name, "nrta_execute_schedule")))
            return false;
        *ret_number = ++gate->counted;
        return true;
    }
    if (source != MRD_SRC_ANNOTATION || !named_step(name, ret_number))
        return false;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (ev->args[i].type == MRD_ARG_INT && ev->args[i].v.i >= 0 &&
            mrd_str_is(mrd_catalog_text(process->catalog, ev->args[i].key), "step"))
            *ret_number = ev->args[i].v.i;
    if (*ret_number < 0)
        *ret_number = ++gate->counted;
    return true;
}

void
mrd_step_gate_see(mrd_step_gate *gate, const mrd_drain_process *process, const mrd_event *ev,
                  mrd_local_ns first, mrd_local_ns last, bool executions, int64_t from, int64_t to)
{
    int64_t number;

    if (!step_of(gate, process, ev, executions, &number))
        return;
    if (gate->from.ns == INT64_MAX && number >= from - 2)
        gate->from = number < from ? last : first;
    if (to > 0 && gate->to.ns == INT64_MAX && number > to)
        gate->to = number == to + 1 ? last : first;
}
