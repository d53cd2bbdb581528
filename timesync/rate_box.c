#include "timesync/rate_box.h"

#include <math.h>
#include <string.h>

/* maximum time over which the rate "of the last minute" is measured, if there is no point at the
 * begin of the minute */
#define MINUTE_MAX (MRD_RATE_BOX_MINUTE + MRD_RATE_BOX_MINUTE / 2)
/* the assumed departure of a clock is SAFETY times the largest observed departure */
#define SAFETY 2.0

void
mrd_rate_box_start(mrd_rate_box *box)
{
    box->n = 0;
    box->stale = true;
}

void
mrd_rate_box_add(mrd_rate_box *box, int64_t t, double x)
{
    size_t old = 0;

    if (box->n > 0 && t - box->t[box->n - 1] < MRD_RATE_BOX_EVERY)
        return;
    while (old < box->n && t - box->t[old] > MRD_RATE_BOX_HISTORY + MRD_RATE_BOX_MINUTE)
        old++;
    if (old == 0 && box->n == MRD_RATE_BOX_POINTS)
        old = 1;
    if (old > 0) {
        box->n -= old;
        memmove(box->t, box->t + old, box->n * sizeof(*box->t));
        memmove(box->x, box->x + old, box->n * sizeof(*box->x));
    }
    box->t[box->n] = t;
    box->x[box->n++] = x;
    box->stale = true;
}

/* Stores the mean rate of the minute before point i. Returns the index of the point at which this
 * minute begins, or i if there is no such point. The search begins at point `from`. */
static size_t
rate_before(const mrd_rate_box *box, size_t i, size_t from, double *ret_rate)
{
    while (from + 1 < i && box->t[i] - box->t[from + 1] >= MRD_RATE_BOX_MINUTE)
        from++;
    if (from >= i || box->t[i] - box->t[from] < MRD_RATE_BOX_MINUTE ||
        box->t[i] - box->t[from] > MINUTE_MAX)
        return i;
    *ret_rate = (box->x[i] - box->x[from]) / ((double) (box->t[i] - box->t[from]) * 1e-9);
    return from;
}

/* Returns the index in `departure` for the distance d, which is rounded up to a multiple of
 * MRD_RATE_BOX_EVERY. */
static size_t
step_of(mrd_dur_ns d)
{
    return (size_t) ((d - 1) / MRD_RATE_BOX_EVERY);
}

/* Finds the largest departure for each distance between two points. Compares each point with all
 * later points. */
static void
learn(mrd_rate_box *box)
{
    size_t count[MRD_RATE_BOX_STEPS] = { 0 }, from = 0;

    memset(box->departure, 0, sizeof(box->departure));
    for (size_t i = 0; i < box->n; i++) {
        double rate;
        size_t begin = rate_before(box, i, from, &rate);

        if (begin == i)
            continue;
        from = begin;
        for (size_t k = i + 1; k < box->n; k++) {
            mrd_dur_ns d = box->t[k] - box->t[i];
            size_t step = step_of(d);

            if (step >= MRD_RATE_BOX_STEPS)
                break;
            count[step]++;
            box->departure[step] =
                fmax(box->departure[step], fabs(box->x[k] - box->x[i] - rate * (double) d * 1e-9));
        }
    }
    /* For a longer distance, more start points are required: they must extend over at least one
     * such distance. */
    box->learned = 0;
    while (box->learned < MRD_RATE_BOX_STEPS && count[box->learned] >= MRD_RATE_BOX_ENOUGH &&
           count[box->learned] >= box->learned)
        box->learned++;
    for (size_t i = 1; i < box->learned; i++)
        box->departure[i] = fmax(box->departure[i], box->departure[i - 1]);
    box->stale = false;
}

bool
mrd_rate_box_ahead(mrd_rate_box *box, mrd_dur_ns d, mrd_rate_ahead *ret_ahead)
{
    double departure, beyond;

    if (box->n == 0 || d <= 0)
        return false;
    if (box->stale)
        learn(box);
    if (box->learned == 0 || rate_before(box, box->n - 1, 0, &ret_ahead->rate) == box->n - 1)
        return false;
    if (step_of(d) < box->learned) {
        departure = box->departure[step_of(d)];
    } else {
        beyond = (double) d / (double) ((int64_t) box->learned * MRD_RATE_BOX_EVERY);
        departure = box->departure[box->learned - 1] * beyond * beyond;
    }
    ret_ahead->departure = fmax(SAFETY * departure, MRD_RATE_BOX_LEAST * (double) d * 1e-9);
    return true;
}

int64_t
mrd_rate_box_last(const mrd_rate_box *box)
{
    return box->n > 0 ? box->t[box->n - 1] : 0;
}
