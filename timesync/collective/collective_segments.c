/* Splits the samples of a process into segments if one straight line does not fit them, because the
 * clock was stepped, slewed, or drifts. */
#include "timesync/collective/collective_impl.h"

#include <math.h>

/* Minimum number of samples in a segment. A line through fewer samples would follow their
 * scatter. */
#define SEGMENT_MIN 6
#define DEPTH_MAX   6 /* maximum depth of nested cuts: at most 64 segments */
/* A line is cut if this reduces the sum of its residuals to at most this share. */
#define GAIN    0.5
#define FINE_NS 2000 /* a line with smaller residuals (ns) is not cut */
/* Samples next to a cut are removed if their residual exceeds ODD * (median residual) + FINE_NS,
 * because they may belong to the other side of the cut. */
#define ODD 6

typedef struct {
    const coll_sample *s;
    double *x, *y, *w;
    coll_line *lines;
    size_t n;
} cutter;

static coll_line
line_of(const cutter *c, size_t first, size_t n)
{
    coll_line line = { .first = first, .n = n };

    for (size_t i = 0; i < n; i++) {
        c->x[i] = c->s[first + i].end;
        c->y[i] = c->s[first + i].at - c->s[first + i].end;
    }
    line.a = mrd_coll_fit(c->x, c->y, c->w, n, &line.b);
    for (size_t i = 0; i < n; i++) {
        double r = fabs(c->y[i] - line.a - line.b * c->x[i]);

        line.residual = fmax(line.residual, r);
        line.sum += r;
    }
    return line;
}

/* Sums over the samples on one side of a cut, from which a line is fitted. The sums are updated
 * when the cut moves from one sample to the next. */
typedef struct {
    double n, x, y, xx, xy, yy;
} sums;

static void
sums_add(sums *s, double x, double y, double sign)
{
    s->n += sign;
    s->x += sign * x;
    s->y += sign * y;
    s->xx += sign * x * x;
    s->xy += sign * x * y;
    s->yy += sign * y * y;
}

/* Returns the sum of squared residuals of the least-squares line through the samples that are
 * summed in `s`. */
static double
sums_rest(const sums *s)
{
    double xx = s->xx - s->x * s->x / s->n, xy = s->xy - s->x * s->y / s->n;
    double yy = s->yy - s->y * s->y / s->n;

    return fmax(yy - (xx > 0 ? xy * xy / xx : 0), 0);
}

/* Returns the index at which a cut leaves the smallest sum of squared residuals on both sides. The
 * sums are of residuals to `line` and not of raw values, because small numbers have small rounding
 * errors. */
static size_t
best_cut(const cutter *c, const coll_line *line)
{
    double x0 = c->s[line->first].end, least = INFINITY;
    sums left = { 0 }, right = { 0 };
    size_t best = 0;

    for (size_t i = 0; i < line->n; i++) {
        const coll_sample *sample = &c->s[line->first + i];

        c->x[i] = (sample->end - x0) * 1e-9;
        c->y[i] = sample->at - sample->end - line->a - line->b * sample->end;
        sums_add(&right, c->x[i], c->y[i], 1);
    }
    for (size_t i = 0; i + SEGMENT_MIN < line->n; i++) {
        double rest;

        sums_add(&left, c->x[i], c->y[i], 1);
        sums_add(&right, c->x[i], c->y[i], -1);
        rest = sums_rest(&left) + sums_rest(&right);
        if (i + 1 >= SEGMENT_MIN && rest < least) {
            least = rest;
            best = i + 1;
        }
    }
    return best;
}

/* Splits the samples of `line` recursively into segments if this reduces the residuals enough
 * (GAIN). Appends the resulting segments, and returns the sum of their residuals. */
static double
cut(cutter *c, const coll_line *line, int depth)
{
    size_t before = c->n, at;
    double sum = 0;

    if (depth < DEPTH_MAX && line->residual > FINE_NS && line->n >= 2 * SEGMENT_MIN) {
        coll_line half;

        at = best_cut(c, line);
        half = line_of(c, line->first, at);
        sum += cut(c, &half, depth + 1);
        half = line_of(c, line->first + at, line->n - at);
        sum += cut(c, &half, depth + 1);
        if (sum <= GAIN * line->sum)
            return sum;
        c->n = before;
    }
    c->lines[c->n++] = *line;
    return line->sum;
}

static double
residual(const cutter *c, const coll_line *line, size_t i)
{
    return fabs(c->s[i].at - c->s[i].end - line->a - line->b * c->s[i].end);
}

/* Removes unreliable samples next to the cuts before and after a line. A sample may be on the wrong
 * side of a cut if its participant left late. So the sample next to each cut is removed, and its
 * neighbours are removed if their residuals are large (ODD). The gap between the segments then
 * includes the removed samples. */
static void
trim_edges(const cutter *c, coll_line *line, bool before, bool after)
{
    double odd;

    for (size_t i = 0; i < line->n; i++)
        c->x[i] = residual(c, line, line->first + i);
    odd = ODD * mrd_coll_median(c->x, line->n) + FINE_NS;
    line->first += before;
    line->n -= (size_t) before + after;
    for (; before && line->n > 1 && residual(c, line, line->first) > odd; line->n--)
        line->first++;
    while (after && line->n > 1 && residual(c, line, line->first + line->n - 1) > odd)
        line->n--;
    line->residual = line->sum = 0;
    for (size_t i = 0; i < line->n; i++) {
        line->residual = fmax(line->residual, residual(c, line, line->first + i));
        line->sum += residual(c, line, line->first + i);
    }
}

size_t
mrd_coll_cut(const coll_sample *sample, size_t n, double *x, double *y, double *w,
             coll_line lines[MRD_COLL_SEGMENTS])
{
    cutter c = { sample, x, y, w, lines, 0 };
    coll_line all = line_of(&c, 0, n);

    (void) cut(&c, &all, 0);
    for (size_t l = 0; l < c.n; l++)
        trim_edges(&c, &lines[l], l > 0, l + 1 < c.n);
    return c.n;
}
