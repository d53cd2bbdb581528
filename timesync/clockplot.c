#include "timesync/clockplot.h"

#include "base/num.h"
#include "base/obj.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Text table ---- */

/* Returns true if the table has only times of a wall clock, which have no bound. */
static bool
is_unaligned(const mrd_align *align)
{
    return mrd_align_bin_count(align) > 0 &&
           mrd_align_borrow_bins(align)[0].quality == MRD_ALIGN_UNALIGNED;
}

#define UNALIGNED "unaligned: times are this node's wall clock, bound unknown"
/* Text of the assumptions. `bend` is the phrase that states the maximum change of the rate. */
#define BOUND_HOLDS(bend)                                                                          \
    "the bound holds if stamps are causal up to their stated uncertainty, the rate changes by "    \
    "at most " bend " inside an epoch and stays within 500 ppm; where it is \"extrapolated\", it " \
    "also holds only if the clock departs from its rate by at most twice of what it did in the "   \
    "hour beside the gap; the estimate's error beyond "                                            \
    "noise is at most half the difference of the one-way minima, here at most half the width"

void
mrd_clock_assumptions(const mrd_align *align, mrd_buf *to)
{
    double w = 0;

    for (size_t i = 0; i < mrd_align_segment_count(align); i++)
        w = fmax(w, mrd_align_borrow_segment(align, i)->w);
    if (is_unaligned(align))
        mrd_buf_text(to, UNALIGNED);
    else
        mrd_buf_fmt(to, BOUND_HOLDS("%.0f ppb/s"), w);
}

static void
text_row(const mrd_align *align, const mrd_align_summary *summary, double w, mrd_buf *to)
{
    /* Offsets are printed in full. They are large, because session time reads as UTC and local time
     * counts from boot, and their last digits matter. */
    char sign = summary->offset < 0 ? '-' : '+', offset[MRD_DUR_TEXT],
         width[MRD_DUR_TEXT] = "unknown", p99[MRD_DUR_TEXT] = "unknown";
    char noise[MRD_DUR_TEXT], length[MRD_DUR_TEXT], bend[24] = "-";
    const unsigned long long sec = MRD_SEC, far = summary->offset < 0
                                                      ? 0 - (uint64_t) summary->offset
                                                      : (uint64_t) summary->offset;

    snprintf(offset, sizeof(offset), "%c%llu.%09llu s", sign, far / sec, far % sec);
    (void) mrd_dur_text(summary->noise_median, noise);
    (void) mrd_dur_text(summary->last.ns - summary->first.ns, length);
    if (summary->width_median >= 0) {
        (void) mrd_dur_text(summary->width_median / 2, width);
        (void) mrd_dur_text(summary->width_p99 / 2, p99);
    }
    if (!is_unaligned(align))
        snprintf(bend, sizeof(bend), "%.0f", w);
    mrd_buf_fmt(to, "%-24.24s %5" PRIu32 "  %-16s %14s %23s %+10.3f %8s %12s %12s %10s  %-10s %s\n",
                mrd_align_name(align), summary->epoch, mrd_epoch_cause_text(summary->cause), length,
                offset, summary->rate / 1000, bend, width, p99, noise,
                mrd_stamp_source_text(summary->source), mrd_align_quality_text(summary->quality));
}

void
mrd_clock_text(const mrd_align *const *tables, size_t count, mrd_buf *to)
{
    bool bounded = false;

    mrd_buf_fmt(to, "%-24s %5s  %-16s %14s %23s %10s %8s %12s %12s %10s  %-10s %s\n", "node",
                "epoch", "began by", "length", "offset", "rate ppm", "ppb/s", "bound +-", "p99 +-",
                "noise", "stamps", "quality");
    for (size_t i = 0; i < count; i++) {
        mrd_align_summary summary;

        bounded = bounded || !is_unaligned(tables[i]);
        for (size_t j = 0; j < mrd_align_segment_count(tables[i]); j++) {
            if (mrd_align_summarise(tables[i], j, &summary))
                text_row(tables[i], &summary, mrd_align_borrow_segment(tables[i], j)->w, to);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (is_unaligned(tables[i]))
            mrd_buf_fmt(to, "%s: " UNALIGNED "\n", mrd_align_name(tables[i]));
    }
    if (bounded)
        mrd_buf_text(to, BOUND_HOLDS("the column ppb/s") "\n");
}

/* ---- SVG picture ---- */

#define WIDTH   960
#define LEFT    86
#define RIGHT   18
#define TOP     56
#define PANEL   180
#define GAP     58
#define COLUMNS 1200 /* maximum number of points per line of the picture */

typedef struct {
    /* A point of the picture. t is in s, and the other values are in us. The mean rate of the epoch
     * is removed from lo, hi and est. */
    double t, lo, hi, est, width;
    bool first; /* this is the first point of its epoch */
} plot_point;

typedef struct {
    double x0, x1, y0, y1; /* range of the data in the panel */
    double top;            /* upper edge of the panel, in pixels */
} panel;

static double
px(const panel *p, double x)
{
    return LEFT + (x - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double
py(const panel *p, double y)
{
    double f = (y - p->y0) / (p->y1 - p->y0);

    return p->top + PANEL * (1 - fmin(fmax(f, -0.02), 1.02));
}

/* Returns a round distance of grid lines, which is 1, 2 or 5 times a power of ten. It divides
 * `range` into about `n` steps. */
static double
nice_step(double range, double n)
{
    double raw = range / n, power = pow(10, floor(log10(raw))), f = raw / power;

    return power * (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10);
}

static void
axes(const panel *p, const char *title, const char *unit, mrd_buf *to)
{
    double step = nice_step(p->y1 - p->y0, 5);

    mrd_buf_fmt(to, "<text class='t' x='%d' y='%.1f'>%s</text>\n", LEFT, p->top - 8, title);
    for (double y = ceil(p->y0 / step) * step; y <= p->y1 + step * 1e-6; y += step)
        mrd_buf_fmt(to,
                    "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/><text class='e' x='%d' "
                    "y='%.1f'>%.6g</text>\n",
                    LEFT, WIDTH - RIGHT, py(p, y), py(p, y), LEFT - 6, py(p, y) + 4,
                    fabs(y) < step * 1e-6 ? 0 : y);
    mrd_buf_fmt(to, "<text class='e' transform='translate(16 %.1f) rotate(-90)'>%s</text>\n",
                p->top + PANEL / 2.0 - 12, unit);
    step = nice_step(p->x1 - p->x0, 8);
    for (double x = ceil(p->x0 / step) * step; x <= p->x1 + step * 1e-6; x += step)
        mrd_buf_fmt(to,
                    "<line class='g' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/><text class='m' "
                    "x='%.1f' y='%.1f'>%.6g</text>\n",
                    px(p, x), px(p, x), p->top, p->top + PANEL, px(p, x), p->top + PANEL + 15,
                    fabs(x) < step * 1e-6 ? 0 : x);
    mrd_buf_fmt(to, "<text class='m' x='%d' y='%.1f'>session time, s since the first bin</text>\n",
                (LEFT + WIDTH - RIGHT) / 2, p->top + PANEL + 30);
}

/* Reduces the bins to about COLUMNS points, stores them in `to` and returns their number. Each
 * point has the lowest lo, the highest hi and the largest width of its group of bins. */
static size_t
fill_points(const mrd_align *align, plot_point *to)
{
    size_t total = mrd_align_bin_count(align), group = (total + COLUMNS - 1) / COLUMNS, count = 0;
    const mrd_align_bin *bins = mrd_align_borrow_bins(align);
    mrd_local_ns zero = bins[0].at;

    for (size_t s = 0; s < mrd_align_segment_count(align); s++) {
        const mrd_align_segment *seg = mrd_align_borrow_segment(align, s);
        const mrd_align_bin *bin = bins + seg->first, *last = bin + (seg->count - 1);
        /* an unaligned bin has no bound to draw */
        if (bin->quality == MRD_ALIGN_UNALIGNED && total > 1)
            continue;
        double slope =
            seg->count < 2 ? 0 : (last->est - bin->est) / (double) (last->at.ns - bin->at.ns);

        for (size_t i = 0; i < seg->count; i++) {
            double line = bin[0].est + slope * (double) (bin[i].at.ns - bin[0].at.ns);
            plot_point point = { (double) mrd_local_diff(bin[i].at, zero) * 1e-9,
                                 (bin[i].lo - line) * 1e-3,
                                 (bin[i].hi - line) * 1e-3,
                                 (bin[i].est - line) * 1e-3,
                                 (bin[i].hi - bin[i].lo) * 1e-3,
                                 i == 0 };

            if (i % group == 0) {
                to[count++] = point;
                continue;
            }
            to[count - 1].lo = fmin(to[count - 1].lo, point.lo);
            to[count - 1].hi = fmax(to[count - 1].hi, point.hi);
            to[count - 1].width = fmax(to[count - 1].width, point.width);
        }
    }
    return count;
}

/* Returns the q-quantile of n values (q from 0 to 1). An axis ends at this value and not at the
 * maximum, so that a few outliers do not flatten the other points. */
static double
most_of(double *v, size_t n, double q)
{
    qsort(v, n, sizeof(*v), mrd_double_order);
    return n == 0 ? 1 : fmax(v[(size_t) (q * (double) (n - 1))], 1e-3);
}

static void
path_of(const panel *p, const plot_point *point, size_t n, size_t field, const char *class,
        mrd_buf *to)
{
    mrd_buf_fmt(to, "<path class='%s' d='", class);
    for (size_t i = 0; i < n; i++) {
        double y = field == 0   ? point[i].est
                   : field == 1 ? point[i].width
                   : field == 2 ? point[i].lo
                                : point[i].hi;

        mrd_buf_fmt(to, "%c%.1f %.1f", point[i].first ? 'M' : 'L', px(p, point[i].t), py(p, y));
    }
    mrd_buf_text(to, "'/>\n");
}

/* Draws the area between lo and hi of the points, as one closed shape for each epoch. */
static void
band(const panel *p, const plot_point *point, size_t n, mrd_buf *to)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !point[end].first;)
            end++;
        mrd_buf_text(to, "<path class='b' d='");
        for (size_t j = i; j < end; j++)
            mrd_buf_fmt(to, "%c%.1f %.1f", j == i ? 'M' : 'L', px(p, point[j].t),
                        py(p, point[j].hi));
        for (size_t j = end; j-- > i;)
            mrd_buf_fmt(to, "L%.1f %.1f", px(p, point[j].t), py(p, point[j].lo));
        mrd_buf_text(to, "Z'/>\n");
        if (i > 0)
            mrd_buf_fmt(to, "<line class='x' x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f'/>\n",
                        px(p, point[i].t), px(p, point[i].t), p->top, p->top + PANEL);
    }
}

static void
packets(const mrd_align *align, const panel *p, const mrd_probe *probes, size_t n, mrd_buf *to)
{
    mrd_local_ns zero = mrd_align_borrow_bins(align)[0].at;
    size_t step = n / 3000 + 1;
    mrd_align_cursor cursor = { 0, 0 };

    for (size_t i = 0; i < n; i += step) {
        mrd_ineq ineqs[2];
        size_t k = mrd_probe_ineqs(&probes[i], ineqs);

        for (size_t j = 0; j < k; j++) {
            mrd_sess_ns at;

            if (mrd_align_map(align, &cursor, (mrd_local_ns){ ineqs[j].t }, &at, NULL))
                mrd_buf_fmt(to, "<circle class='%c' cx='%.1f' cy='%.1f' r='1.6'/>\n",
                            ineqs[j].lower ? 'd' : 'u',
                            px(p, (double) (ineqs[j].t - zero.ns) * 1e-9),
                            py(p, (double) (ineqs[j].v - (at.ns - ineqs[j].t)) * 1e-3));
        }
    }
}

static void
escape(const char *text, mrd_buf *to)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '&' || *text == '>')
            mrd_buf_fmt(to, "&#%d;", *text);
        else if ((unsigned char) *text >= 0x20)
            mrd_buf_byte(to, (uint8_t) *text);
    }
}

static const char style[] =
    "<style>svg{--f:#1b1f24;--p:#fff;--l:#d8dee4;--a:#0969da;--r:#cf222e;--g:#1a7f37;"
    "background:var(--p);font:12px sans-serif}"
    "@media(prefers-color-scheme:dark){svg{--f:#e6edf3;--p:#0d1117;--l:#30363d;--a:#58a6ff;"
    "--r:#ff7b72;--g:#3fb950}}"
    "text{fill:var(--f)}.t{font-size:13px;font-weight:bold}.e{text-anchor:end}.m{text-anchor:"
    "middle}"
    ".h{font-size:16px;font-weight:bold}.g{stroke:var(--l)}.l{fill:none;stroke:var(--a);"
    "stroke-width:1.3}.b{fill:var(--a);opacity:.22}.x{stroke:var(--r);stroke-dasharray:4 3}"
    ".u{fill:var(--r)}.d{fill:var(--g)}</style>\n";

static void
legend(double x, double y, const char *shape, const char *text, mrd_buf *to)
{
    mrd_buf_fmt(to, "<g transform='translate(%.0f %.0f)'>%s<text x='22' y='4'>%s</text></g>\n", x,
                y, shape, text);
}

static void
header(const mrd_align *align, size_t panels, mrd_buf *to)
{
    int height = TOP + (int) panels * (PANEL + GAP) + 12;

    mrd_buf_fmt(
        to,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' "
        "role='img'>\n%s<title>Clock of ",
        WIDTH, height, WIDTH, height, style);
    escape(mrd_align_name(align), to);
    mrd_buf_text(to, "</title>\n<desc>");
    mrd_clock_assumptions(align, to);
    mrd_buf_fmt(to, "</desc>\n<rect width='%d' height='%d' fill='var(--p)'/>\n", WIDTH, height);
    mrd_buf_fmt(to, "<text class='h' x='%d' y='22'>Clock of ", LEFT);
    escape(mrd_align_name(align), to);
    mrd_buf_text(to, "</text>\n");
    legend(500, 18, "<line class='l' x2='18'/>", "estimate", to);
    legend(590, 18, "<rect class='b' y='-6' width='18' height='12'/>", "bound", to);
    legend(660, 18, "<line class='x' x2='18'/>", "new epoch", to);
    legend(756, 18, "<circle class='u' cx='9' r='3'/>", "upper", to);
    legend(820, 18, "<circle class='d' cx='9' r='3'/>", "lower inequality", to);
}

static void
draw(const mrd_align *align, const mrd_probe *probes, size_t n_probes, const plot_point *point,
     size_t count, double *scratch, mrd_buf *to)
{
    panel p = { point[0].t, fmax(point[count - 1].t, point[0].t + 1e-3), 0, 0, TOP };
    double reach, width;

    for (size_t i = 0; i < count; i++)
        scratch[i] = fmax(fabs(point[i].lo), fabs(point[i].hi));
    reach = 1.1 * most_of(scratch, count, 0.98);
    for (size_t i = 0; i < count; i++)
        scratch[i] = point[i].width;
    width = 1.1 * most_of(scratch, count, 0.99);
    header(align, n_probes > 0 ? 3 : 2, to);
    p.y0 = -reach;
    p.y1 = reach;
    axes(&p, "Offset (session - local) and its bound, mean rate of each epoch taken out", "us", to);
    band(&p, point, count, to);
    path_of(&p, point, count, 0, "l", to);
    p.top += PANEL + GAP;
    p.y0 = 0;
    p.y1 = width;
    axes(&p, "Width of the bound", "us", to);
    path_of(&p, point, count, 1, "l", to);
    if (n_probes > 0) {
        p.top += PANEL + GAP;
        p.y0 = -1.5 * width;
        p.y1 = 1.5 * width;
        axes(&p, "Inequalities of the packets relative to the estimate", "us", to);
        packets(align, &p, probes, n_probes, to);
    }
    mrd_buf_text(to, "</svg>\n");
}

mrd_err
mrd_clock_svg(const mrd_align *align, const mrd_probe *probes, size_t count, mrd_buf *to)
{
    size_t room = COLUMNS + mrd_align_segment_count(align) + 1, points;
    plot_point *point;
    double *scratch;
    mrd_err err = MRD_OK;

    if (mrd_align_bin_count(align) == 0)
        return MRD_EMPTY;
    point = malloc(room * sizeof(*point));
    scratch = malloc(room * sizeof(*scratch));
    if (point == NULL || scratch == NULL)
        to->err = MRD_NOMEM;
    else if ((points = fill_points(align, point)) == 0)
        err = MRD_EMPTY;
    else
        draw(align, probes, count, point, points, scratch, to);
    free(point);
    free(scratch);
    return err != MRD_OK ? err : to->err;
}
