/* Splits where one straight line does not fit: a clock that was stepped, slewed, or drifts. */
#include "timesync/collective/collective_impl.h"

#include <math.h>

#define SEGMENT_MIN 6    /* samples of a segment; a line of fewer follows the scatter */
#define DEPTH_MAX   6    /* nested cuts: at most 64 segments */
#define GAIN        0.5  /* segments must reduce the residuals to at most this share */
#define FINE_NS     2000 /* residuals that are not worth a cut */
#define ODD         6    /* times the median: a residual next to a cut that may be of either side */

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

/* Running sums of one side of a cut. */
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

/* Returns the squared residuals of the best line. */
static double
sums_rest(const sums *s)
{
    double xx = s->xx - s->x * s->x / s->n, xy = s->xy - s->x * s->y / s->n;
    double yy = s->yy - s->y * s->y / s->n;

    return fmax(yy - (xx > 0 ? xy * xy / xx : 0), 0);
}

/* Finds the cut with the least squares. Residuals against `line` keep the sums well conditioned. */
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

/* Appends the segments of `line` and returns the sum of their residuals. */
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

/* Next to a cut an end may be on the wrong side, because a participant left late at that time. So
 * the nearest ends, and ends with larger residuals than others, are left to the gap. */
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
