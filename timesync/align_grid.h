/*
 * timesync/align_grid.h - maps millions of events quickly by an alignment table
 *
 * Local time is divided into windows of fixed size. The begin of a window is mapped by
 * mrd_align_map(), and times inside the window by a straight line. The windows are the same for
 * every reader, so every reader gets the same result for an instant. If a window contains a bin, a
 * gap or an edge of a gap, each of its instants is mapped by mrd_align_map(). In other windows the
 * result differs from mrd_align_map() by at most 1 ns, the radius is valid for the whole window,
 * and results never decrease.
 */
#ifndef MRD_TIMESYNC_ALIGN_GRID_H
#define MRD_TIMESYNC_ALIGN_GRID_H

#include "timesync/align.h"

#define MRD_ALIGN_GRID_BITS 26 /* a window is 2^26 ns of local time, which is 67 ms */

/* State of one thread that maps times with one table. It starts as { 0 }. */
typedef struct {
    mrd_align_cursor cursor;
    int64_t window; /* number of the current window: local time >> MRD_ALIGN_GRID_BITS */
    bool known, straight;
    mrd_sess_ns from; /* session time at the beginning of the current window */
    /* ns; session time that passes in the current window, minus local time that passes in it */
    mrd_dur_ns gained_ns;
    uint32_t radius;
} mrd_align_grid;

/* Maps one instant if the inline function mrd_align_grid_map() cannot. This slow path is for an
 * instant outside of the current window, or in a window that is not a straight line. */
bool mrd_align_grid_ask(const mrd_align *align, mrd_align_grid *grid, mrd_local_ns at,
                        mrd_sess_ns *ret_at, uint32_t *ret_radius);

/* Maps one instant like mrd_align_map(). Stores the bound as a radius, see mrd_align_radius(). */
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
