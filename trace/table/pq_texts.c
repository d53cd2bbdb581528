#include "trace/table/pq_texts.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"

#define BYTES_MAX (4u << 20) /* maximum bytes of all texts in a dictionary */
/* A column gets no dictionary if fewer than half of the first 32,768 texts are repetitions. A
 * training step often has about this number of texts. */
#define SAMPLE    32768u
#define STEPS_MAX 64u
#define NO_ENTRY  UINT32_MAX

/* Returns the dictionary entry of a row's text, and adds the text if it is new. Returns NO_ENTRY
 * after STEPS_MAX collisions in the hash table. */
static uint32_t
entry_of(mrd_pq_texts *texts, const mrd_pq_text_rows *rows, size_t row, size_t slots)
{
    mrd_str text = mrd_pq_text_at(rows, row);
    size_t at = mrd_hash64(text.p, text.len, 0) & (slots - 1);

    for (size_t steps = 0; steps < STEPS_MAX; steps++, at = (at + 1) & (slots - 1)) {
        uint32_t entry = texts->slots[at];

        if (entry == 0) {
            texts->slots[at] = (uint32_t) texts->n + 1;
            texts->rows[texts->n] = (uint32_t) row;
            return (uint32_t) texts->n++;
        }
        if (mrd_str_eq(text, mrd_pq_text_at(rows, texts->rows[entry - 1])))
            return entry - 1;
    }
    return NO_ENTRY;
}

bool
mrd_pq_texts_make(mrd_pq_texts *texts, const mrd_pq_text_rows *pq_text_rows, size_t rows,
                  uint32_t *index)
{
    size_t slots = 1024, count = 0, bytes = 0, zero = 0;
    uint32_t last = NO_ENTRY;

    while (slots < 2 * rows)
        slots *= 2;
    texts->n = 0;
    if (!MRD_VEC_ROOM(texts->slots, zero, texts->cap_slots, slots) ||
        !MRD_VEC_ROOM(texts->rows, zero, texts->cap_rows, rows))
        return false;
    memset(texts->slots, 0, slots * sizeof(*texts->slots));
    for (size_t r = 0; r < rows; r++) {
        size_t before = texts->n;

        if (mrd_pq_is_null(pq_text_rows, r))
            continue;
        if (last == NO_ENTRY || !mrd_str_eq(mrd_pq_text_at(pq_text_rows, r),
                                            mrd_pq_text_at(pq_text_rows, texts->rows[last])))
            last = entry_of(texts, pq_text_rows, r, slots);
        if (last != NO_ENTRY)
            index[count++] = last;
        bytes += texts->n > before ? mrd_pq_text_at(pq_text_rows, r).len + 4 : 0;
        if (last == NO_ENTRY || bytes > BYTES_MAX || (count >= SAMPLE && texts->n > count / 2)) {
            texts->n = 0;
            return true;
        }
    }
    if (texts->n > count / 2 + 1)
        texts->n = 0;
    return true;
}

void
mrd_pq_texts_fini(mrd_pq_texts *texts)
{
    free(texts->slots);
    free(texts->rows);
    *texts = (mrd_pq_texts){ 0 };
}
