#include "timesync/feasible.h"

#include <math.h>
#include <string.h>

void
mrd_poly_box(mrd_poly *poly, double x0, double x1, double y0, double y1)
{
    poly->n = 4;
    poly->c[0] = (mrd_vertex){ x0, y0 };
    poly->c[1] = (mrd_vertex){ x1, y0 };
    poly->c[2] = (mrd_vertex){ x1, y1 };
    poly->c[3] = (mrd_vertex){ x0, y1 };
}

static double
cross(mrd_vertex vertex, mrd_vertex b, mrd_vertex c)
{
    return (b.x - vertex.x) * (c.y - b.y) - (b.y - vertex.y) * (c.x - b.x);
}

static bool
same(mrd_vertex a, mrd_vertex b)
{
    return fabs(a.x - b.x) < 1e-9 && fabs(a.y - b.y) < 1e-9;
}

/* Removes repeated vertices, and vertices at which the border does not turn left. The set without
 * them still contains these points. */
static void
tidy(mrd_poly *poly)
{
    mrd_vertex *vertex = poly->c;
    int count = 0;

    for (int i = 0; i < poly->n; i++) {
        if (count == 0 || !same(vertex[i], vertex[count - 1]))
            vertex[count++] = vertex[i];
    }
    while (count > 1 && same(vertex[0], vertex[count - 1]))
        count--;
    poly->n = count;
    for (int i = 0; count > 3 && i < count;) {
        if (cross(vertex[(i + count - 1) % count], vertex[i], vertex[(i + 1) % count]) > 0) {
            i++;
            continue;
        }
        memmove(&vertex[i], &vertex[i + 1], (size_t) (count - i - 1) * sizeof(*vertex));
        count--;
    }
    poly->n = count;
}

bool
mrd_poly_clip(mrd_poly *poly, double a, double b, double c)
{
    double side[MRD_POLY_VERTICES + 8];
    mrd_poly out;
    bool cut = false;

    for (int i = 0; i < poly->n; i++) {
        side[i] = a * poly->c[i].x + b * poly->c[i].y - c - MRD_POLY_SLACK;
        cut = cut || side[i] > 0;
    }
    if (!cut)
        return poly->n > 0;
    out.n = 0;
    for (int i = 0; i < poly->n; i++) {
        int j = i + 1 == poly->n ? 0 : i + 1;
        mrd_vertex p = poly->c[i], q = poly->c[j];

        if (side[i] <= 0)
            out.c[out.n++] = p;
        if ((side[i] <= 0) != (side[j] <= 0)) {
            double f = side[i] / (side[i] - side[j]);

            out.c[out.n++] = (mrd_vertex){ p.x + (q.x - p.x) * f, p.y + (q.y - p.y) * f };
        }
    }
    *poly = out;
    if (poly->n == 0)
        return false;
    tidy(poly);
    mrd_poly_trim(poly, MRD_POLY_VERTICES);
    return true;
}

/* Returns the index of the lowest vertex. From there, the directions of the edges increase from 0
 * to 360 degrees. */
static int
lowest(const mrd_vertex *vertex, int n)
{
    int at = 0;

    for (int i = 1; i < n; i++) {
        if (vertex[i].y < vertex[at].y ||
            (vertex[i].y == vertex[at].y && vertex[i].x < vertex[at].x))
            at = i;
    }
    return at;
}

/* Adds a hexagon to the set (Minkowski sum), by merging the edges of both in the order of their
 * directions. */
static void
add_hexagon(mrd_poly *poly, const mrd_vertex vertices[6])
{
    int n = poly->n, i = 0, j = 0, pi = lowest(poly->c, n), hj = lowest(vertices, 6);
    mrd_poly out;

    out.n = 0;
    while (i < n || j < 6) {
        mrd_vertex vertex = poly->c[pi], p2 = poly->c[pi + 1 == n ? 0 : pi + 1];
        mrd_vertex q = vertices[hj], q2 = vertices[hj == 5 ? 0 : hj + 1];
        double turn = (p2.x - vertex.x) * (q2.y - q.y) - (p2.y - vertex.y) * (q2.x - q.x);
        bool take_p = i < n && (j == 6 || turn >= 0), take_q = j < 6 && (i == n || turn <= 0);

        out.c[out.n++] = (mrd_vertex){ vertex.x + q.x, vertex.y + q.y };
        /* One of the two is true if all numbers are finite. This line prevents an endless loop with
         * NaN. */
        if (!take_p && !take_q)
            take_p = take_q = true;
        if (take_p && i < n) {
            i++;
            pi = pi + 1 == n ? 0 : pi + 1;
        }
        if (take_q && j < 6) {
            j++;
            hj = hj == 5 ? 0 : hj + 1;
        }
    }
    *poly = out;
}

void
mrd_poly_advance(mrd_poly *poly, double dt, double w)
{
    double span = fabs(dt), y = w * span, x = dt * y / 2, v = w * span * span / 4;
    /* The hexagon in coordinates (s, v) of docs/reference/timesync.md section 4: (-1,0) (-1/2,-1)
     * (1/2,-1) (1,0) (1/2,1) (-1/2,1), each mapped to (s*x + v, s*y). The sign of dt decides
     * whether the order is clockwise. */
    mrd_vertex vertices[6] = { { -x, -y }, { -x / 2 - v, -y / 2 }, { x / 2 - v, y / 2 },
                               { x, y },   { x / 2 + v, y / 2 },   { -x / 2 + v, -y / 2 } };

    if (poly->n == 0 || dt == 0)
        return;
    for (int i = 0; i < poly->n; i++)
        poly->c[i].x += poly->c[i].y * dt;
    if (w <= 0)
        return;
    if (cross(vertices[0], vertices[1], vertices[2]) < 0) {
        for (int i = 1; i < 3; i++) {
            mrd_vertex swap = vertices[i];

            vertices[i] = vertices[6 - i];
            vertices[6 - i] = swap;
        }
    }
    add_hexagon(poly, vertices);
    tidy(poly);
    mrd_poly_trim(poly, MRD_POLY_VERTICES);
}

/* Removes edge i by extending its two neighbours until they meet at *ret_meet. Returns the area
 * that this adds to the set, or INFINITY if they do not meet. */
static double
drop_edge(const mrd_vertex *vertex, int n, int i, mrd_vertex *ret_meet)
{
    mrd_vertex before = vertex[i == 0 ? n - 1 : i - 1], p = vertex[i],
               q = vertex[i + 1 == n ? 0 : i + 1];
    mrd_vertex after = vertex[i + 2 >= n ? i + 2 - n : i + 2];
    double d1x = p.x - before.x, d1y = p.y - before.y;
    double d2x = after.x - q.x, d2y = after.y - q.y;
    double turn = d1x * d2y - d1y * d2x, s;

    if (turn <= 0)
        return INFINITY;
    s = ((q.x - p.x) * d2y - (q.y - p.y) * d2x) / turn;
    if (!(s >= 0))
        return INFINITY;
    *ret_meet = (mrd_vertex){ p.x + s * d1x, p.y + s * d1y };
    return s * fabs(d1x * (q.y - p.y) - d1y * (q.x - p.x));
}

void
mrd_poly_trim(mrd_poly *poly, int vertices)
{
    double area[MRD_POLY_VERTICES + 8];
    mrd_vertex meet[MRD_POLY_VERTICES + 8];
    mrd_vertex *vertex = poly->c;

    if (poly->n <= vertices)
        return;
    for (int i = 0; i < poly->n; i++)
        area[i] = drop_edge(vertex, poly->n, i, &meet[i]);
    while (poly->n > vertices) {
        int count = poly->n, best = 0, next;

        for (int i = 1; i < count; i++)
            best = area[i] < area[best] ? i : best;
        if (!isfinite(area[best]))
            /* No two neighbours of an edge meet, because the set is thinner than a double can
             * resolve. Keep all vertices. */
            return;
        next = best + 1 == count ? 0 : best + 1;
        vertex[best] = meet[best];
        memmove(&vertex[next], &vertex[next + 1], (size_t) (count - next - 1) * sizeof(*vertex));
        memmove(&area[next], &area[next + 1], (size_t) (count - next - 1) * sizeof(*area));
        memmove(&meet[next], &meet[next + 1], (size_t) (count - next - 1) * sizeof(*meet));
        poly->n = --count;
        best = next < best ? best - 1 : best;
        /* recompute the areas of edges that were moved, or that have a moved neighbour */
        for (int k = -2; k <= 1; k++) {
            int i = (best + k + count) % count;

            area[i] = drop_edge(vertex, count, i, &meet[i]);
        }
    }
}

bool
mrd_poly_intersect(mrd_poly *poly, const mrd_poly *other)
{
    int n = other->n;

    if (n == 0)
        poly->n = 0;
    /* Clipping needs an area. If `other` is a point or a line, `poly` stays unchanged. It is then
     * larger than the intersection, which is allowed. */
    if (n < 3)
        return poly->n > 0;
    for (int i = 0; i < n && poly->n > 0; i++) {
        mrd_vertex p = other->c[i], q = other->c[i + 1 == n ? 0 : i + 1];
        double a = q.y - p.y, b = p.x - q.x, scale = fabs(a) + fabs(b);

        if (scale > 0)
            (void) mrd_poly_clip(poly, a / scale, b / scale, (a * p.x + b * p.y) / scale);
    }
    return poly->n > 0;
}

mrd_poly_range
mrd_poly_extent(const mrd_poly *poly)
{
    mrd_poly_range range = { INFINITY, -INFINITY, INFINITY, -INFINITY };

    for (int i = 0; i < poly->n; i++) {
        range.lo = fmin(range.lo, poly->c[i].x);
        range.hi = fmax(range.hi, poly->c[i].x);
        range.rate_lo = fmin(range.rate_lo, poly->c[i].y);
        range.rate_hi = fmax(range.rate_hi, poly->c[i].y);
    }
    return range;
}

bool
mrd_poly_holds(const mrd_poly *poly, double x, double y, double tol)
{
    for (int i = 0; i < poly->n; i++) {
        mrd_vertex p = poly->c[i], q = poly->c[i + 1 == poly->n ? 0 : i + 1];
        double side = (q.x - p.x) * (y - p.y) - (q.y - p.y) * (x - p.x);

        if (side < -tol * (fabs(q.y - p.y) + 1e-9 * fabs(q.x - p.x)) - 1e-6)
            return false;
    }
    return poly->n > 0;
}
