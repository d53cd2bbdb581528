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

#define MRD_POLY_VERTICES 24   /* after every operation below */
#define MRD_POLY_SLACK    0.01 /* ns: outward tolerance of a clip */

typedef struct {
    double x, y;
} mrd_vertex;

typedef struct {
    int n;
    mrd_vertex c[MRD_POLY_VERTICES + 8]; /* the sum with a hexagon needs 6 more, a clip 1 */
} mrd_poly;

typedef struct {
    double lo, hi;           /* of x */
    double rate_lo, rate_hi; /* of y */
} mrd_poly_range;

/* Makes the rectangle [x0, x1] x [y0, y1]. */
void mrd_poly_box(mrd_poly *poly, double x0, double x1, double y0, double y1);
/* Keeps the part with a*x + b*y <= c + slack. Returns false if nothing remains (poly is then
 * empty). */
bool mrd_poly_clip(mrd_poly *poly, double a, double b, double c);
/*
 * Moves the set by dt seconds (dt may be negative) with a rate that changes by at most w per
 * second. It shears by dt and adds the hexagon that encloses all effects of such a change.
 */
void mrd_poly_advance(mrd_poly *poly, double dt, double w);
/* Keeps the intersection with another set, trimmed. Returns false if nothing remains. */
bool mrd_poly_intersect(mrd_poly *poly, const mrd_poly *other);
/* Removes vertices, enlarging the set, until at most `vertices` remain. */
void mrd_poly_trim(mrd_poly *poly, int vertices);
/* The set must not be empty. */
mrd_poly_range mrd_poly_extent(const mrd_poly *poly);
/* Returns true if the point lies inside or within tol of an edge, measured along x. */
bool mrd_poly_holds(const mrd_poly *poly, double x, double y, double tol);

#endif
