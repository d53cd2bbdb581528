/* Sorts the ranks of a job, and computes medians over them. */
#include "aggregator/core/slow/slow_int.h"

#include <stdlib.h>

#include "base/num.h"
#include "base/vec.h"

static void
swap(float *a, float *b)
{
    float c = *a;

    *a = *b;
    *b = c;
}

/* Returns the number that has the index k after sorting (Hoare's selection). */
static float
select_nth(float *v, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;

    while (low < high) {
        float pivot = v[low + (high - low) / 2];
        size_t i = low, j = high;

        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i > j)
                break;
            swap(&v[i++], &v[j]);
            if (j-- == 0)
                break;
        }
        if (j != SIZE_MAX && k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return v[k];
}

float
mrd_slow_median(float *v, size_t n)
{
    float upper = select_nth(v, n, n / 2), lower = v[0];

    if (n % 2 == 1)
        return upper;
    for (size_t i = 0; i < n / 2; i++)
        lower = v[i] > lower ? v[i] : lower;
    return (lower + upper) / 2;
}

/* ---- Members ---- */

static int
order_of_ranks(const void *a, const void *b)
{
    const slow_process *const *x = a, *const *y = b;

    if ((*x)->rank != (*y)->rank)
        return mrd_i64_order((*x)->rank, (*y)->rank);
    if ((*x)->node != (*y)->node)
        return (*x)->node < (*y)->node ? -1 : 1;
    return mrd_i64_order((*x)->pid, (*y)->pid);
}

static void
sort_members(slow_job *job)
{
    qsort(job->members, job->n, sizeof(*job->members), order_of_ranks);
    for (size_t i = 0; i < job->n; i++)
        job->members[i]->member = i;
    job->unsorted = false;
}

/* ---- Medians over the ranks ---- */

typedef float (*slot_value)(const slow_slot *slot, unsigned part);

static float
step_of(const slow_slot *slot, unsigned part)
{
    (void) part;
    return slot->step;
}

static float
part_of(const slow_slot *slot, unsigned part)
{
    return slot->part[part];
}

/* Returns the median over the ranks and over the slots from `from` to `to`; negative if there is no
 * value. */
static float
median_of(mrd_slow *slow, const slow_job *job, slot_value value, unsigned part, int64_t from,
          int64_t to)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++)
        for (int64_t slot = from; slot <= to; slot++) {
            const slow_slot *values = mrd_slow_slot_of(job->members[i], slot);

            if (values != NULL && value(values, part) >= 0)
                slow->scratch[n++] = value(values, part);
        }
    return n > 0 ? mrd_slow_median(slow->scratch, n) : -1;
}

static int64_t
newest_slot(const slow_job *job)
{
    int64_t newest = -1;

    for (size_t i = 0; i < job->n; i++)
        if (job->members[i]->series != NULL && job->members[i]->series->newest_slot > newest)
            newest = job->members[i]->series->newest_slot;
    return newest;
}

void
mrd_slow_refresh(mrd_slow *slow, slow_job *job)
{
    int64_t newest = newest_slot(job), from = job->medians_from;

    if (job->unsorted)
        sort_members(job);
    if (newest < 0 || !MRD_VEC_ROOM(slow->scratch, 0, slow->cap_scratch, job->n * SLOW_RECENT))
        return;
    if (job->medians_to > newest)
        job->medians_to = newest;
    if (from > job->medians_to + 1)
        from = job->medians_to + 1;
    if (from < newest - MRD_SLOW_SLOTS + 1)
        from = newest - MRD_SLOW_SLOTS + 1;
    for (int64_t slot = from < 0 ? 0 : from; slot <= newest; slot++) {
        float step = median_of(slow, job, step_of, 0, slot, slot);

        job->medians[slot % MRD_SLOW_SLOTS] = step > 0 ? step : 0;
    }
    job->medians_to = newest;
    job->medians_from = INT64_MAX;
    for (unsigned part = 0; part < MRD_SLOW_PARTS; part++)
        job->part[part] = median_of(slow, job, part_of, part, newest - SLOW_RECENT + 1, newest);
}
