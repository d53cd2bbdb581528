/*
 * hw/hw_table.h - the list of counters of a backend, with the last value of each. It only grows,
 * and the index of a name never changes. Limited to MRD_HW_COUNTERS_MAX. One thread.
 */
#ifndef MRD_HW_HW_TABLE_H
#define MRD_HW_HW_TABLE_H

#include "hw/hw.h"

#include "base/index.h"

typedef struct {
    mrd_hw_counter counter;
    mrd_hw_value value;
    uint64_t key;   /* a number chosen by the backend, to find the row without its name */
    uint64_t round; /* the sampling that set the value */
} mrd_hw_row;

typedef struct {
    mrd_hw_row *rows;
    size_t n, cap;
    mrd_index by_name, by_key;
    uint64_t round;   /* number of the current sampling */
    uint64_t refused; /* counters that were dropped because the list is full */
} mrd_hw_table;

#define MRD_HW_NO_ROW SIZE_MAX

void mrd_hw_table_fini(mrd_hw_table *table);
size_t mrd_hw_table_find(const mrd_hw_table *table, mrd_str name); /* MRD_HW_NO_ROW */
size_t mrd_hw_table_find_key(const mrd_hw_table *table, uint64_t key);
/* Returns the row of counter->name, and adds it if it is new. With key 0 the row cannot be found by
 * key. MRD_HW_NO_ROW if the list is full or memory runs out. */
size_t mrd_hw_table_add(mrd_hw_table *table, const mrd_hw_counter *counter, uint64_t key);
/* Removes the last row, if its backend could not allocate its own data for it. */
void mrd_hw_table_drop_last(mrd_hw_table *table);
/* Sets a value in the current sampling. */
void mrd_hw_table_set_i(mrd_hw_table *table, size_t row, int64_t v, mrd_local_ns at);
void mrd_hw_table_set_d(mrd_hw_table *table, size_t row, double v, mrd_local_ns at);
/* Copies the results of the current sampling. Rows without a result are GONE. */
void mrd_hw_table_take(const mrd_hw_table *table, const uint32_t *want, size_t n,
                       mrd_hw_value *ret_values, mrd_local_ns at);

/* ---- Small files under a root, and words in them ---- */

#define MRD_HW_FILE_MAX (4u << 20)

/* Reads the file root/rel, at most MRD_HW_FILE_MAX bytes, into *to, which is reset first. Returns
 * false with errno if it cannot be read. */
bool mrd_hw_read(const char *root, const char *rel, mrd_buf *to);
/* Take the next line, or the next word between spaces, from the front of *rest. An empty word means
 * the end. */
bool mrd_hw_line(mrd_str *rest, mrd_str *ret_line);
mrd_str mrd_hw_word(mrd_str *rest);
/* Parses a decimal number; saturates at INT64_MAX. False for anything else. */
bool mrd_hw_int(mrd_str word, int64_t *ret_v);

#endif
