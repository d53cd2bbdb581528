#include "trace/table/pq_ints.h"

#include <endian.h>
#include <stdlib.h>

#include "trace/table/pq_encode.h"

#define ENTRIES_MAX 32768u /* maximum entries of a dictionary */
#define SLOTS       (4 * ENTRIES_MAX)
#define SAMPLE      8192u
#define FEW         256u /* number of entries with indexes of one byte */
#define GROUPS      7u   /* row groups for which a form is kept */

bool
mrd_pq_ints_init(mrd_pq_ints *t)
{
    *t = (mrd_pq_ints){ .slots = calloc(SLOTS, sizeof(*t->slots)),
                        .entries = malloc(ENTRIES_MAX * sizeof(*t->entries)),
                        .as_found = malloc(ENTRIES_MAX * sizeof(*t->as_found)),
                        .place = malloc(ENTRIES_MAX * sizeof(*t->place)) };
    return t->slots != NULL && t->entries != NULL && t->as_found != NULL && t->place != NULL;
}

void
mrd_pq_ints_fini(mrd_pq_ints *t)
{
    free(t->slots);
    free(t->entries);
    free(t->as_found);
    free(t->place);
    *t = (mrd_pq_ints){ 0 };
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

/* Finds the different values. Returns false if there are too many. */
static bool
find_entries(mrd_pq_ints *t, const int64_t *v, size_t n, uint32_t *index)
{
    t->base += (uint32_t) t->n;
    t->n = 0;
    if (t->base > UINT32_MAX - ENTRIES_MAX) {
        memset(t->slots, 0, SLOTS * sizeof(*t->slots));
        t->base = 0;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = slot_of(v[i]);

        if (i > 0 && v[i] == v[i - 1]) {
            index[i] = index[i - 1];
            continue;
        }
        while (t->slots[at] > t->base && t->as_found[t->slots[at] - t->base - 1] != v[i])
            at = (at + 1) & (SLOTS - 1);
        if (t->slots[at] <= t->base) {
            if (t->n == ENTRIES_MAX)
                return false;
            t->as_found[t->n++] = v[i];
            t->slots[at] = t->base + (uint32_t) t->n;
        }
        index[i] = t->slots[at] - t->base - 1;
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

/* Sorts the entries, so that close values get close indexes with equal high bytes. */
static void
sort_entries(mrd_pq_ints *t, uint32_t *index, size_t n)
{
    memcpy(t->entries, t->as_found, t->n * sizeof(*t->entries));
    qsort(t->entries, t->n, sizeof(*t->entries), order_ints);
    for (size_t e = 0; e < t->n; e++) {
        size_t from = 0, to = t->n;

        while (from < to) {
            size_t mid = (from + to) / 2;

            if (t->entries[mid] < t->as_found[e])
                from = mid + 1;
            else
                to = mid;
        }
        t->place[e] = (uint32_t) from;
    }
    for (size_t i = 0; i < n; i++)
        index[i] = t->place[index[i]];
}

static size_t
try_deltas(mrd_pq_pages *p, const int64_t *v, size_t n, bool bytes)
{
    mrd_pq_put_delta(&p->page, v, n, bytes);
    return mrd_pq_try_page(p);
}

static size_t
try_plain(mrd_pq_pages *p, const int64_t *v, size_t n)
{
    mrd_pq_put_ints(p, v, n);
    return mrd_pq_try_page(p);
}

/* Returns the bytes of a dictionary's entries for `some` of n values, without their indexes. */
static size_t
try_indexes(mrd_pq_ints *t, mrd_pq_pages *p, const uint32_t *index, size_t some, size_t n)
{
    size_t entries = t->n < SAMPLE ? t->n : SAMPLE;
    double share = (double) t->n / (double) entries * (double) some / (double) n;
    size_t of_entries =
        (size_t) ((double) try_plain(p, t->entries + (t->n - entries) / 2, entries) * share);

    mrd_pq_put_index(&p->page, index, some, mrd_pq_index_width(t->n));
    return of_entries + mrd_pq_try_page(p);
}

mrd_pq_form
mrd_pq_ints_form(mrd_pq_ints *t, mrd_pq_pages *p, mrd_pq_habit *habit, const int64_t *v, size_t n,
                 bool ordered, uint32_t *index)
{
    size_t some = n < SAMPLE ? n : SAMPLE, at = (n - some) / 2, least, takes;
    mrd_pq_form form = MRD_PQ_AS_DELTAS;
    bool entries;

    if (habit->groups > 0 && habit->form != MRD_PQ_AS_INDEXES) {
        habit->groups--;
        return habit->form;
    }
    least = try_deltas(p, v + at, some, false);
    if (least <= some / 64) /* rows that are counted */
        return form;
    entries = !ordered && find_entries(t, v, n, index);
    if (entries) {
        sort_entries(t, index, n);
        if (habit->groups > 0 || (t->n <= FEW && t->n <= n / 8)) {
            habit->groups -= habit->groups > 0;
            return MRD_PQ_AS_INDEXES;
        }
    }
    if ((takes = try_deltas(p, v + at, some, true)) < least) {
        form = MRD_PQ_AS_BYTE_DELTAS;
        least = takes;
    }
    if (!ordered && (takes = try_plain(p, v + at, some)) < least) {
        form = MRD_PQ_AS_PLAIN;
        least = takes;
    }
    if (entries && try_indexes(t, p, index + at, some, n) < least)
        form = MRD_PQ_AS_INDEXES;
    *habit = (mrd_pq_habit){ form, GROUPS };
    return form;
}
