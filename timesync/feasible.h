/*
 * timesync/feasible.h - convex feasible sets of (offset, rate), which contain all possible states
 * of a clock
 *
 * Vertices are in counter-clockwise order. A set without vertices is empty, one vertex
 * is a point, and two are a line. Operations never lose a point of the true set. Rounding and
 * trimming only enlarge it, and clips have a tolerance of MRD_POLY_SLACK.
 *
 * Units    x: offset in ns relative to a base; y: rate in ns per s (ppb); dt in s; w in ppb per s.
 * Threads  only one thread at a time may use a set.
 * Source   docs/reference/timesync.md section 4: shear, Minkowski sum with a hexagon, trim.
 */
#ifndef MRD_TIMESYNC_FEASIBLE_H
#define MRD_TIMESYNC_FEASIBLE_H

#include <stdbool.h>

#define MRD_POLY_VERTICES 24   /* maximum number of vertices after each of the operations below */
#define MRD_POLY_SLACK    0.01 /* a clip keeps the half plane and this much more, in ns */

typedef struct {
    double x, y;
} mrd_vertex;

typedef struct {
    int n;
    /* the vertices, with room for operations: adding a hexagon needs 6 more, a clip 1 */
    mrd_vertex c[MRD_POLY_VERTICES + 8];
} mrd_poly;

typedef struct {
    double lo, hi;           /* smallest and largest offset x, ns */
    double rate_lo, rate_hi; /* smallest and largest rate y, ppb */
} mrd_poly_range;

/* Makes the set a rectangle [x0, x1] x [y0, y1]. */
void mrd_poly_box(mrd_poly *poly, double x0, double x1, double y0, double y1);
/* Keeps the part of the set with a*x + b*y <= c + slack (slack: MRD_POLY_SLACK). Returns false if
 * nothing remains. The set is then empty. */
bool mrd_poly_clip(mrd_poly *poly, double a, double b, double c);
/*
 * Moves the set by dt seconds (dt may be negative), while the rate changes by at most w per second.
 * The set is sheared by dt. A hexagon that contains all effects of the changing rate is then added.
 */
void mrd_poly_advance(mrd_poly *poly, double dt, double w);
/* Replaces the set by its intersection with another set, trimmed to MRD_POLY_VERTICES vertices.
 * Returns false if nothing remains. */
bool mrd_poly_intersect(mrd_poly *poly, const mrd_poly *other);
/* Removes vertices until at most `vertices` remain. The set never becomes smaller. */
void mrd_poly_trim(mrd_poly *poly, int vertices);
/* Returns the smallest and largest offset and rate of the set, which must not be empty. */
mrd_poly_range mrd_poly_extent(const mrd_poly *poly);
/* Returns true if the point (x, y) lies inside the set, or outside by at most `tol` ns along x. */
bool mrd_poly_holds(const mrd_poly *poly, double x, double y, double tol);

#endif
