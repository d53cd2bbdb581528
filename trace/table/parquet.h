/*
 * trace/table/parquet.h - writes one Parquet file: flat columns, and lists of text.
 *
 * The file has row groups of data pages v1, compressed by zstd. Integers are stored as a
 * dictionary, as deltas or plain; a sample shows the shortest form. Texts have a dictionary if half
 * of them repeat. Indexes and deltas use whole bytes if this is shorter, since zstd finds
 * repetitions in bytes. Each page has a CRC. Each column chunk has the least and greatest value
 * with their order, and the number of nulls. Statistics that may be inexact are left out, because
 * some readers skip row groups by their statistics alone. Nothing is readable before the footer is
 * written, so every reader refuses a truncated file.
 *
 * Nulls    only optional columns have nulls, which `present` marks.
 * Output   the same input gives the same bytes with the same build.
 * Memory   one column of one row group, and the compressed pages of MRD_PQ_KEEPS columns.
 * Threads  belongs to one thread.
 * Source   parquet.thrift and Encodings.md of the format. docs/reference/data.md lists the readers.
 */
#ifndef MRD_TRACE_PARQUET_H
#define MRD_TRACE_PARQUET_H

#include "base/sys/out.h"

typedef enum {
    MRD_PQ_I64,
    MRD_PQ_DOUBLE,
    MRD_PQ_FLOAT, /* stored as 32 bits; the caller passes doubles in `d` */
    MRD_PQ_BOOL,  /* the caller passes 0 or 1 in `i64` */
    MRD_PQ_TEXT,
    MRD_PQ_TEXTS, /* a list of texts per row; always optional */
} mrd_pq_type;

typedef struct {
    const char *name;
    mrd_pq_type type;
    bool optional;
} mrd_pq_column;

/* The values of one column in one row group. Members that the column's type does not use are
 * NULL. */
typedef struct {
    const int64_t *i64; /* I64 without `index`, and BOOL: one value per row */
    /* optional I64, instead of i64: the values of the rows that are not null */
    const int64_t *kept;
    size_t n_kept;
    const double *d; /* DOUBLE and FLOAT: one value per row */
    /* I64 and TEXT with a dictionary: for each row, the index of its value in `ints` or `texts` */
    const uint32_t *index;
    const int64_t *ints;  /* I64 with `index`: the dictionary */
    const mrd_str *texts; /* TEXT with `index`: the dictionary */
    size_t entries;
    const uint32_t *
        /* TEXT without `index`: where each row's text ends in `bytes`. TEXTS: where each list
         * element ends. */
        ends;
    const uint8_t *bytes;
    /* TEXTS: number of list elements of each row. 0 makes the row null. */
    const uint32_t *counts;
    /* optional columns: 0 for a null row, 1 for a value. NULL if no row is null. */
    const uint8_t *present;
    /* With `index`: number of a slot, 1 to MRD_PQ_KEEPS, in which the column's encoded pages are
     * stored for later columns. 0 stores nothing. */
    unsigned keep;
    /* Slot of an earlier column with the same `index` and `present` (see `keep`). Its pages are
     * written again for this column. 0 if there is none. */
    unsigned like;
} mrd_pq_values;

enum { MRD_PQ_KEEPS = 8 };

typedef struct mrd_pq mrd_pq;

/*
 * Begins a file with these columns in `out`. Both are borrowed until mrd_pq_close. Write errors of
 * `out` show up when it is committed. `sorted_by` is the index of the column that orders the rows,
 * or -1. Errors: NOMEM.
 */
mrd_err mrd_pq_open(mrd_out *out, const mrd_pq_column *columns, size_t n, int sorted_by,
                    mrd_pq **ret_pq, mrd_why *why);
/* Adds a pair of key and value to the file's metadata. */
void mrd_pq_note(mrd_pq *pq, mrd_str key, mrd_str value);
/* Sets the compression of the following row groups. Initially `small` is false, which means zstd
 * level 1. With `small`, level 15 is tried as well and the shorter result is written. That takes 10
 * to 30 times as long. */
void mrd_pq_small(mrd_pq *pq, bool small);
/* Write one row group of `rows` rows (1 or more). Call mrd_pq_begin, then mrd_pq_add for each
 * column in order, then mrd_pq_end. `values` is used only during the call. mrd_pq_end returns the
 * first failure. Errors: NOMEM. */
void mrd_pq_begin(mrd_pq *pq, size_t rows);
void mrd_pq_add(mrd_pq *pq, const mrd_pq_values *values);
mrd_err mrd_pq_end(mrd_pq *pq);
/* Writes the footer if no earlier call failed, and frees pq. Errors: NOMEM. Ignores NULL. */
mrd_err mrd_pq_close(mrd_pq *pq);
/* Frees pq without writing a footer, so that the file is not readable. Ignores NULL. */
void mrd_pq_drop(mrd_pq *pq);

#endif
