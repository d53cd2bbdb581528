#include "capture/ring/ring_ops.h"

#include "capture/ring/ring_read_int.h"

/* Returns a duration in ns that at most one in 1,000 of the `seen` calls exceeded. Returns 0 if too
 * few slow calls were counted to tell. */
static mrd_dur_ns
slow_ns(const mrd_ring_reader *reader, const mrd_ring_op *op, uint64_t seen)
{
    uint64_t longer = 0;

    for (unsigned i = MRD_RING_OP_SLOW; i-- > 0;) {
        longer += op->slow[i] == UINT8_MAX ? seen : op->slow[i];
        if (longer > seen / 1000)
            return (mrd_dur_ns) ((unsigned __int128) reader->clock.now.mult
                                     << (MRD_RING_OP_SLOW_BITS + i + 1) >>
                                 MRD_RING_CLOCK_SHIFT);
    }
    return 0;
}

size_t
mrd_ring_ops(mrd_ring_reader *reader, mrd_ring_op_state ret_ops[MRD_RING_OPS], uint32_t *ret_flags)
{
    mrd_ring_op first[MRD_RING_OPS], second[MRD_RING_OPS];
    uint32_t flags = 0;
    size_t count = 0;

    if (reader->bad ||
        mrd_ring_get(reader, offsetof(mrd_ring_hdr, ops), first, sizeof(first)) != MRD_OK)
        return 0;
    atomic_thread_fence(memory_order_acquire);
    if (mrd_ring_get(reader, offsetof(mrd_ring_hdr, ops), second, sizeof(second)) != MRD_OK ||
        mrd_ring_get(reader, offsetof(mrd_ring_hdr, ops_flags), &flags, sizeof(flags)) != MRD_OK ||
        mrd_ring_refresh_dict(reader) != MRD_RING_MORE)
        return 0;
    *ret_flags |= flags;
    for (unsigned i = 0; i < MRD_RING_OPS; i++) {
        const mrd_ring_op *op = &second[i];

        /* A slot that changes during the read needs no retry. The change shows that the process
         * makes progress, and the number of the call is right in any case. */
        if (op->state == 0 || (op->begin != 0 && !ring_sane_ticks(reader, op->begin)))
            continue;
        ret_ops[count++] = (mrd_ring_op_state){
            .name = (uint32_t) (op->name_seen >> 32),
            .group = op->group,
            .entered = op->state >> 1,
            .open = (op->state & 1) != 0,
            .begin = { mrd_ring_clock_ns(&reader->clock, op->begin) },
            .bytes = op->bytes,
            .bytes_before = op->bytes_before,
            .seen = (uint32_t) op->name_seen,
            .slow_ns = slow_ns(reader, op, (uint32_t) op->name_seen),
        };
        if (first[i].state != op->state)
            ret_ops[count - 1].open = false;
    }
    return count;
}
