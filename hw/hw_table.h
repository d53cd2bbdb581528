/*
 * hw/hw_table.h - the growing list of counters that every backend keeps: a name has one index for
 * ever, and the last value read is beside it. Bounded by MRD_HW_COUNTERS_MAX. One thread.
 */
#ifndef MRD_HW_HW_TABLE_H
#define MRD_HW_HW_TABLE_H

#include "hw/hw.h"

#include "base/index.h"

typedef struct {
    mrd_hw_counter counter;
    mrd_hw_value value;
    uint64_t key;   /* the backend's own: found again without its name */
    uint64_t round; /* of the sampling that set value */
} mrd_hw_row;

typedef struct {
    mrd_hw_row *rows;
    size_t n, cap;
    mrd_index by_name, by_key;
    uint64_t round;   /* of the sampling under way */
    uint64_t refused; /* counters left out: the list is full */
} mrd_hw_table;

#define MRD_HW_NO_ROW SIZE_MAX

void mrd_hw_table_fini(mrd_hw_table *t);
size_t mrd_hw_table_find(const mrd_hw_table *t, mrd_str name); /* MRD_HW_NO_ROW */
size_t mrd_hw_table_find_key(const mrd_hw_table *t, uint64_t key);
/* The row of counter->name, added when new. key 0: not to be found by key. MRD_HW_NO_ROW when the
 * list is full or memory is out. */
size_t mrd_hw_table_add(mrd_hw_table *t, const mrd_hw_counter *counter, uint64_t key);
/* Takes away the row added last, which its backend has no room for. */
void mrd_hw_table_drop_last(mrd_hw_table *t);
/* Sets a value of the sampling under way. */
void mrd_hw_table_set_i(mrd_hw_table *t, size_t row, int64_t v, mrd_local_ns at);
void mrd_hw_table_set_d(mrd_hw_table *t, size_t row, double v, mrd_local_ns at);
/* Copies what the sampling under way found; rows it did not reach are GONE. */
void mrd_hw_table_take(const mrd_hw_table *t, const uint32_t *want, size_t n,
                       mrd_hw_value *ret_values, mrd_local_ns at);

/* ---- Small files under a root, and words in them ---- */

#define MRD_HW_FILE_MAX (4u << 20)

/* Reads root/rel whole into *to (reset first), at most MRD_HW_FILE_MAX bytes. False: not readable;
 * errno says why. */
bool mrd_hw_read(const char *root, const char *rel, mrd_buf *to);
/* Takes the next line, or blank-separated word, off the front of *rest; an empty word is the end.
 */
bool mrd_hw_line(mrd_str *rest, mrd_str *ret_line);
mrd_str mrd_hw_word(mrd_str *rest);
/* A decimal; saturates at INT64_MAX; false on anything else. */
bool mrd_hw_int(mrd_str word, int64_t *ret_v);

#endif
