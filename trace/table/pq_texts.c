#include "trace/table/pq_texts.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"

#define BYTES_MAX (4u << 20) /* maximum text of a dictionary */
/* texts that must show repetition; a training step often has this number */
#define SAMPLE    32768u
#define STEPS_MAX 64u
#define NO_ENTRY  UINT32_MAX

/* Returns the entry of a row's text, which is added if new; NO_ENTRY if not found in this many
 * steps. */
static uint32_t
entry_of(mrd_pq_texts *t, const mrd_pq_text_rows *v, size_t row, size_t slots)
{
    mrd_str text = mrd_pq_text_at(v, row);
    size_t at = mrd_hash64(text.p, text.len, 0) & (slots - 1);

    for (size_t steps = 0; steps < STEPS_MAX; steps++, at = (at + 1) & (slots - 1)) {
        uint32_t entry = t->slots[at];

        if (entry == 0) {
            t->slots[at] = (uint32_t) t->n + 1;
            t->rows[t->n] = (uint32_t) row;
            return (uint32_t) t->n++;
        }
        if (mrd_str_eq(text, mrd_pq_text_at(v, t->rows[entry - 1])))
            return entry - 1;
    }
    return NO_ENTRY;
}

bool
mrd_pq_texts_make(mrd_pq_texts *t, const mrd_pq_text_rows *v, size_t rows, uint32_t *index)
{
    size_t slots = 1024, n = 0, bytes = 0, zero = 0;
    uint32_t last = NO_ENTRY;

    while (slots < 2 * rows)
        slots *= 2;
    t->n = 0;
    if (!MRD_VEC_ROOM(t->slots, zero, t->cap_slots, slots) ||
        !MRD_VEC_ROOM(t->rows, zero, t->cap_rows, rows))
        return false;
    memset(t->slots, 0, slots * sizeof(*t->slots));
    for (size_t r = 0; r < rows; r++) {
        size_t before = t->n;

        if (mrd_pq_is_null(v, r))
            continue;
        if (last == NO_ENTRY || !mrd_str_eq(mrd_pq_text_at(v, r), mrd_pq_text_at(v, t->rows[last])))
            last = entry_of(t, v, r, slots);
        if (last != NO_ENTRY)
            index[n++] = last;
        bytes += t->n > before ? mrd_pq_text_at(v, r).len + 4 : 0;
        if (last == NO_ENTRY || bytes > BYTES_MAX || (n >= SAMPLE && t->n > n / 2)) {
            t->n = 0;
            return true;
        }
    }
    if (t->n > n / 2 + 1)
        t->n = 0;
    return true;
}

void
mrd_pq_texts_fini(mrd_pq_texts *t)
{
    free(t->slots);
    free(t->rows);
    *t = (mrd_pq_texts){ 0 };
}
