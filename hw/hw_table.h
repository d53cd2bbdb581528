/*
 * hw/hw_table.h - the list of counters of one backend, with the newest value of each.
 *
 * The list only grows to at most MRD_HW_COUNTERS_MAX, and the index of a counter never changes.
 * Threads: one at a time.
 */
#ifndef MRD_HW_HW_TABLE_H
#define MRD_HW_HW_TABLE_H

#include "hw/hw.h"

#include "base/index.h"

typedef struct {
    mrd_hw_counter counter;
    mrd_hw_value value;
    /* number that the backend chose, for finding the row without its name; 0 if none */
    uint64_t key;
    uint64_t round; /* number of the sampling (mrd_hw_table.round) that set the value */
} mrd_hw_row;

typedef struct {
    mrd_hw_row *rows;
    size_t n, cap;
    mrd_index by_name, by_key;
    uint64_t round;   /* number of the current sampling */
    uint64_t refused; /* number of counters that were dropped because the list was full */
} mrd_hw_table;

#define MRD_HW_NO_ROW SIZE_MAX

void mrd_hw_table_fini(mrd_hw_table *table);
/* Returns MRD_HW_NO_ROW if there is no such counter. */
size_t mrd_hw_table_find(const mrd_hw_table *table, mrd_str name);
size_t mrd_hw_table_find_key(const mrd_hw_table *table, uint64_t key);
/* Returns the row of the counter with this name, and adds the row if it is new. With key 0 the row
 * can be found only by name. Returns MRD_HW_NO_ROW if the list is full or out of memory. */
size_t mrd_hw_table_add(mrd_hw_table *table, const mrd_hw_counter *counter, uint64_t key);
/* Removes the row that was just added. For a backend that is out of memory for its own data of the
 * row. */
void mrd_hw_table_drop_last(mrd_hw_table *table);
/* Sets a value in the current sampling. */
void mrd_hw_table_set_i(mrd_hw_table *table, size_t row, int64_t v, mrd_local_ns at);
void mrd_hw_table_set_d(mrd_hw_table *table, size_t row, double v, mrd_local_ns at);
/* Copies the values of the wanted rows. A row that received no value in the current sampling gets
 * the state GONE. */
void mrd_hw_table_take(const mrd_hw_table *table, const uint32_t *want, size_t n,
                       mrd_hw_value *ret_values, mrd_local_ns at);

/* ---- Reading small files and splitting their text ---- */

#define MRD_HW_FILE_MAX (4u << 20)

/* Reads the file root/rel, at most MRD_HW_FILE_MAX bytes, into *to, and discards the earlier
 * contents of *to. Returns false and sets errno if the file cannot be read. */
bool mrd_hw_read(const char *root, const char *rel, mrd_buf *to);
/* mrd_hw_line takes the next line, and mrd_hw_word the next word between spaces, from the front of
 * *rest. An empty word means that there are no more words. */
bool mrd_hw_line(mrd_str *rest, mrd_str *ret_line);
mrd_str mrd_hw_word(mrd_str *rest);
/* Parses a decimal number. A number that is too large becomes INT64_MAX. Returns false for other
 * text. */
bool mrd_hw_int(mrd_str word, int64_t *ret_v);

#endif
