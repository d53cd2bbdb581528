/* agent/rings/rank_ops.c - reads from the headers of a process's rings which operations the process
 * enters together with other ranks. */
#include "agent/rings/rank_ops.h"

#include <stdio.h>
#include <string.h>

/* Merges one operation of a ring into *to. Each ring has counts of the whole process, so the counts
 * are not added up, but the newest are used. */
static void
merge(mrd_drain_ops_kept *to, const mrd_ring_op_state *state, mrd_str name, mrd_dur_ns shift)
{
    mrd_local_ns begin = mrd_local_add(state->begin, shift);
    mrd_drain_op *op = NULL;

    for (size_t i = 0; i < to->n && op == NULL; i++)
        if (to->v[i].group == state->group && mrd_str_is(name, to->v[i].name))
            op = &to->v[i];
    if (op == NULL) {
        if (to->n == MRD_DRAIN_OPS) {
            to->flags |= MRD_RING_OPS_EVICTED;
            return;
        }
        op = &to->v[to->n++];
        *op = (mrd_drain_op){ .group = state->group };
        snprintf(op->name, sizeof(op->name), MRD_STR_FMT, MRD_STR_ARG(name));
    }
    if (state->open && (op->open == 0 || mrd_local_before(begin, op->begin)))
        op->begin = begin;
    op->open += state->open;
    if (state->entered > op->entered) {
        op->entered = state->entered;
        op->bytes = state->bytes;
        op->bytes_before = state->bytes_before;
    }
    if (state->seen >= op->seen) {
        op->seen = state->seen;
        op->slow_ns = state->slow_ns;
    }
}

void
mrd_drain_ops_add(mrd_drain_ops_kept *to, mrd_ring_reader *reader, mrd_dur_ns shift)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    size_t count = mrd_ring_ops(reader, states, &to->flags);

    for (size_t i = 0; i < count; i++) {
        mrd_str name = mrd_ring_text(reader, states[i].name);

        if (name.len > 0)
            merge(to, &states[i], name, shift);
    }
}
