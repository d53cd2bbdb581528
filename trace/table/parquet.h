/*
 * trace/table/parquet.h - writes one Parquet file: flat columns, and lists of text.
 *
 * The file     row groups of data pages v1, zstd. Integers: a dictionary, deltas or plain, whichever a sample shows to be the
 *              shortest; texts: a dictionary where half of them repeat. Indexes and deltas take whole bytes where that is
 *              shorter, since zstd finds what repeats in bytes. The CRC of each page; least and greatest value and the number
 *              of nulls of each column chunk, with the order they are meant in. A statistic that is not
 *              sure is left out: two readers skip row groups by it without looking. Nothing is readable
 *              before the footer is there, so a cut file is refused by every reader.
 * Nulls        in optional columns only, by `present`.
 * Same input   gives the same bytes with the same build.
 * Memory       one column of one row group, and the packed pages of MRD_PQ_KEEPS. Threads: belongs to one thread.
 * Source       parquet.thrift and Encodings.md of the format; docs/data.md says who reads what.
 */
#ifndef MRD_TRACE_PARQUET_H
#define MRD_TRACE_PARQUET_H

#include "base/out.h"

typedef enum {
    MRD_PQ_I64,
    MRD_PQ_DOUBLE,
    MRD_PQ_FLOAT, /* given as doubles */
    MRD_PQ_BOOL,  /* given as integers, 0 or 1 */
    MRD_PQ_TEXT,
    MRD_PQ_TEXTS, /* a list of text; optional */
} mrd_pq_type;

typedef struct {
    const char *name;
    mrd_pq_type type;
    bool optional;
} mrd_pq_column;

/* The values of a column in one row group; what its type does not need is NULL. */
typedef struct {
    const int64_t *i64;  /* I64 without index, BOOL: one for each row */
    const int64_t *kept; /* I64, optional, instead of i64: those of the rows that have one */
    size_t n_kept;
    const double *d;       /* DOUBLE, FLOAT */
    const uint32_t *index; /* I64, TEXT: one for each row, into the entries below */
    const int64_t *ints;   /* I64 entries */
    const mrd_str *texts;  /* TEXT entries, all different */
    size_t entries;
    const uint32_t *
        ends; /* TEXT without index: the end of each row's bytes in `bytes`; TEXTS: of each element */
    const uint8_t *bytes;
    const uint32_t *counts; /* TEXTS: elements of each row; a row without any is null */
    const uint8_t *present; /* optional: 1, 0 for null; NULL: none is */
    unsigned keep;          /* with index: 1 to MRD_PQ_KEEPS, what `like` of later columns says */
    unsigned like; /* index and present are those of the column that kept this; 0: not told */
} mrd_pq_values;

enum { MRD_PQ_KEEPS = 8 };

typedef struct mrd_pq mrd_pq;

/*
 * A file of these columns (borrowed until close) into `out` (borrowed; errors of it are found at its
 * commit). sorted_by: the column rows come in the order of; -1: none. Errors: NOMEM.
 */
mrd_err mrd_pq_open(mrd_out *out, const mrd_pq_column *columns, size_t n, int sorted_by,
                    mrd_pq **ret_pq, mrd_why *why);
/* What readers find beside the data. */
void mrd_pq_note(mrd_pq *pq, mrd_str key, mrd_str value);
/* Row groups from here on: compressed at zstd's level 15 where that is shorter, at ten to thirty times the cost, or at 1 (so at first). */
void mrd_pq_small(mrd_pq *pq, bool small);
/* One row group of `rows` (1 or more): begin, add for each column in order (written when it returns), end,
 * which tells of failures. Errors: NOMEM. */
void mrd_pq_begin(mrd_pq *pq, size_t rows);
void mrd_pq_add(mrd_pq *pq, const mrd_pq_values *values);
mrd_err mrd_pq_end(mrd_pq *pq);
/* Writes the footer unless something failed before, and frees. Errors: NOMEM. NULL is fine. */
mrd_err mrd_pq_close(mrd_pq *pq);
/* Frees, without a footer: a file that nobody may read. NULL is fine. */
void mrd_pq_drop(mrd_pq *pq);

#endif
