/*
 * trace/table/pq_ints.h - which form the integers of a column take in a Parquet file: deltas, deltas whose widths are whole
 * bytes (zstd finds in bytes what repeats and what is frequent), plain, or indexes into a sorted dictionary. For parquet.c.
 *
 * The form is the one of which a sample compresses best; it is kept for some row groups, since trying costs. Equal input
 * gives the same form. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PQ_INTS_H
#define MRD_TRACE_TABLE_PQ_INTS_H

#include "trace/table/pq_pages.h"

typedef enum {
    MRD_PQ_AS_DELTAS,
    MRD_PQ_AS_BYTE_DELTAS,
    MRD_PQ_AS_PLAIN,
    MRD_PQ_AS_INDEXES,
} mrd_pq_form;

/* Of one column: zeroed it is not known. */
typedef struct {
    mrd_pq_form form;
    unsigned groups; /* for so many more */
} mrd_pq_habit;

/* A dictionary, made by mrd_pq_ints_form where the form is MRD_PQ_AS_INDEXES. Zeroed: empty. */
typedef struct {
    uint32_t *slots;   /* a table */
    int64_t *entries;  /* in rising order */
    int64_t *as_found; /* in that of the rows */
    uint32_t *place;   /* of as_found among entries */
    uint32_t base;     /* slots up to it are of columns before */
    size_t n;
} mrd_pq_ints;

/* False without memory. */
bool mrd_pq_ints_init(mrd_pq_ints *t);
void mrd_pq_ints_fini(mrd_pq_ints *t);

/* The form of n (1 or more) values; ordered: they rise. index, with room for n, gets the entries where they are the form. */
mrd_pq_form mrd_pq_ints_form(mrd_pq_ints *t, mrd_pq_pages *p, mrd_pq_habit *habit, const int64_t *v,
                             size_t n, bool ordered, uint32_t *index);
/* Appends n values to p->page as they are. */
void mrd_pq_put_ints(mrd_pq_pages *p, const int64_t *v, size_t n);

#endif
