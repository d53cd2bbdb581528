/*
 * capture/ring_plain.h - the quick way to plain records: one after the other from the bytes that a reader (ring_read.h)
 * has at hand.
 */
#ifndef MRD_CAPTURE_RING_PLAIN_H
#define MRD_CAPTURE_RING_PLAIN_H

#include <stddef.h>

#include "base/clock.h"
#include "capture/ring.h"

/* What a plain record needs; the beginning of every reader. Its fields are mrd_ring_plain's. */
typedef struct {
    const uint8_t *at, *end;  /* records at hand that are one thread's */
    const uint8_t *mark;      /* from here on they are not counted yet */
    const mrd_ring_rec *span; /* the last one */
    uint64_t seg_ticks, seg_mult, newest;
    mrd_local_ns seg;
    int32_t tid;
} mrd_ring_window;

#define MRD_RING_TICKS_NEAR (1ull << 56) /* 320 days at 2.6 GHz; times 10 ns fits an int64 */
#define MRD_RING_TICK_SHIFT 40

/*
 * The next record at hand when it is a plain one: 32 bytes, so without a body, of the kinds SPAN to
 * FLOW, with a time near the others. NULL: none is at hand; mrd_ring_next then gives what there is.
 * For loops over many records, with a window of their own that the compiler keeps in registers:
 *
 *     mrd_ring_window w = *mrd_ring_borrow_window(reader);
 *     while ((rec = mrd_ring_plain(&w, &ts_ns, &dur_ns)) != NULL) ...
 *     *mrd_ring_borrow_window(reader) = w;
 *
 * Between the two lines nothing else may be done with the reader but asking its dictionary.
 */
static inline const mrd_ring_rec *
mrd_ring_plain(mrd_ring_window *w, int64_t *ret_ts_ns, int64_t *ret_dur_ns)
{
    const mrd_ring_rec *rec = (const mrd_ring_rec *) (const void *) w->at;
    uint64_t dt;
    int64_t start;

    if (__builtin_expect(w->at == w->end, 0))
        return NULL;
    dt = rec->ts - w->seg_ticks;
    if (__builtin_expect(rec->units != 1 ||
                             (uint8_t) (rec->kind - MRD_REC_SPAN) > MRD_REC_FLOW - MRD_REC_SPAN ||
                             dt >= MRD_RING_TICKS_NEAR,
                         0))
        return NULL;
    start = w->seg.ns + (int64_t) ((unsigned __int128) dt * w->seg_mult >> MRD_RING_TICK_SHIFT);
    *ret_dur_ns = 0;
    if (rec->kind == MRD_REC_SPAN) {
        if (__builtin_expect(rec->value >= MRD_RING_TICKS_NEAR, 0))
            return NULL;
        dt += rec->value;
        *ret_dur_ns = w->seg.ns +
                      (int64_t) ((unsigned __int128) dt * w->seg_mult >> MRD_RING_TICK_SHIFT) -
                      start;
        w->span = rec;
    }
    if (dt > w->newest)
        w->newest = dt;
    w->at += MRD_RING_UNIT;
    *ret_ts_ns = start;
    return rec;
}

#endif
