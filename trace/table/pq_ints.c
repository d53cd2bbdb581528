#include "trace/table/pq_ints.h"

#include <endian.h>
#include <stdlib.h>

#include "trace/table/pq_encode.h"

#define ENTRIES_MAX 32768u /* maximum number of entries in a dictionary */
#define SLOTS       (4 * ENTRIES_MAX)
#define SAMPLE      8192u
#define FEW         256u /* up to this number of dictionary entries, an index takes one byte */
#define GROUPS      7u   /* number of row groups for which the chosen form of a column is reused */

bool
mrd_pq_ints_init(mrd_pq_ints *ints)
{
    *ints = (mrd_pq_ints){ .slots = calloc(SLOTS, sizeof(*ints->slots)),
                           .entries = malloc(ENTRIES_MAX * sizeof(*ints->entries)),
                           .as_found = malloc(ENTRIES_MAX * sizeof(*ints->as_found)),
                           .place = malloc(ENTRIES_MAX * sizeof(*ints->place)) };
    return ints->slots != NULL && ints->entries != NULL && ints->as_found != NULL &&
           ints->place != NULL;
}

void
mrd_pq_ints_fini(mrd_pq_ints *ints)
{
    free(ints->slots);
    free(ints->entries);
    free(ints->as_found);
    free(ints->place);
    *ints = (mrd_pq_ints){ 0 };
}

void
mrd_pq_put_ints(mrd_pq_pages *p, const int64_t *v, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    mrd_buf_add(&p->page, v, n * sizeof(*v));
#else
    for (size_t i = 0; i < n; i++) {
        uint64_t le = htole64((uint64_t) v[i]);

        mrd_buf_add(&p->page, &le, 8);
    }
#endif
}

static size_t
slot_of(int64_t v)
{
    return (size_t) ((uint64_t) v * 0x9e3779b97f4a7c15u >> 47);
}

_Static_assert(SLOTS == 1u << (64 - 47), "slot_of gives a slot");

/* Finds the different integers and stores them in as_found. index[i] is the entry of values[i].
 * Returns false if there are too many different integers for a dictionary. */
static bool
find_entries(mrd_pq_ints *ints, const int64_t *values, size_t n, uint32_t *index)
{
    ints->base += (uint32_t) ints->n;
    ints->n = 0;
    if (ints->base > UINT32_MAX - ENTRIES_MAX) {
        memset(ints->slots, 0, SLOTS * sizeof(*ints->slots));
        ints->base = 0;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = slot_of(values[i]);

        if (i > 0 && values[i] == values[i - 1]) {
            index[i] = index[i - 1];
            continue;
        }
        while (ints->slots[at] > ints->base &&
               ints->as_found[ints->slots[at] - ints->base - 1] != values[i])
            at = (at + 1) & (SLOTS - 1);
        if (ints->slots[at] <= ints->base) {
            if (ints->n == ENTRIES_MAX)
                return false;
            ints->as_found[ints->n++] = values[i];
            ints->slots[at] = ints->base + (uint32_t) ints->n;
        }
        index[i] = ints->slots[at] - ints->base - 1;
    }
    return true;
}

static int
order_ints(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* Sorts the dictionary by value. Close values then have close indexes, which often share their high
 * bytes and compress better. */
static void
sort_entries(mrd_pq_ints *ints, uint32_t *index, size_t count)
{
    memcpy(ints->entries, ints->as_found, ints->n * sizeof(*ints->entries));
    qsort(ints->entries, ints->n, sizeof(*ints->entries), order_ints);
    for (size_t e = 0; e < ints->n; e++) {
        size_t from = 0, to = ints->n;

        while (from < to) {
            size_t mid = (from + to) / 2;

            if (ints->entries[mid] < ints->as_found[e])
                from = mid + 1;
            else
                to = mid;
        }
        ints->place[e] = (uint32_t) from;
    }
    for (size_t i = 0; i < count; i++)
        index[i] = ints->place[index[i]];
}

static size_t
try_deltas(mrd_pq_pages *pages, const int64_t *values, size_t n, bool bytes)
{
    mrd_pq_put_delta(&pages->page, values, n, bytes);
    return mrd_pq_try_page(pages);
}

static size_t
try_plain(mrd_pq_pages *pages, const int64_t *values, size_t n)
{
    mrd_pq_put_ints(pages, values, n);
    return mrd_pq_try_page(pages);
}

/* Estimates the compressed size in bytes of the first `some` of n values if they are stored as
 * indexes into a dictionary. Includes a proportional share of the dictionary. */
static size_t
try_indexes(mrd_pq_ints *ints, mrd_pq_pages *pages, const uint32_t *index, size_t some, size_t n)
{
    size_t entries = ints->n < SAMPLE ? ints->n : SAMPLE;
    double share = (double) ints->n / (double) entries * (double) some / (double) n;
    size_t of_entries =
        (size_t) ((double) try_plain(pages, ints->entries + (ints->n - entries) / 2, entries) *
                  share);

    mrd_pq_put_index(&pages->page, index, some, mrd_pq_index_width(ints->n));
    return of_entries + mrd_pq_try_page(pages);
}

mrd_pq_form
mrd_pq_ints_form(mrd_pq_ints *ints, mrd_pq_pages *pages, mrd_pq_habit *habit, const int64_t *values,
                 size_t count, bool ordered, uint32_t *index)
{
    size_t some = count < SAMPLE ? count : SAMPLE, at = (count - some) / 2, least, takes;
    mrd_pq_form form = MRD_PQ_AS_DELTAS;
    bool entries;

    if (habit->groups > 0 && habit->form != MRD_PQ_AS_INDEXES) {
        habit->groups--;
        return habit->form;
    }
    least = try_deltas(pages, values + at, some, false);
    /* deltas take almost no space here, as for row numbers, so do not try the other forms */
    if (least <= some / 64)
        return form;
    entries = !ordered && find_entries(ints, values, count, index);
    if (entries) {
        sort_entries(ints, index, count);
        if (habit->groups > 0 || (ints->n <= FEW && ints->n <= count / 8)) {
            habit->groups -= habit->groups > 0;
            return MRD_PQ_AS_INDEXES;
        }
    }
    if ((takes = try_deltas(pages, values + at, some, true)) < least) {
        form = MRD_PQ_AS_BYTE_DELTAS;
        least = takes;
    }
    if (!ordered && (takes = try_plain(pages, values + at, some)) < least) {
        form = MRD_PQ_AS_PLAIN;
        least = takes;
    }
    if (entries && try_indexes(ints, pages, index + at, some, count) < least)
        form = MRD_PQ_AS_INDEXES;
    *habit = (mrd_pq_habit){ form, GROUPS };
    return form;
}
