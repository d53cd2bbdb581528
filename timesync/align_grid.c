#include "timesync/align_grid.h"

#include "timesync/align_impl.h"

#define WINDOW ((int64_t) 1 << MRD_ALIGN_GRID_BITS)

/* Returns true if the estimate and the bound are straight lines in the whole window. The cursors a
 * and b are at the begin and the end of the window. So both must be between the same bins. The
 * window must also contain no gap of the table. This is checked separately, because a gap can be
 * shorter than a window. */
static bool
is_straight(const mrd_align *align, const mrd_align_cursor *a, const mrd_align_cursor *b,
            int64_t from)
{
    mrd_local_ns bin = align->bins[a->bin].at;

    return a->segment == b->segment && a->bin == b->bin &&
           (bin.ns <= from || bin.ns >= from + WINDOW) &&
           mrd_align_one_segment(align, a->segment, from, from + WINDOW);
}

/* Returns a radius (largest possible error, in ns) that is valid in the whole window. a and b are
 * the radii at its begin and end. In the middle of a window of length L, the bound is wider by w
 * L^2 / 8. */
static uint32_t
radius_of(const mrd_align *align, const mrd_align_grid *grid, uint32_t a, uint32_t b)
{
    const double seconds = (double) WINDOW / MRD_SEC;
    double w = align->segments[grid->cursor.segment].w, most = a > b ? a : b;

    if (w > 0 || grid->gained_ns != 0)
        most += w * seconds * seconds / 8 + 2;
    return most >= UINT32_MAX ? UINT32_MAX : (uint32_t) most;
}

static void
load(const mrd_align *align, mrd_align_grid *grid, int64_t window)
{
    int64_t from = window * WINDOW;
    mrd_align_bound first, last;
    mrd_align_cursor end;
    mrd_sess_ns a, b;

    grid->window = window;
    grid->known = true;
    grid->straight = false;
    if (window >= ALIGN_BASE_MAX / WINDOW || window <= -ALIGN_BASE_MAX / WINDOW ||
        !mrd_align_map(align, &grid->cursor, (mrd_local_ns){ from }, &a, &first))
        return;
    end = grid->cursor;
    (void) mrd_align_map(align, &end, (mrd_local_ns){ from + WINDOW }, &b, &last);
    if (first.quality == MRD_ALIGN_GAP || last.quality == MRD_ALIGN_GAP ||
        !is_straight(align, &grid->cursor, &end, from))
        return;
    grid->straight = true;
    grid->from = a;
    grid->gained_ns = b.ns - a.ns - WINDOW;
    grid->radius = radius_of(align, grid, mrd_align_radius(a, &first), mrd_align_radius(b, &last));
}

bool
mrd_align_grid_ask(const mrd_align *align, mrd_align_grid *grid, mrd_local_ns at,
                   mrd_sess_ns *ret_at, uint32_t *ret_radius)
{
    int64_t window = at.ns >> MRD_ALIGN_GRID_BITS;
    mrd_align_bound bound;

    if (!grid->known || grid->window != window)
        load(align, grid, window);
    if (grid->straight)
        return mrd_align_grid_map(align, grid, at, ret_at, ret_radius);
    if (!mrd_align_map(align, &grid->cursor, at, ret_at, &bound))
        return false;
    *ret_radius = mrd_align_radius(*ret_at, &bound);
    return true;
}
