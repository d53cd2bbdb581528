/*
 * trace/table/rows_hbm.h - converts samples of device memory (counters hbm.<index>.<category>) to
 * rows of the vendor's table. A row states how many bytes of one device memory all processes of a
 * node use, by category. There is one row for each time at which the memory has a sample. Private
 * to trace/table/.
 *
 * Samples of equal time give one row per memory. Categories without a column are in the last
 * column, unknown. If no sample states the total, it is the sum of the categories.
 */
#ifndef MRD_TRACE_TABLE_ROWS_HBM_H
#define MRD_TRACE_TABLE_ROWS_HBM_H

#include "trace/model/catalog.h"
#include "trace/model/event.h"
#include "trace/table/schema.h"

typedef struct {
    mrd_proc_id process; /* any process of the row's node */
    int64_t device, index;
    mrd_ev_ns at;
    /* bytes has one entry per column, in the order of MRD_HBM_COLUMNS */
    int64_t total, bytes[MRD_HBM_CATEGORIES];
} mrd_hbm_row;

/* Receives a row of device memory, which is valid only during the call. */
typedef mrd_err mrd_hbm_fn(void *self, const mrd_hbm_row *row);

typedef struct mrd_hbm mrd_hbm;

/* Creates a converter. `cat` must outlive it. NULL if out of memory. */
mrd_hbm *mrd_hbm_new(const mrd_catalog *cat, mrd_hbm_fn *give, void *self);
void mrd_hbm_free(mrd_hbm *hbm); /* NULL is allowed */
/* Returns true if the name belongs to a counter of device memory. */
bool mrd_hbm_is(mrd_str counter);
/* Adds a sample of a counter. If it is later than the previous samples, first emits the rows for
 * those. Errors: NOMEM and the errors of `give`. */
mrd_err mrd_hbm_add(mrd_hbm *hbm, const mrd_event *ev, double bytes);
/* Emits the rows of the last samples. */
mrd_err mrd_hbm_flush(mrd_hbm *hbm);

#endif
