#include "timesync/timescale_link.h"

#include <math.h>
#include <stdlib.h>

#include "timesync/align_impl.h"

/* The result from one clock: new session time minus old session time lies in base + [lo, hi]. */
typedef struct {
    double lo, hi, est;
} word;

typedef struct {
    const mrd_align_segment *a, *b;
    const mrd_align_bin *last, *first;
} sides;

static sides
sides_of(const mrd_link_clock *clock)
{
    const mrd_align_segment *a = mrd_align_borrow_segment(clock->align, clock->before);
    const mrd_align_segment *b = mrd_align_borrow_segment(clock->align, clock->after);
    const mrd_align_bin *bins = mrd_align_borrow_bins(clock->align);

    return (sides){ a, b, &bins[a->first + a->count - 1], &bins[b->first] };
}

/* Returns the old session time of a local time, extrapolated from the last bin before the gap. */
static int64_t
old_time(const sides *s, int64_t local)
{
    return local + s->a->base +
           llround(mrd_align_extrapolate(s->a, s->last, local - s->last->at.ns).est);
}

/* Chooses the instant of the link: the middle of the time range that lies in the gaps of all
 * clocks. At this instant, the tables have to be extrapolated least. */
static void
choose_instant(const mrd_link_clock *clocks, size_t n, mrd_timescale_link *to)
{
    int64_t from = INT64_MIN, until = INT64_MAX;

    for (size_t i = 0; i < n; i++) {
        sides s = sides_of(&clocks[i]);
        int64_t end = old_time(&s, s.a->to.ns), start = old_time(&s, s.b->from.ns);

        from = end > from ? end : from;
        until = start < until ? start : until;
    }
    /* the range can be empty, because the extrapolations of two clocks are imprecise */
    if (until < from)
        until = from;
    to->at = (mrd_sess_ns){ from + (until - from) / 2 };
    to->gap_ns = until - from;
}

/* Returns the local time of the clock that maps to the old session time `at`. The iteration
 * converges fast, because the rates of the two clocks differ by at most 500 ppm. */
static int64_t
local_at(const sides *s, mrd_sess_ns at)
{
    int64_t local = at.ns - s->a->base;

    for (int i = 0; i < 8; i++)
        local -= old_time(s, local) - at.ns;
    return local;
}

static word
word_of(const mrd_link_clock *clock, mrd_sess_ns at, int64_t base)
{
    sides s = sides_of(clock);
    int64_t local = local_at(&s, at);
    mrd_align_place a = mrd_align_extrapolate(s.a, s.last, local - s.last->at.ns);
    mrd_align_place b = mrd_align_extrapolate(s.b, s.first, local - s.first->at.ns);
    double apart = (double) (s.b->base - s.a->base - base);
    /* The local time of the instant is uncertain, and the two timelines may drift apart within that
     * uncertainty. */
    double slack = (a.hi - a.lo) * 2 * MRD_ALIGN_RATE_MAX * 1e-9 + 1;

    return (word){ apart + b.lo - a.hi - slack, apart + b.hi - a.lo + slack,
                   apart + b.est - a.est };
}

/* ---- Finding the clocks that agree ---- */

typedef struct {
    double at;
    int side; /* 1 at the beginning of an interval, -1 at its end */
} edge;

static int
edge_order(const void *a, const void *b)
{
    const edge *x = a, *y = b;

    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : y->side - x->side;
}

/* Finds the range [*ret_lo, *ret_hi] in which the largest number of the n intervals overlap, and
 * returns that number. */
static size_t
overlap(const word *w, size_t n, edge *edges, double *ret_lo, double *ret_hi)
{
    int open = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        edges[2 * i] = (edge){ w[i].lo, 1 };
        edges[2 * i + 1] = (edge){ w[i].hi, -1 };
    }
    qsort(edges, 2 * n, sizeof(*edges), edge_order);
    for (size_t i = 0; i < 2 * n; i++) {
        open += edges[i].side;
        if (open > most) {
            most = open;
            *ret_lo = edges[i].at;
            *ret_hi = edges[i + 1].at; /* the last edge is an end, so edge i + 1 exists */
        }
    }
    return (size_t) most;
}

/* Returns the mean estimate of the intervals that contain [lo, hi], limited to [lo, hi]. Narrow
 * intervals have more weight. */
static double
mean(const word *w, size_t n, double lo, double hi)
{
    double sum = 0, weight = 0;

    for (size_t i = 0; i < n; i++) {
        double width = w[i].hi - w[i].lo;

        if (w[i].lo > lo || w[i].hi < hi)
            continue;
        sum += w[i].est / (width * width);
        weight += 1 / (width * width);
    }
    return fmin(fmax(sum / weight, lo), hi);
}

mrd_err
mrd_timescale_link_solve(const mrd_link_clock *clocks, size_t count, mrd_timescale_link *ret_link)
{
    mrd_timescale_link link = { 0 };
    word *words = malloc((count + 1) * sizeof(*words));
    edge *edges = malloc((2 * count + 2) * sizeof(*edges));
    mrd_err err = words == NULL || edges == NULL ? MRD_NOMEM : count == 0 ? MRD_EMPTY : MRD_OK;

    if (err == MRD_OK) {
        sides s = sides_of(&clocks[0]);
        int64_t base = s.b->base - s.a->base;
        double lo = 0, hi = 0, est;

        choose_instant(clocks, count, &link);
        for (size_t i = 0; i < count; i++)
            words[i] = word_of(&clocks[i], link.at, base);
        link.clocks = overlap(words, count, edges, &lo, &hi);
        link.contradicting = count - link.clocks;
        est = round(mean(words, count, lo, hi));
        link.ahead_ns = base + (int64_t) est;
        link.lo = (mrd_dur_ns) floor(fmin(lo - est, 0));
        link.hi = (mrd_dur_ns) ceil(fmax(hi - est, 0));
        err = link.clocks * 2 > count ? MRD_OK : MRD_EMPTY;
    }
    free(words);
    free(edges);
    if (err == MRD_OK)
        *ret_link = link;
    return err;
}
