/*
 * tests/agent/ops_make.h - the operations of a thread in the header of a hand-written ring
 * (tests/agent/ring_make.h), stored as docs/reference/ring.md says. Times are chosen by the caller.
 */
#ifndef MRD_TESTS_AGENT_OPS_MAKE_H
#define MRD_TESTS_AGENT_OPS_MAKE_H

#include "tests/agent/ring_make.h"

/* Begins a call of the operation in slot `i`, whose name is a text of the ring's dictionary. */
static inline void
ops_begin(maker *m, unsigned i, uint32_t name, mrd_local_ns at)
{
    mrd_ring_op *op = &m->h->ops[i];

    m->h->ops_thread = (uint32_t) m->h->tid;
    op->name_seen = (uint64_t) name << 32;
    op->group = 7;
    op->begin = (uint64_t) at.ns;
    op->state = (op->state & ~(uint64_t) 1) + 3;
}

static inline void
ops_end(maker *m, unsigned i, mrd_local_ns at)
{
    mrd_ring_op *op = &m->h->ops[i];
    mrd_ring_ops_time *time = &m->h->ops_time;

    op->state &= ~(uint64_t) 1;
    if (time->ended != 0)
        time->outside += op->begin - time->ended;
    time->inside[i] += (uint64_t) at.ns - op->begin;
    m->h->ops_calls[i]++;
    time->ended = (uint64_t) at.ns;
}

#endif
