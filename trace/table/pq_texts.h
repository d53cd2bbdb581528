/*
 * trace/table/pq_texts.h - makes a dictionary of a column's texts in one row group, if they repeat.
 * It is used by parquet.c.
 *
 * Equal input gives the same entries in the same order, by first occurrence. No dictionary is made
 * if there are too many different texts or too many bytes, or if hashes collide too often, as in
 * deliberate collisions. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PQ_TEXTS_H
#define MRD_TRACE_TABLE_PQ_TEXTS_H

#include "base/buf.h"

/* A dictionary of texts. A zeroed struct is empty. */
typedef struct {
    /* slots: hash table; rows: for each entry, the first row with this text */
    uint32_t *slots, *rows;
    size_t cap_slots, cap_rows, n;
} mrd_pq_texts;

/* One text per row, stored in one array of bytes. `ends` has the end of each row's text. `present`
 * is 0 for null rows; NULL if no row is null. */
typedef struct {
    const uint32_t *ends;
    const uint8_t *bytes, *present;
} mrd_pq_text_rows;

static inline mrd_str
mrd_pq_text_at(const mrd_pq_text_rows *rows, size_t i)
{
    uint32_t from = i == 0 ? 0 : rows->ends[i - 1];

    if (rows->bytes == NULL) /* all texts are empty */
        return (mrd_str){ NULL, 0 };
    return (mrd_str){ (const char *) rows->bytes + from, rows->ends[i] - from };
}

static inline bool
mrd_pq_is_null(const mrd_pq_text_rows *rows, size_t row)
{
    return rows->present != NULL && rows->present[row] == 0;
}

/* Makes a dictionary in texts->n and texts->rows. Stores in `index` the entry of each row that is
 * not null, without gaps; `index` has room for `rows` entries. texts->n is 0 if a dictionary does
 * not pay: more than half of the texts differ, or they are too long. Returns false if out of
 * memory. */
bool mrd_pq_texts_make(mrd_pq_texts *texts, const mrd_pq_text_rows *pq_text_rows, size_t rows,
                       uint32_t *index);
void mrd_pq_texts_fini(mrd_pq_texts *texts);

#endif
