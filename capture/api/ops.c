#include "capture/api/ops.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/api/record.h"
#include "capture/process.h"

#define KINDS 64u

/* Counts of all calls of one operation in this process. An operation is a name and a group. */
typedef struct {
    _Atomic uint64_t key; /* hash of name and group; 0 means free */
    _Atomic uint64_t entered;
    _Atomic uint32_t seen;
    _Atomic uint8_t slow[MRD_RING_OP_SLOW];
} kind;

static kind kinds[KINDS];

/* header to which this thread adds its times; NULL if it added none yet */
static _Thread_local const mrd_ring_hdr *timed __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned depth __attribute__((tls_model("initial-exec"))); /* counted calls */

/* Returns the index of this operation in the table of counts, or KINDS if the table is full. */
static uint32_t
kind_of(uint32_t name, uint64_t group)
{
    uint64_t key = ((group + name) * 0x9e3779b97f4a7c15u) ^ name;

    key += key == 0;
    for (uint32_t i = 0; i < KINDS; i++) {
        uint64_t there = atomic_load_explicit(&kinds[i].key, memory_order_relaxed);

        if (there == 0 && atomic_compare_exchange_strong(&kinds[i].key, &there, key))
            return i;
        if (there == key)
            return i;
    }
    return KINDS;
}

/* Sets or clears a flag in the ring's header. No atomic operation is needed, because only this
 * thread stores the flags of its ring. */
static void
set_flag(mrd_ring_hdr *hdr, uint32_t flag, bool on)
{
    uint32_t flags = atomic_load_explicit(&hdr->ops_flags, memory_order_relaxed);

    atomic_store_explicit(&hdr->ops_flags, on ? flags | flag : flags & ~flag, memory_order_relaxed);
}

/* Returns the slot for this operation in the header of the thread's ring: the operation's own slot,
 * else a free slot, else the slot with the oldest ended call. Returns NULL if the thread is inside
 * a call in every slot. */
static mrd_ring_op *
slot_of(mrd_ring_hdr *hdr, const mrd_rec_op *op)
{
    mrd_ring_op *oldest = NULL;

    for (unsigned i = 0; i < MRD_RING_OPS; i++) {
        mrd_ring_op *ring_op = &hdr->ops[i];
        uint64_t state = atomic_load_explicit(&ring_op->state, memory_order_relaxed);

        if (state != 0 &&
            (uint32_t) (atomic_load_explicit(&ring_op->name_seen, memory_order_relaxed) >> 32) ==
                op->name &&
            atomic_load_explicit(&ring_op->group, memory_order_relaxed) == op->group)
            return ring_op;
        if ((state & 1) == 0 &&
            (oldest == NULL || atomic_load_explicit(&ring_op->begin, memory_order_relaxed) <
                                   atomic_load_explicit(&oldest->begin, memory_order_relaxed)))
            oldest = ring_op;
    }
    if (oldest != NULL && atomic_load_explicit(&oldest->state, memory_order_relaxed) != 0) {
        set_flag(hdr, MRD_RING_OPS_EVICTED, true);
        atomic_store_explicit(&oldest->state, 0, memory_order_release);
    }
    return oldest;
}

/* The release order makes the slot's changed state visible before the time. */
static void
set_time(_Atomic uint64_t *time, uint64_t ticks)
{
    atomic_store_explicit(time, ticks, memory_order_release);
}

static void
clear_slot(mrd_ring_hdr *hdr, unsigned i)
{
    set_time(&hdr->ops_time.inside[i], 0);
    atomic_store_explicit(&hdr->ops_calls[i], 0, memory_order_release);
}

/* Makes the times of the ring belong to this thread. Its times in another ring, and those of the
 * ring's previous thread, are not continued. */
static void
start_times(mrd_ring_hdr *hdr)
{
    set_time(&hdr->ops_time.ended, 0);
    for (unsigned i = 0; i < MRD_RING_OPS; i++)
        clear_slot(hdr, i);
    set_time(&hdr->ops_time.outside, 0);
    atomic_store_explicit(&hdr->ops_thread, (uint32_t) syscall(SYS_gettid), memory_order_release);
    timed = hdr;
}

/* Adds the time since the previous outermost call ended to the thread's times. */
static void
add_times(mrd_ring_hdr *hdr, const mrd_ring_op *ring_op, uint64_t begin, uint64_t end)
{
    mrd_ring_ops_time *times = &hdr->ops_time;
    _Atomic uint64_t *inside = &times->inside[ring_op - hdr->ops];
    _Atomic uint32_t *calls = &hdr->ops_calls[ring_op - hdr->ops];
    uint64_t ended = atomic_load_explicit(&times->ended, memory_order_relaxed);

    if (ended != 0)
        set_time(&times->outside,
                 atomic_load_explicit(&times->outside, memory_order_relaxed) + begin - ended);
    set_time(inside, atomic_load_explicit(inside, memory_order_relaxed) + end - begin);
    atomic_store_explicit(calls, atomic_load_explicit(calls, memory_order_relaxed) + 1,
                          memory_order_release);
    set_time(&times->ended, end);
}

static mrd_ring_hdr *
header(void)
{
    mrd_ring_writer *writer = mrd_rec_on(MRD_CAP_API) ? mrd_proc_writer() : mrd_tls_writer;

    return writer == NULL || !writer->ready ? NULL : writer->hdr;
}

void
mrd_rec_op_begin(mrd_rec_op *op, uint32_t name, uint64_t group, uint64_t bytes)
{
    mrd_ring_hdr *hdr = header();
    mrd_ring_op *ring_op;
    bool again;

    *op = (mrd_rec_op){ .kind = kind_of(name, group), .name = name, .group = group };
    if (op->kind == KINDS) {
        if (hdr != NULL)
            set_flag(hdr, MRD_RING_OPS_LEFT_OUT, true);
        return;
    }
    op->index = atomic_fetch_add_explicit(&kinds[op->kind].entered, 1, memory_order_relaxed) + 1;
    op->outermost = depth++ == 0;
    op->begin = mrd_ring_ticks(mrd_proc_clock);
    if (hdr == NULL)
        return;
    if (__builtin_expect(hdr != timed, 0))
        start_times(hdr);
    if (!op->outermost)
        set_flag(hdr, MRD_RING_OPS_NESTED, true);
    if ((ring_op = slot_of(hdr, op)) == NULL) {
        set_flag(hdr, MRD_RING_OPS_LEFT_OUT, true);
        return;
    }
    again = atomic_load_explicit(&ring_op->state, memory_order_relaxed) != 0;
    if (!again) {
        atomic_store_explicit(&ring_op->group, group, memory_order_relaxed);
        atomic_store_explicit(&ring_op->name_seen, (uint64_t) name << 32, memory_order_relaxed);
        clear_slot(hdr, (unsigned) (ring_op - hdr->ops));
    }
    atomic_store_explicit(&ring_op->bytes_before,
                          again ? atomic_load_explicit(&ring_op->bytes, memory_order_relaxed) : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&ring_op->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&ring_op->begin, op->begin, memory_order_relaxed);
    /* The release order makes the other fields visible before the state. It pairs with
     * mrd_ring_ops. */
    atomic_store_explicit(&ring_op->state, op->index << 1 | 1, memory_order_release);
}

/* Counts a call by its duration. Leaves out the first call, because it includes compilation and
 * waiting for ranks that are still starting. */
static void
learn(kind *k, const mrd_rec_op *op, uint64_t ticks)
{
    int bits = 63 - __builtin_clzll(ticks | 1) - MRD_RING_OP_SLOW_BITS;
    _Atomic uint8_t *n;

    if (op->index == 1)
        return;
    if (bits >= 0) {
        n = &k->slow[bits < (int) MRD_RING_OP_SLOW ? bits : (int) MRD_RING_OP_SLOW - 1];
        if (atomic_load_explicit(n, memory_order_relaxed) < UINT8_MAX)
            atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
    }
    if (atomic_load_explicit(&k->seen, memory_order_relaxed) < INT32_MAX)
        atomic_fetch_add_explicit(&k->seen, 1, memory_order_relaxed);
}

void
mrd_rec_op_end(mrd_rec_op *op, bool failed)
{
    mrd_ring_hdr *hdr = header();
    mrd_ring_op *ring_op;
    uint64_t now;
    kind *k;

    if (op->index == 0)
        return;
    depth -= depth > 0; /* it is 0 in a child of fork if the call began before the fork */
    now = mrd_ring_ticks(mrd_proc_clock);
    k = &kinds[op->kind];
    learn(k, op, now - op->begin);
    if (hdr == NULL || (ring_op = slot_of(hdr, op)) == NULL)
        return;
    if (atomic_load_explicit(&ring_op->state, memory_order_relaxed) >> 1 != op->index)
        return; /* the ring was made during the call */
    set_flag(hdr, MRD_RING_OPS_FAILED, failed);
    for (unsigned i = 0; i < MRD_RING_OP_SLOW; i++)
        atomic_store_explicit(&ring_op->slow[i],
                              atomic_load_explicit(&k->slow[i], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&ring_op->name_seen,
                          (uint64_t) op->name << 32 |
                              atomic_load_explicit(&k->seen, memory_order_relaxed),
                          memory_order_relaxed);
    atomic_store_explicit(&ring_op->state, op->index << 1, memory_order_release);
    if (op->outermost && hdr == timed)
        add_times(hdr, ring_op, op->begin, now);
}

void
mrd_rec_ops_forked(void)
{
    timed = NULL;
    depth = 0;
    memset(kinds, 0, sizeof(kinds));
}
