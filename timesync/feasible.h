/*
 * timesync/feasible.h - convex sets of (offset, rate): the clock states that nothing contradicts
 *
 * Vertices run counter-clockwise. No vertices is the empty set, one a point, two a line. Operations
 * keep every point of the true set: rounding and trimming only enlarge it (clips have a tolerance
 * of MRD_POLY_SLACK).
 *
 * Units    x: offset in ns relative to a base; y: rate in ns per s (ppb); dt in s; w in ppb per s.
 * Threads  plain values, no state.
 * Source   docs/reference/timesync.md section 4: shear, Minkowski sum with a hexagon, trim.
 */
#ifndef MRD_TIMESYNC_FEASIBLE_H
#define MRD_TIMESYNC_FEASIBLE_H

#include <stdbool.h>

#define MRD_POLY_VERTICES 24   /* largest number of vertices after every operation below */
#define MRD_POLY_SLACK    0.01 /* ns by which a clip keeps more than the half plane */

typedef struct {
    double x, y;
} mrd_vertex;

typedef struct {
    int n;
    /* during an operation, the sum with a hexagon needs 6 more, a clip 1 */
    mrd_vertex c[MRD_POLY_VERTICES + 8];
} mrd_poly;

typedef struct {
    double lo, hi;           /* smallest and largest offset x, ns */
    double rate_lo, rate_hi; /* smallest and largest rate y, ppb */
} mrd_poly_range;

/* Makes the rectangle [x0, x1] x [y0, y1]. */
void mrd_poly_box(mrd_poly *poly, double x0, double x1, double y0, double y1);
/* Keeps the part of the set with a*x + b*y <= c + slack (slack: MRD_POLY_SLACK). Returns false if
 * nothing remains. The set is then empty. */
bool mrd_poly_clip(mrd_poly *poly, double a, double b, double c);
/*
 * Moves the set by dt seconds (dt may be negative) with a rate that changes by at most w per
 * second. It shears by dt and adds the hexagon that encloses all effects of such a change.
 */
void mrd_poly_advance(mrd_poly *poly, double dt, double w);
/* Keeps the intersection with another set, with vertices trimmed to MRD_POLY_VERTICES. Returns
 * false if nothing remains. */
bool mrd_poly_intersect(mrd_poly *poly, const mrd_poly *other);
/* Removes vertices until at most `vertices` remain. The set only becomes larger. */
void mrd_poly_trim(mrd_poly *poly, int vertices);
/* Returns the smallest and largest offset and rate of the set, which must not be empty. */
mrd_poly_range mrd_poly_extent(const mrd_poly *poly);
/* Returns true if the point (x, y) lies inside the set, or outside by at most tol along x. */
bool mrd_poly_holds(const mrd_poly *poly, double x, double y, double tol);

#endif
