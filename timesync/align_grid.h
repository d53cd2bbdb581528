/*
 * timesync/align_grid.h - fast mapping of millions of events by an alignment table: mrd_align_map
 * at the beginning of a window of local time, and a straight line inside of it
 *
 * Windows have a fixed grid of local time, so that every reader of a table gets the same result for
 * an instant. If a window contains a bin, a gap or an edge of one, each instant is mapped exactly.
 * Otherwise the result differs by at most 1 ns from mrd_align_map, the radius covers the whole
 * window, and the result is monotone, too.
 */
#ifndef MRD_TIMESYNC_ALIGN_GRID_H
#define MRD_TIMESYNC_ALIGN_GRID_H

#include "timesync/align.h"

#define MRD_ALIGN_GRID_BITS 26 /* a window is 2^26 ns of local time, which is 67 ms */

/* State of one reader of one table, in one thread. It starts as { 0 }. */
typedef struct {
    mrd_align_cursor cursor;
    int64_t window; /* number of the current window: local time >> MRD_ALIGN_GRID_BITS */
    bool known, straight;
    mrd_sess_ns from;     /* session time at the beginning of the window */
    mrd_dur_ns gained_ns; /* session time minus local time that passes in the window */
    uint32_t radius;
} mrd_align_grid;

/* Maps one instant outside of the current window, or in a window that is not a straight line.
 * mrd_align_grid_map calls it, because this path is slow. */
bool mrd_align_grid_ask(const mrd_align *align, mrd_align_grid *grid, mrd_local_ns at,
                        mrd_sess_ns *ret_at, uint32_t *ret_radius);

/* Maps one instant like mrd_align_map, and gives its bound as a radius (mrd_align_radius). */
static inline bool
mrd_align_grid_map(const mrd_align *align, mrd_align_grid *grid, mrd_local_ns at,
                   mrd_sess_ns *ret_at, uint32_t *ret_radius)
{
    int64_t in = at.ns & (((int64_t) 1 << MRD_ALIGN_GRID_BITS) - 1);

    if (!grid->straight || at.ns >> MRD_ALIGN_GRID_BITS != grid->window)
        return mrd_align_grid_ask(align, grid, at, ret_at, ret_radius);
    ret_at->ns = grid->from.ns + in + (in * grid->gained_ns >> MRD_ALIGN_GRID_BITS);
    *ret_radius = grid->radius;
    return true;
}

#endif
