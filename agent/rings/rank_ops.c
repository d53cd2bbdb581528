/* agent/rings/rank_ops.c - reads from the headers of a process's rings which operations the process
 * enters together with other ranks. */
#include "agent/rings/rank_ops.h"

#include <stdio.h>
#include <string.h>

/* Merges one operation of a ring into *to. Each ring has counts of the whole process, so the counts
 * are not added up, but the newest are used. Returns the operation's index in *to, or MRD_DRAIN_OPS
 * if there is no room. */
static size_t
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
            return MRD_DRAIN_OPS;
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
    return (size_t) (op - to->v);
}

/* Returns the place for a thread with this id, or NULL if the threads with lower ids fill the
 * table. A ring without times gets no place. */
static mrd_drain_thread *
place_for(mrd_drain_threads *threads, uint32_t id)
{
    mrd_drain_thread *highest = &threads->v[0];

    if (id == 0)
        return NULL;
    if (threads->n < MRD_DRAIN_THREADS)
        return &threads->v[threads->n++];
    for (size_t i = 1; i < threads->n; i++)
        if (threads->v[i].ring.thread > highest->ring.thread)
            highest = &threads->v[i];
    return highest->ring.thread > id ? highest : NULL;
}

void
mrd_drain_ops_add(mrd_drain_ops_kept *to, mrd_drain_threads *threads, mrd_ring_reader *reader,
                  mrd_dur_ns shift)
{
    mrd_ring_op_state states[MRD_RING_OPS];
    mrd_ring_ops_thread ring = { 0 };
    size_t count = mrd_ring_ops(reader, states, &ring);
    mrd_drain_thread *thread = threads == NULL ? NULL : place_for(threads, ring.thread);

    to->flags |= ring.flags;
    if (ring.ended.ns != 0)
        ring.ended = mrd_local_add(ring.ended, shift);
    if (thread != NULL)
        *thread = (mrd_drain_thread){ .ring = ring };
    for (size_t i = 0; i < count; i++) {
        mrd_str name = mrd_ring_text(reader, states[i].name);
        size_t op = name.len > 0 ? merge(to, &states[i], name, shift) : MRD_DRAIN_OPS;

        if (thread != NULL && op < MRD_DRAIN_OPS)
            thread->ops[thread->n_ops++] =
                (mrd_drain_thread_op){ .op = op,
                                       .open = states[i].open,
                                       .begin = mrd_local_add(states[i].begin, shift),
                                       .calls = states[i].calls,
                                       .inside = states[i].inside };
    }
}
