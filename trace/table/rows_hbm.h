/*
 * trace/table/rows_hbm.h - samples of device memory (counters hbm.<index>.<category>) as the vendor's table has
 * them: what all processes of a node use of one memory, by category, whenever a sample changes it. Inside
 * trace/table/ only.
 *
 * Samples of one time make one row of each memory. Categories that the table has no column for are in its last,
 * unknown; a total that nobody states is the sum of the others.
 */
#ifndef MRD_TRACE_TABLE_ROWS_HBM_H
#define MRD_TRACE_TABLE_ROWS_HBM_H

#include "trace/model/catalog.h"
#include "trace/model/event.h"
#include "trace/table/schema.h"

typedef struct {
    mrd_proc_id process; /* one of its node */
    int64_t device, index;
    mrd_ev_ns at;
    int64_t total, bytes[MRD_HBM_CATEGORIES]; /* in the order of MRD_HBM_COLUMNS */
} mrd_hbm_row;

/* A row; borrowed for the call. */
typedef mrd_err mrd_hbm_fn(void *self, const mrd_hbm_row *row);

typedef struct mrd_hbm mrd_hbm;

/* The catalog outlives it. NULL: no memory. */
mrd_hbm *mrd_hbm_new(const mrd_catalog *cat, mrd_hbm_fn *give, void *self);
void mrd_hbm_free(mrd_hbm *h); /* NULL is fine */
/* Whether the counter is one of them. */
bool mrd_hbm_is(mrd_str counter);
/* One sample; gives the rows of an earlier time. Errors: NOMEM and those of give. */
mrd_err mrd_hbm_add(mrd_hbm *h, const mrd_event *ev, double bytes);
/* Gives what is left. */
mrd_err mrd_hbm_flush(mrd_hbm *h);

#endif
