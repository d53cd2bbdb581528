#include "aggregator/core/common/seqset.h"

#include <stdlib.h>

#include "base/vec.h"

#define SEQSET_GAPS 65536u

typedef struct {
    uint64_t lo, hi; /* the sequence numbers from lo to hi - 1 */
} range;

struct mrd_seqset {
    range *v; /* sorted; neighbouring ranges have a gap between them */
    size_t n, cap;
};

mrd_seqset *
mrd_seqset_new(void)
{
    return calloc(1, sizeof(mrd_seqset));
}

void
mrd_seqset_free(mrd_seqset *set)
{
    if (set == NULL)
        return;
    free(set->v);
    free(set);
}

/* Returns the index of the first range with hi >= seq. That range contains seq or ends directly
 * before it, or begins after it. */
static size_t
seq_find(const mrd_seqset *set, uint64_t seq)
{
    size_t lo = 0, hi = set->n;

    /* fast path: new numbers are usually above all ranges */
    if (hi > 0 && set->v[hi - 1].hi <= seq)
        return set->v[hi - 1].hi == seq ? hi - 1 : hi;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (set->v[mid].hi < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool
mrd_seqset_has(const mrd_seqset *set, uint64_t seq)
{
    size_t i = seq_find(set, seq);

    if (i < set->n && set->v[i].hi == seq)
        i++;
    return i < set->n && set->v[i].lo <= seq && seq < set->v[i].hi;
}

size_t
mrd_seqset_gaps(const mrd_seqset *set)
{
    return set->n == 0 ? 0 : set->n - 1;
}

bool
mrd_seqset_adds_gap(const mrd_seqset *set, uint64_t seq)
{
    size_t i = seq_find(set, seq);

    return set->n > 0 && !mrd_seqset_has(set, seq) &&
           !(i < set->n && (set->v[i].hi == seq || set->v[i].lo == seq + 1));
}

bool
mrd_seqset_is_full(const mrd_seqset *set, uint64_t seq)
{
    return seq == UINT64_MAX || (set->n >= SEQSET_GAPS && mrd_seqset_adds_gap(set, seq));
}

mrd_err
mrd_seqset_add(mrd_seqset *set, uint64_t seq)
{
    size_t i = seq_find(set, seq);

    if (seq == UINT64_MAX)
        return MRD_RANGE;
    if (mrd_seqset_has(set, seq))
        return MRD_OK;
    /* seq directly follows range i, and may close the gap to range i + 1 */
    if (i < set->n && set->v[i].hi == seq) {
        set->v[i].hi++;
        if (i + 1 < set->n && set->v[i + 1].lo == seq + 1) {
            set->v[i].hi = set->v[i + 1].hi;
            memmove(&set->v[i + 1], &set->v[i + 2], (set->n - i - 2) * sizeof(range));
            set->n--;
        }
        return MRD_OK;
    }
    if (i < set->n && set->v[i].lo == seq + 1) {
        set->v[i].lo--;
        return MRD_OK;
    }
    if (set->n >= SEQSET_GAPS)
        return MRD_LIMIT;
    if (!MRD_VEC_ROOM(set->v, set->n, set->cap, 1))
        return MRD_NOMEM;
    memmove(&set->v[i + 1], &set->v[i], (set->n - i) * sizeof(range));
    set->v[i] = (range){ seq, seq + 1 };
    set->n++;
    return MRD_OK;
}

uint64_t
mrd_seqset_missing(const mrd_seqset *set, uint64_t end)
{
    uint64_t have = 0;

    for (size_t i = 0; i < set->n && set->v[i].lo < end; i++)
        have += (set->v[i].hi < end ? set->v[i].hi : end) - set->v[i].lo;
    return end - have;
}

uint64_t
mrd_seqset_end(const mrd_seqset *set)
{
    return set->n == 0 ? 0 : set->v[set->n - 1].hi;
}
