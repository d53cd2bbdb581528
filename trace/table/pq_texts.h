/*
 * trace/table/pq_texts.h - a dictionary of the texts of a column in one row group, where they repeat. For parquet.c.
 *
 * Equal input gives the same entries in the same order, those of the first rows first. Texts that were made to
 * collide end the attempt, as too many or too long ones do. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PQ_TEXTS_H
#define MRD_TRACE_TABLE_PQ_TEXTS_H

#include "base/buf.h"

/* Zeroed: empty. */
typedef struct {
    uint32_t *slots, *rows; /* a table; the row in which each entry stands first */
    size_t cap_slots, cap_rows, n;
} mrd_pq_texts;

/* Texts one after the other: the end of each row's in `bytes`; present: 0 for null, NULL: none is. */
typedef struct {
    const uint32_t *ends;
    const uint8_t *bytes, *present;
} mrd_pq_text_rows;

static inline mrd_str
mrd_pq_text_at(const mrd_pq_text_rows *v, size_t i)
{
    uint32_t from = i == 0 ? 0 : v->ends[i - 1];

    return (mrd_str){ (const char *) v->bytes + from, v->ends[i] - from };
}

static inline bool
mrd_pq_is_null(const mrd_pq_text_rows *v, size_t row)
{
    return v->present != NULL && v->present[row] == 0;
}

/* Sets t->n and t->rows, and in index, which has room for `rows`, the entry of each row that is not null, one after
 * the other. t->n is 0 where more than half of the texts are different, or they are too long: a dictionary would be
 * longer than what zstd makes of the texts. False without memory. */
bool mrd_pq_texts_make(mrd_pq_texts *t, const mrd_pq_text_rows *v, size_t rows, uint32_t *index);
void mrd_pq_texts_fini(mrd_pq_texts *t);

#endif
