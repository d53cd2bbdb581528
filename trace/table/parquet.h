/*
 * trace/table/parquet.h - writes one Parquet file: flat columns, and lists of text.
 *
 * The file has row groups of data pages v1, compressed by zstd. Integers are stored as a
 * dictionary, as deltas or plain; a sample shows the shortest form. Texts have a dictionary if half
 * of them repeat. Indexes and deltas use whole bytes if this is shorter, since zstd finds
 * repetitions in bytes. Each page has a CRC. Each column chunk has the least and greatest value
 * with their order, and the number of nulls. Uncertain statistics are left out, because two readers
 * skip row groups by their statistics alone. Nothing is readable before the footer is written, so
 * every reader refuses a truncated file.
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
    MRD_PQ_FLOAT, /* stored as 32 bits; values are given as doubles */
    MRD_PQ_BOOL,  /* values are given as integers, 0 or 1 */
    MRD_PQ_TEXT,
    MRD_PQ_TEXTS, /* a list of texts, which is always optional */
} mrd_pq_type;

typedef struct {
    const char *name;
    mrd_pq_type type;
    bool optional;
} mrd_pq_column;

/* The values of a column in one row group. Members that its type does not need are NULL. */
typedef struct {
    const int64_t *i64; /* for I64 without index, and BOOL: one value per row */
    /* instead of i64, for an optional I64: only the values that are not null */
    const int64_t *kept;
    size_t n_kept;
    const double *d; /* for DOUBLE and FLOAT: one value per row */
    /* for I64 and TEXT: per row, the index of its value in `ints` or `texts` */
    const uint32_t *index;
    const int64_t *ints;  /* for I64 with index: the different values */
    const mrd_str *texts; /* for TEXT with index: the different texts */
    size_t entries;
    const uint32_t *
        /* for TEXT without index, the end of each row's text in `bytes`; for TEXTS, the end of each
         * element */
        ends;
    const uint8_t *bytes;
    /* number of elements of each row, for TEXTS. A row without elements is null. */
    const uint32_t *counts;
    /* for an optional column: 0 if the row is null, else 1. NULL means that no row is null. */
    const uint8_t *present;
    /* With index: a number from 1 to MRD_PQ_KEEPS under which the pages are kept for later columns.
     * 0 means that they are not kept. */
    unsigned keep;
    /* the `keep` number of an earlier column that has an equal index and present; 0 if there is
     * none */
    unsigned like;
} mrd_pq_values;

enum { MRD_PQ_KEEPS = 8 };

typedef struct mrd_pq mrd_pq;

/*
 * Begins a file of these columns in `out`. Both are borrowed until mrd_pq_close. Errors of writing
 * to `out` are returned when it is committed. `sorted_by` is the column by which rows are ordered,
 * or -1. Errors: NOMEM.
 */
mrd_err mrd_pq_open(mrd_out *out, const mrd_pq_column *columns, size_t n, int sorted_by,
                    mrd_pq **ret_pq, mrd_why *why);
/* Adds a pair of key and value to the file's metadata. */
void mrd_pq_note(mrd_pq *pq, mrd_str key, mrd_str value);
/* Sets the compression of the following row groups. If `small` is false, as it is initially, zstd's
 * level 1 is used. If it is true, level 15 is tried, too, and the shorter result is used. This
 * takes ten to thirty times the time. */
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
