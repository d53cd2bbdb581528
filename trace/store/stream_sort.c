/* Sorts the records in memory. Radix sort orders them by time. Records with equal times are then
 * ordered by the rest of mrd_event_order. */
#include <stdlib.h>

#include "trace/store/stream_int.h"

/* A record with its sort key, the time since the earliest record. Small keys need few radix
 * passes. */
typedef struct {
    uint64_t key;
    const mrd_rec *rec;
} sort_entry;

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS };

static inline bool
entry_less(const sort_entry *a, const sort_entry *b)
{
    return a->key != b->key ? a->key < b->key : mrd_rec_order(a->rec, b->rec) < 0;
}

/* Insertion sort. Gives up and returns false after `budget` moves. */
static bool
sort_insertion(sort_entry *entry, size_t n, size_t budget)
{
    for (size_t i = 1; i < n; i++) {
        sort_entry moving = entry[i];
        size_t at = i;

        while (at > 0 && entry_less(&moving, &entry[at - 1])) {
            entry[at] = entry[at - 1];
            at--;
        }
        entry[at] = moving;
        if (i - at > budget)
            return false;
        budget -= i - at;
    }
    return true;
}

static int
entry_compare(const void *a, const void *b)
{
    return mrd_rec_order(((const sort_entry *) a)->rec, ((const sort_entry *) b)->rec);
}

/* Sorts by one digit of the key. The sort is stable. */
static void
sort_digit(const sort_entry *from, sort_entry *to, size_t n, unsigned shift)
{
    size_t start[RADIX] = { 0 }, sum = 0;

    for (size_t i = 0; i < n; i++)
        start[from[i].key >> shift & (RADIX - 1)]++;
    for (size_t d = 0; d < RADIX; d++) {
        size_t count = start[d];

        start[d] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[start[from[i].key >> shift & (RADIX - 1)]++] = from[i];
}

/* Sorts the entries by time with radix sort, then each group of equal times by the rest of the
 * order. Returns the array that has the result, `entry` or `spare`. */
static sort_entry *
sort_radix(sort_entry *entry, sort_entry *spare, size_t n)
{
    uint64_t all = 0;

    for (size_t i = 0; i < n; i++)
        all |= entry[i].key;
    for (unsigned shift = 0; shift < 64 && all >> shift != 0; shift += RADIX_BITS) {
        sort_entry *swap = entry;

        sort_digit(entry, spare, n, shift);
        entry = spare;
        spare = swap;
    }
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && entry[end].key == entry[i].key;)
            end++;
        if (end - i > 1 && !sort_insertion(entry + i, end - i, 8 * (end - i)))
            qsort(entry + i, end - i, sizeof(*entry), entry_compare);
    }
    return entry;
}

static void
sort_index(const mrd_block *head, sort_entry *entry)
{
    mrd_ev_ns min = { INT64_MAX };
    size_t n = 0;

    for (const mrd_block *block = head; block != NULL; block = block->next) {
        for (size_t at = 0; at < block->used;) {
            const mrd_rec *rec = (const mrd_rec *) (const void *) (block->data + at);

            entry[n++].rec = rec;
            min = mrd_ev_before(rec->ts, min) ? rec->ts : min;
            at += (size_t) rec->words * 8;
        }
    }
    for (size_t i = 0; i < n; i++)
        entry[i].key = (uint64_t) entry[i].rec->ts.ns - (uint64_t) min.ns;
}

bool
mrd_rec_sort(const mrd_block *head, size_t count, const mrd_rec ***ret_order)
{
    sort_entry *entry = malloc(count * sizeof(*entry)), *spare = NULL, *sorted = entry;
    const mrd_rec **order;

    if (entry == NULL)
        return false;
    sort_index(head, entry);
    if (!sort_insertion(entry, count, 4 * count)) {
        if ((spare = malloc(count * sizeof(*spare))) == NULL) {
            free(entry);
            return false;
        }
        sorted = sort_radix(entry, spare, count);
    }
    order = malloc(count * sizeof(*order));
    for (size_t i = 0; order != NULL && i < count; i++)
        order[i] = sorted[i].rec;
    free(entry);
    free(spare);
    *ret_order = order;
    return order != NULL;
}
