/*
 * capture/ring/ring_plain.h - the fast path for plain records: reads them in order from the bytes
 * that a reader (ring_read.h) has buffered.
 */
#ifndef MRD_CAPTURE_RING_RING_PLAIN_H
#define MRD_CAPTURE_RING_RING_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "capture/ring/ring.h"

/* The state that mrd_ring_plain needs to read plain records. It is the first member of every
 * reader. */
typedef struct {
    const uint8_t *at, *end; /* the buffered records that are not read yet; all are of one thread */
    const uint8_t *mark;     /* records before this address are already counted */
    /* Start time of the last SPAN. A process may be killed after it writes the SPAN of a scope and
     * before it removes the scope from the header. This time detects such a scope. */
    uint64_t span_ticks;
    uint32_t span_name;
    uint64_t seg_ticks, newest;
    uint64_t seg_mult; /* nanoseconds per tick, multiplied by 2^MRD_RING_MULT_SHIFT */
    mrd_local_ns seg;
    int32_t tid;
} mrd_ring_window;

/* Maximum distance between the times of plain records: 2^56 ticks, which are 320 days at 2.6 GHz.
 * Even with 10 ns per tick, the distance in nanoseconds fits an int64. */
#define MRD_RING_NEAR_BITS  56
#define MRD_RING_TICKS_NEAR (1ull << MRD_RING_NEAR_BITS)
/* with a shift of 56, mrd_ring_near_ns finds the result in the upper 64 bits of a product */
#define MRD_RING_MULT_SHIFT 56

static inline int64_t
mrd_ring_near_ns(uint64_t ticks, uint64_t mult)
{
    return (int64_t) ((unsigned __int128) (ticks << (64 - MRD_RING_NEAR_BITS)) * mult >> 64);
}

/* Loads a record from memory that its owner may change at any time, so each word is read once. */
static inline void
mrd_ring_rec_load(const uint8_t *at, mrd_ring_rec *ret_rec)
{
    const volatile uint64_t *word = (const volatile uint64_t *) (const volatile void *) at;
    uint64_t first = word[0], extra;

    ret_rec->kind = (uint8_t) first;
    ret_rec->flags = (uint8_t) (first >> 8);
    ret_rec->units = (uint16_t) (first >> 16);
    ret_rec->name = (uint32_t) (first >> 32);
    ret_rec->ts = word[1];
    ret_rec->value = word[2];
    extra = word[3];
    ret_rec->domain = (uint32_t) extra;
    ret_rec->track = (uint32_t) (extra >> 32);
}

/*
 * Gets the next buffered record if it is a plain one. A plain record has 32 bytes (no body), a kind
 * from SPAN to FLOW, and a time near the others. If it returns false, use mrd_ring_next, which
 * handles all cases. Loops over many records use a local copy of the window, which the compiler
 * keeps in registers. Such a loop looks as follows.
 *
 *     mrd_ring_window w = *mrd_ring_borrow_window(reader);
 *     while (mrd_ring_plain(&w, &rec, &ts_ns, &dur_ns)) ...
 *     *mrd_ring_borrow_window(reader) = w;
 *
 * Between the first and the last line of this loop, use no function of the reader except the
 * look-ups in its dictionary (mrd_ring_text and others).
 */
static inline bool
mrd_ring_plain(mrd_ring_window *w, mrd_ring_rec *ret_rec, int64_t *ret_ts_ns, int64_t *ret_dur_ns)
{
    mrd_ring_rec rec;
    uint64_t dt;
    int64_t start;

    if (__builtin_expect(w->at == w->end, 0))
        return false;
    mrd_ring_rec_load(w->at, &rec);
    dt = rec.ts - w->seg_ticks;
    if (__builtin_expect(rec.units != 1 ||
                             (uint8_t) (rec.kind - MRD_REC_SPAN) > MRD_REC_FLOW - MRD_REC_SPAN ||
                             dt >= MRD_RING_TICKS_NEAR,
                         0))
        return false;
    start = mrd_ring_near_ns(dt, w->seg_mult);
    *ret_dur_ns = 0;
    if (rec.kind == MRD_REC_SPAN) {
        if (__builtin_expect(rec.value >= MRD_RING_TICKS_NEAR - dt, 0))
            return false;
        dt += rec.value;
        *ret_dur_ns = mrd_ring_near_ns(dt, w->seg_mult) - start;
        w->span_ticks = rec.ts;
        w->span_name = rec.name;
    }
    if (dt > w->newest)
        w->newest = dt;
    w->at += MRD_RING_UNIT;
    *ret_rec = rec;
    *ret_ts_ns = w->seg.ns + start;
    return true;
}

#endif
