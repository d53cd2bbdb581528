#include "trace/analysis/series/change_point.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/num.h"

#define CLIPPED 256 /* a level clips the largest 1/256 of the values */
/* Shorter windows cannot reach MRD_CHANGE_P. */
#define SHORTEST 32

typedef struct {
    double value;
    size_t at;
} ranked;

typedef struct {
    const double *v;
    double clip; /* larger values count as this value in a level */
    double effect;
    ranked *sorted; /* space for the sorted values of a part */
    double *rank;   /* space for the ranks of a part, in order of the index */
    mrd_change_points *found;
} search;

static int
ranked_order(const void *a, const void *b)
{
    const ranked *x = a, *y = b;

    return x->value < y->value ? -1 : x->value > y->value;
}

/* Writes the ranks 1 .. n of n values. Equal values get the mean of their ranks. Returns the factor
 * by which equal values reduce the variance. *ret_equal is the size of the largest set of equal
 * values. */
static double
rank_values(search *s, size_t from, size_t n, size_t *ret_equal)
{
    double ties = 0;

    *ret_equal = 0;
    for (size_t i = 0; i < n; i++)
        s->sorted[i] = (ranked){ s->v[from + i], i };
    qsort(s->sorted, n, sizeof(*s->sorted), ranked_order);
    for (size_t i = 0, equal; i < n; i += equal) {
        for (equal = 1; i + equal < n && s->sorted[i + equal].value <= s->sorted[i].value; equal++)
            ;
        for (size_t k = i; k < i + equal; k++)
            s->rank[s->sorted[k].at] = (double) i + ((double) equal + 1) / 2;
        ties += (double) equal * ((double) equal * (double) equal - 1);
        *ret_equal = equal > *ret_equal ? equal : *ret_equal;
    }
    return 1 - ties / ((double) n * ((double) n * (double) n - 1));
}

/* Returns the correlation of neighbouring ranks, after subtracting the mean rank before the index
 * `at` from the ranks before it, and the mean rank after it from the others. */
static double
neighbours(const double *rank, size_t n, size_t at)
{
    double mean[2] = { 0 }, square = 0, product = 0, before = 0;

    for (size_t i = 0; i < n; i++)
        mean[i >= at] += rank[i] / (double) (i >= at ? n - at : at);
    for (size_t i = 0; i < n; i++) {
        double away = rank[i] - mean[i >= at];

        square += away * away;
        product += i > 0 ? away * before : 0;
        before = away;
    }
    return square > 0 ? fmin(fmax(product / square, 0), 0.9) : 0;
}

/* Returns Miller and Siegmund's p value. `z` is the largest difference of mean ranks that any
 * border has, in standard deviations. A border must have at least the share `end` of the values on
 * each side. */
static double
best_of_many(double z, double end)
{
    double density = exp(-z * z / 2) / sqrt(2 * M_PI);

    return z < 1 ? 1 : fmin(1, density * (4 / z + (z - 1 / z) * 2 * log((1 - end) / end)));
}

static double
level_of(const search *s, size_t from, size_t to)
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += fmin(s->v[i], s->clip);
    return sum / (double) (to - from);
}

/* Finds the best border within the values [from, to). Returns false if there is no change. */
static bool
border_in(search *s, size_t from, size_t to, mrd_change_point *ret)
{
    size_t n = to - from, best = 0, equal, ends;
    double ties, sum = 0, largest = 0, r;

    if (n < (size_t) 2 * MRD_CHANGE_LEAST)
        return false;
    ties = rank_values(s, from, n, &equal);
    if (n - equal < (size_t) 2 * MRD_CHANGE_LEAST && equal > n / 2)
        return false;
    ends = equal > n / 2 ? MRD_CHANGE_LEAST * n / (n - equal) + 1 : MRD_CHANGE_LEAST;
    for (size_t i = 1; i + ends <= n; i++) {
        double share = (double) i, variance, away;

        sum += s->rank[i - 1];
        if (i < ends)
            continue;
        away = sum - share * (double) (n + 1) / 2;
        variance = share * (double) (n - i) * (double) (n + 1) / 12 * ties;
        if (variance > 0 && away * away / variance > largest) {
            largest = away * away / variance;
            best = i;
        }
    }
    if (best == 0)
        return false;
    r = neighbours(s->rank, n, best);
    *ret = (mrd_change_point){
        .at = from + best,
        .before = level_of(s, from, from + best),
        .after = level_of(s, from + best, to),
        .p = best_of_many(sqrt(largest * (1 - r) / (1 + r)), (double) ends / (double) n),
    };
    return ret->p <= MRD_CHANGE_P &&
           fabs(ret->after - ret->before) >= s->effect * fmax(fabs(ret->after), fabs(ret->before));
}

/* Finds the most certain change within the values [from, to). If the level rises and later falls
 * again, the two changes hide each other in the whole range. Therefore the whole range, halves,
 * quarters and so on are tried as windows. Neighbouring windows overlap by a half. p is multiplied
 * by the number of windows of the same length, and by the number of lengths. */
static bool
change_in(search *s, size_t from, size_t to, mrd_change_point *ret)
{
    unsigned lengths = 1;
    bool any = false;

    for (size_t length = (to - from) / 2; length >= SHORTEST; length /= 2)
        lengths++;
    for (unsigned k = 0; k < lengths; k++) {
        size_t length = (to - from) >> k, windows = ((size_t) 2 << k) - 1;

        for (size_t i = 0; i < windows; i++) {
            size_t begin = from + (to - from - length) * i / (windows > 1 ? windows - 1 : 1);
            mrd_change_point change;

            if (!border_in(s, begin, begin + length, &change))
                continue;
            change.p *= (double) windows * lengths;
            if (change.p > MRD_CHANGE_P || (any && change.p >= ret->p))
                continue;
            *ret = change;
            any = true;
        }
    }
    return any;
}

/* Divides the series at its most certain change, and then each part in the same way. Ends when no
 * part has a change, or when there are too many changes. */
static void
split(search *s, size_t n)
{
    struct {
        size_t from, to;
        bool has; /* the part has this change */
        mrd_change_point change;
    } part[MRD_CHANGES_MOST + 1];
    mrd_change_points *found = s->found;
    size_t parts = 1, best;

    part[0].from = 0;
    part[0].to = n;
    part[0].has = change_in(s, 0, n, &part[0].change);
    while (true) {
        best = parts;
        for (size_t i = 0; i < parts; i++) {
            if (part[i].has && (best == parts || part[i].change.p < part[best].change.p))
                best = i;
        }
        if (best == parts || parts > MRD_CHANGES_MOST)
            break;
        for (size_t i = parts++; i > best; i--)
            part[i] = part[i - 1];
        part[best].to = part[best + 1].from = part[best].change.at;
        for (size_t i = best; i <= best + 1; i++)
            part[i].has = change_in(s, part[i].from, part[i].to, &part[i].change);
    }
    found->more = best < parts;
    found->n = parts - 1;
    for (size_t i = 0; i < found->n; i++)
        found->change[i].at = part[i].to;
}

static double
median_of(search *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        s->rank[i - from] = s->v[i];
    qsort(s->rank, to - from, sizeof(*s->rank), mrd_double_order);
    return s->rank[(to - from) / 2];
}

/* Returns the best index for a change that the test of ranks found at `at`, within the values
 * [from, to). Ranks determine the index badly if one part is short. So the function chooses the
 * index at which the values differ least, in total, from the median of their part. If the medians
 * of both parts are equal, most values are equal, too. Then it chooses the index at which the sum
 * of the squared differences from the levels of the parts is least. */
static size_t
placed(search *s, size_t from, size_t to, size_t at)
{
    double median[2] = { median_of(s, from, at), median_of(s, at, to) }, sum = 0, least = 0;
    double level[2] = { level_of(s, from, at), level_of(s, at, to) };
    bool equal = fabs(median[0] - median[1]) <= 0;
    size_t best = from;

    for (size_t i = from; i < to; i++) {
        double v = fmin(s->v[i], s->clip);

        sum += equal ? (v - level[0]) * (v - level[0]) - (v - level[1]) * (v - level[1])
                     : fabs(v - median[0]) - fabs(v - median[1]);
        if (sum < least) {
            least = sum;
            best = i + 1;
        }
    }
    return best > from && best < to ? best : at;
}

/* Tests each change again, with only the values between the change before and the change after. If
 * a change fails this test, it is removed, and all changes are tested again. */
static void
search_again(search *s, size_t n)
{
    mrd_change_points *found = s->found;

    for (size_t i = 0; i < found->n;) {
        size_t from = i > 0 ? found->change[i - 1].at : 0,
               to = i + 1 < found->n ? found->change[i + 1].at : n;

        if (border_in(s, from, to, &found->change[i])) {
            i++;
            continue;
        }
        found->n--;
        for (size_t k = i; k < found->n; k++)
            found->change[k] = found->change[k + 1];
        i = 0;
    }
    for (size_t i = 0; i < found->n; i++) {
        size_t from = i > 0 ? found->change[i - 1].at : 0,
               to = i + 1 < found->n ? found->change[i + 1].at : n;

        found->change[i].at = placed(s, from, to, found->change[i].at);
    }
    for (size_t i = 0; i < found->n; i++) {
        size_t from = i > 0 ? found->change[i - 1].at : 0,
               to = i + 1 < found->n ? found->change[i + 1].at : n;

        found->change[i].before = level_of(s, from, found->change[i].at);
        found->change[i].after = level_of(s, found->change[i].at, to);
    }
}

mrd_err
mrd_change_points_of(const double *v, size_t n, double effect, mrd_change_points *ret)
{
    search s = { .v = v, .effect = effect, .found = ret };

    *ret = (mrd_change_points){ 0 };
    if (n == 0)
        return MRD_OK;
    if ((s.sorted = calloc(n, sizeof(*s.sorted))) == NULL ||
        (s.rank = calloc(n, sizeof(*s.rank))) == NULL) {
        free(s.sorted);
        return MRD_NOMEM;
    }
    for (size_t i = 0; i < n; i++)
        s.rank[i] = v[i];
    qsort(s.rank, n, sizeof(*s.rank), mrd_double_order);
    s.clip = s.rank[n - 1 - n / CLIPPED];
    ret->level = level_of(&s, 0, n);
    split(&s, n);
    search_again(&s, n);
    free(s.sorted);
    free(s.rank);
    return MRD_OK;
}
