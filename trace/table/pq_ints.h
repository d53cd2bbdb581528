/*
 * trace/table/pq_ints.h - chooses the form of a column's integers in a Parquet file, for parquet.c.
 * The forms are deltas, deltas with widths of whole bytes (in which zstd finds repeated and
 * frequent values), plain, and indexes into a sorted dictionary.
 *
 * The form is chosen for which a sample compresses best. It is kept for some row groups, because
 * trials are expensive. Equal input gives the same form. Threads: belongs to one thread.
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

/* The present form of one column. Zeroed means unknown. */
typedef struct {
    mrd_pq_form form;
    unsigned groups; /* row groups for which it is kept */
} mrd_pq_habit;

/* A dictionary, filled by mrd_pq_ints_form for the form MRD_PQ_AS_INDEXES. Zeroed means empty. */
typedef struct {
    uint32_t *slots;   /* a hash table */
    int64_t *entries;  /* in ascending order */
    int64_t *as_found; /* in order of their first rows */
    uint32_t *place;   /* index of each as_found in entries */
    uint32_t base;     /* slots up to this value are of earlier columns */
    size_t n;
} mrd_pq_ints;

/* Returns false if out of memory. */
bool mrd_pq_ints_init(mrd_pq_ints *ints);
void mrd_pq_ints_fini(mrd_pq_ints *ints);

/* Returns the form of count (1 or more) values. `ordered` means that they ascend. `index` has room for
 * count; it is filled if the form is MRD_PQ_AS_INDEXES. */
mrd_pq_form mrd_pq_ints_form(mrd_pq_ints *ints, mrd_pq_pages *pages, mrd_pq_habit *habit,
                             const int64_t *int64, size_t count, bool ordered, uint32_t *index);
/* Appends n values to p->page without encoding. */
void mrd_pq_put_ints(mrd_pq_pages *p, const int64_t *v, size_t n);

#endif
