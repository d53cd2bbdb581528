/*
 * trace/table/pq_ints.h - chooses the form of a column's integers in a Parquet file, for parquet.c.
 * The forms are deltas, deltas with widths of whole bytes (in which zstd finds repeated and
 * frequent values), plain, and indexes into a sorted dictionary.
 *
 * The form in which a sample compresses best is chosen. It is used for some further row groups,
 * too, because trials are expensive. Equal input gives the same form. Threads: belongs to one
 * thread.
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

/* The form in which a column's integers are stored. A zeroed struct means that none was chosen
 * yet. */
typedef struct {
    mrd_pq_form form;
    unsigned groups; /* number of further row groups that reuse the form */
} mrd_pq_habit;

/* A dictionary of integers, filled by mrd_pq_ints_form for the form MRD_PQ_AS_INDEXES. A zeroed
 * struct is empty. */
typedef struct {
    uint32_t *slots;   /* hash table from values to entries */
    int64_t *entries;  /* the different values, sorted */
    int64_t *as_found; /* the different values, in order of first occurrence */
    uint32_t *place;   /* for each value in as_found: its index in `entries` */
    /* Slots with values up to `base` are left from earlier columns and count as empty. So the table
     * need not be cleared. */
    uint32_t base;
    size_t n;
} mrd_pq_ints;

/* Allocates a dictionary's memory. Returns false if out of memory. */
bool mrd_pq_ints_init(mrd_pq_ints *ints);
void mrd_pq_ints_fini(mrd_pq_ints *ints);

/* Chooses the form of `count` (at least 1) values. `ordered`: the values ascend. For
 * MRD_PQ_AS_INDEXES, also fills `index`, which has room for `count` entries, and the dictionary. */
mrd_pq_form mrd_pq_ints_form(mrd_pq_ints *ints, mrd_pq_pages *pages, mrd_pq_habit *habit,
                             const int64_t *values, size_t count, bool ordered, uint32_t *index);
/* Appends n values to p->page in the plain encoding. */
void mrd_pq_put_ints(mrd_pq_pages *p, const int64_t *v, size_t n);

#endif
