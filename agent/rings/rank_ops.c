/* agent/rings/rank_ops.c - the operations that a process enters together with other ranks, from the
 * headers of its rings */
#include "agent/rings/rank_ops.h"

#include <stdio.h>
#include <string.h>

#include "agent/rings/drain_int.h"

/* Adds what one ring shows. The counts are of the process, so the newest one is right. */
static void
merge(mrd_drain_ops_kept *to, const mrd_ring_op_state *s, mrd_str name, mrd_dur_ns shift)
{
    mrd_local_ns begin = mrd_local_add(s->begin, shift);
    mrd_drain_op *op = NULL;

    for (size_t i = 0; i < to->n && op == NULL; i++)
        if (to->v[i].group == s->group && mrd_str_is(name, to->v[i].name))
            op = &to->v[i];
    if (op == NULL) {
        if (to->n == MRD_DRAIN_OPS) {
            to->flags |= MRD_RING_OPS_EVICTED;
            return;
        }
        op = &to->v[to->n++];
        *op = (mrd_drain_op){ .group = s->group };
        snprintf(op->name, sizeof(op->name), MRD_STR_FMT, MRD_STR_ARG(name));
    }
    if (s->open && (op->open == 0 || mrd_local_before(begin, op->begin)))
        op->begin = begin;
    op->open += s->open;
    if (s->entered > op->entered) {
        op->entered = s->entered;
        op->bytes = s->bytes;
        op->bytes_before = s->bytes_before;
    }
    if (s->seen >= op->seen) {
        op->seen = s->seen;
        op->slow_ns = s->slow_ns;
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

/* Returns why the counts of the process may be incomplete, "" if they are not. */
static const char *
incomplete(const mrd_drain *p, const proc *pr, uint32_t flags)
{
    mrd_ring_stats st;

    if ((flags & MRD_RING_OPS_LEFT_OUT) != 0)
        return "it enters more kinds of operations than are counted";
    if ((flags & MRD_RING_OPS_FAILED) != 0)
        return "a call of it failed";
    if (mrd_drain_leaves_out(p))
        return "the agent does not read all rings of the node";
    for (const ring *r = pr->rings; r != NULL; r = r->next_of_proc) {
        mrd_ring_get_stats(r->reader, &st);
        if (st.lost[MRD_RING_LOST_NORING] > 0)
            return "a thread of it could not get a ring";
        if (st.lost[MRD_RING_LOST_SWITCHED] > 0)
            return "its recording switched itself off";
    }
    return pr->n_notes > 0 ? "it could not make rings for a while" : "";
}

size_t
mrd_drain_ops(const mrd_drain *p, mrd_drain_process *process, mrd_drain_op ret_ops[MRD_DRAIN_OPS],
              const char **ret_lost, bool *ret_partial)
{
    proc *pr = (proc *) (void *) process; /* pub is its first member */
    mrd_drain_ops_kept all = pr->ops;

    for (ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        mrd_drain_ops_add(&all, r->reader, pr->shift_ns);
    memcpy(ret_ops, all.v, all.n * sizeof(*ret_ops));
    *ret_lost = incomplete(p, pr, all.flags);
    *ret_partial = (all.flags & MRD_RING_OPS_EVICTED) != 0;
    return all.n;
}
