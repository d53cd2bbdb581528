/* agent/rings/rank_ops.c - the operations that a process enters together with other ranks, from the
 * headers of its rings */
#include <stdio.h>
#include <string.h>

#include "agent/rings/drain_int.h"

/* Adds what one ring shows. The counts are of the process, so the newest one is right. */
static void
merge(proc *pr, mrd_drain_op *ops, size_t *n, const mrd_ring_op_state *s, mrd_str name)
{
    mrd_local_ns begin = mrd_local_add(s->begin, pr->shift_ns);
    mrd_drain_op *to = NULL;

    for (size_t i = 0; i < *n && to == NULL; i++)
        if (ops[i].group == s->group && mrd_str_is(name, ops[i].name))
            to = &ops[i];
    if (to == NULL) {
        if (*n == MRD_DRAIN_OPS) {
            pr->ops_flags |= MRD_RING_OPS_LEFT_OUT;
            return;
        }
        to = &ops[(*n)++];
        *to = (mrd_drain_op){ .group = s->group };
        snprintf(to->name, sizeof(to->name), MRD_STR_FMT, MRD_STR_ARG(name));
    }
    if (s->open && (to->open == 0 || mrd_local_before(begin, to->begin)))
        to->begin = begin;
    to->open += s->open;
    if (s->entered > to->entered) {
        to->entered = s->entered;
        to->bytes = s->bytes;
        to->bytes_before = s->bytes_before;
    }
    if (s->seen >= to->seen) {
        to->seen = s->seen;
        to->slow_ns = s->slow_ns;
    }
}

static void
merge_ring(proc *pr, ring *r, mrd_drain_op *ops, size_t *n)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    uint32_t flags = 0;
    size_t count = mrd_ring_ops(r->reader, states, &flags);

    pr->ops_flags |= flags;
    for (size_t i = 0; i < count; i++) {
        mrd_str name = mrd_ring_text(r->reader, states[i].name);

        if (name.len > 0)
            merge(pr, ops, n, &states[i], name);
    }
}

void
mrd_drain_ops_keep(proc *pr, ring *r)
{
    pr->ops_flags = pr->ops_flags_gone;
    merge_ring(pr, r, pr->ops, &pr->n_ops);
    pr->ops_flags_gone = pr->ops_flags;
}

/* Returns why the counts of the process may be incomplete, "" if they are not. */
static const char *
incomplete(const mrd_drain *p, const proc *pr)
{
    mrd_ring_stats st;

    if ((pr->ops_flags & MRD_RING_OPS_LEFT_OUT) != 0)
        return "it enters more kinds of operations than are counted";
    if ((pr->ops_flags & MRD_RING_OPS_FAILED) != 0)
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
              const char **ret_lost)
{
    proc *pr = (proc *) (void *) process; /* pub is its first member */
    size_t n = pr->n_ops;

    pr->ops_flags = pr->ops_flags_gone;
    memcpy(ret_ops, pr->ops, n * sizeof(*ret_ops));
    for (ring *r = pr->rings; r != NULL; r = r->next_of_proc)
        merge_ring(pr, r, ret_ops, &n);
    *ret_lost = incomplete(p, pr);
    return n;
}
