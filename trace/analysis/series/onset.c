#include "trace/analysis/series/onset.h"

#include <stdlib.h>

#include "base/vec.h"

typedef struct {
    mrd_ev_ns at;
    uint64_t ns;
    uint32_t worker;
    uint64_t number; /* how many values were added before this one */
} sample;

struct mrd_onset {
    sample *samples;
    uint32_t n, cap;
    uint64_t added; /* values in all, with the dropped ones */
    bool failed;    /* a value was not stored, because memory ran out */
    uint64_t
        mask; /* Only a sample of the values is stored, to limit the memory. A value is in the sample if these bits of the hash of its index are 0. */
};

mrd_onset *
mrd_onset_new(void)
{
    return calloc(1, sizeof(mrd_onset));
}

void
mrd_onset_free(mrd_onset *onset)
{
    if (onset == NULL)
        return;
    free(onset->samples);
    free(onset);
}

/* Returns a hash of a value's number. It decides which values are dropped. Because it looks random,
 * values that repeat with a period (such as checkpoints) are dropped as often as others. Source:
 * Stafford's mix 13. */
static uint64_t
mixed(uint64_t number)
{
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 27) * 0x94d049bb133111ebu;
    return number ^ number >> 31;
}

void
mrd_onset_add(mrd_onset *onset, mrd_ev_ns at, uint32_t worker, uint64_t ns)
{
    uint64_t number = onset->added++;

    if ((mixed(number) & onset->mask) != 0)
        return;
    if (!MRD_VEC_ROOM(onset->samples, onset->n, onset->cap, 1)) {
        onset->failed = true;
        return;
    }
    onset->samples[onset->n++] = (sample){ at, ns, worker, number };
    if (onset->n < MRD_ONSET_MOST)
        return;
    onset->mask = 2 * onset->mask + 1;
    onset->n = 0;
    for (uint32_t i = 0; i < MRD_ONSET_MOST; i++) {
        if ((mixed(onset->samples[i].number) & onset->mask) == 0)
            onset->samples[onset->n++] = onset->samples[i];
    }
}

uint64_t
mrd_onset_number_at(const mrd_onset *onset, mrd_ev_ns at)
{
    uint64_t number = 0;

    for (uint32_t i = 0; i < onset->n && !mrd_ev_after(onset->samples[i].at, at); i++)
        number = onset->samples[i].number;
    return number;
}

/* Leaves out changes between two high parts, and between two low parts. */
static void
merge(const mrd_change_points *found, bool *kept, mrd_onset_kind *ret_kind)
{
    double most = found->n > 0 ? found->change[0].before : 0;
    bool first, high;
    size_t n = 0;

    for (size_t i = 0; i < found->n; i++)
        most = found->change[i].after > most ? found->change[i].after : most;
    first = high = found->n > 0 && found->change[0].before > most / 2;
    for (size_t i = 0; i < found->n; i++) {
        kept[i] = (found->change[i].after > most / 2) != high;
        high = high != kept[i];
        n += kept[i];
    }
    *ret_kind = n == 0                 ? MRD_ONSET_ALWAYS
                : n > 2 || found->more ? MRD_ONSET_OFTEN
                : n == 1               ? (first ? MRD_ONSET_UNTIL : MRD_ONSET_SINCE)
                : first                ? MRD_ONSET_PAUSED
                                       : MRD_ONSET_BETWEEN;
}

/* Finds the changes in the means of `width` values each. A change is at the first of these
 * values. */
static mrd_err
find_wide(const double *v, uint32_t n, uint32_t width, double effect, mrd_change_points *ret)
{
    uint32_t cells = (n + width - 1) / width;
    double *mean = calloc(cells, sizeof(*mean));
    mrd_err err;

    if (mean == NULL)
        return MRD_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t last = i / width + 1 == cells ? n - (cells - 1) * width : width;

        mean[i / width] += v[i] / last;
    }
    err = mrd_change_points_of(mean, cells, effect, ret);
    free(mean);
    for (size_t i = 0; i < ret->n; i++)
        ret->change[i].at *= width;
    return err;
}

/* Finds the changes in a series. `present` is the number of values that are not 0. If most values
 * are 0, the test of ranks finds a change only where the other values are close together. Then the
 * means of neighbouring values are tested, too. A mean covers enough values to contain about two
 * that are not 0. */
static mrd_err
find(const double *v, uint32_t n, uint32_t present, double effect, mrd_change_points *ret)
{
    mrd_err err = mrd_change_points_of(v, n, effect, ret);

    return err == MRD_OK && ret->n == 0 && present > 0 && present < n / 2
               ? find_wide(v, n, 2 * (n / present), effect, ret)
               : err;
}

mrd_err
mrd_onset_of(const mrd_onset *onset, uint32_t worker, double effect, bool merged,
             mrd_onset_result *ret)
{
    double *v = calloc(onset->n + 1, sizeof(*v));
    uint32_t present = 0;
    mrd_change_points found = { 0 };
    bool kept[MRD_CHANGES_MOST];
    mrd_err err = MRD_OK;

    *ret = (mrd_onset_result){ .kind = MRD_ONSET_UNKNOWN };
    if (v == NULL || onset->failed) {
        free(v);
        return MRD_NOMEM;
    }
    for (uint32_t i = 0; i < onset->n; i++) {
        v[i] = onset->samples[i].worker == worker ? (double) onset->samples[i].ns : 0;
        present += v[i] > 0;
    }
    if (onset->n >= MRD_ONSET_LEAST)
        err = find(v, onset->n, present, effect, &found);
    free(v);
    if (err != MRD_OK || onset->n < MRD_ONSET_LEAST)
        return err;
    merge(&found, kept, &ret->kind);
    for (size_t i = 0; i < found.n; i++) {
        const sample *at = &onset->samples[found.change[i].at];

        if (!merged || kept[i])
            ret->change[ret->n++] = (mrd_onset_change){ at->at, at->number, found.change[i].before,
                                                        found.change[i].after };
    }
    return MRD_OK;
}
