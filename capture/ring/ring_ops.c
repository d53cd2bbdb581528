#include "capture/ring/ring_ops.h"

#include <string.h>

#include "capture/ring/ring_read_int.h"

/* The part of the header that is read, from the flags to the times. */
#define FROM offsetof(mrd_ring_hdr, ops_flags)
#define LEN  (offsetof(mrd_ring_hdr, ident) - FROM)

/* Returns a duration in ns, at most INT64_MAX. */
static mrd_dur_ns
ticks_ns(const mrd_ring_reader *reader, uint64_t ticks)
{
    unsigned __int128 ns = ticks;

    if (reader->clock.id != MRD_RING_CLOCK_RAW)
        ns = ns * reader->clock.now.mult >> MRD_RING_CLOCK_SHIFT;
    return ns < INT64_MAX ? (mrd_dur_ns) ns : INT64_MAX;
}

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

static bool
read_twice(mrd_ring_reader *reader, mrd_ring_hdr *first, mrd_ring_hdr *second)
{
    if (mrd_ring_get(reader, FROM, (uint8_t *) first + FROM, LEN) != MRD_OK)
        return false;
    atomic_thread_fence(memory_order_acquire);
    return mrd_ring_get(reader, FROM, (uint8_t *) second + FROM, LEN) == MRD_OK;
}

static void
fill_thread(mrd_ring_reader *reader, const mrd_ring_hdr *hdr, bool steady,
            mrd_ring_ops_thread *ret_thread)
{
    const mrd_ring_ops_time *times = &hdr->ops_time;

    *ret_thread = (mrd_ring_ops_thread){ .flags = hdr->ops_flags, .steady = steady };
    if (times->ended != 0 && !ring_sane_ticks(reader, times->ended))
        return;
    ret_thread->thread = hdr->ops_thread;
    ret_thread->outside = ticks_ns(reader, times->outside);
    if (times->ended != 0)
        ret_thread->ended.ns = mrd_ring_clock_ns(&reader->clock, times->ended);
}

static bool
same_times(const mrd_ring_hdr *first, const mrd_ring_hdr *second)
{
    return memcmp(&first->ops_time, &second->ops_time, sizeof(first->ops_time)) == 0 &&
           memcmp(first->ops_calls, second->ops_calls, sizeof(first->ops_calls)) == 0 &&
           first->ops_thread == second->ops_thread;
}

size_t
mrd_ring_ops(mrd_ring_reader *reader, mrd_ring_op_state ret_ops[MRD_RING_OPS],
             mrd_ring_ops_thread *ret_thread)
{
    mrd_ring_hdr first, second;
    size_t count = 0;
    bool steady;

    if (reader->bad || !read_twice(reader, &first, &second) ||
        mrd_ring_refresh_dict(reader) != MRD_RING_MORE)
        return 0;
    steady = same_times(&first, &second);
    for (unsigned i = 0; i < MRD_RING_OPS; i++) {
        const mrd_ring_op *op = &second.ops[i];

        steady = steady && first.ops[i].state == op->state;
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
            .calls = second.ops_calls[i],
            .inside = ticks_ns(reader, second.ops_time.inside[i]),
        };
        if (first.ops[i].state != op->state)
            ret_ops[count - 1].open = false;
    }
    if (count > 0)
        fill_thread(reader, &second, steady, ret_thread);
    return count;
}
