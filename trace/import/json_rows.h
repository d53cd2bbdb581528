/*
 * trace/import/json_rows.h - reads the rows of exported profiles, which are flat JSON objects. Some
 * keys have a meaning, all others become arguments. Shared by device/import_sysprof.c and
 * device/import_devprof.c.
 *
 * A value of the wrong type for its field becomes an argument, so no row is rejected here.
 * Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_JSON_ROWS_H
#define MRD_TRACE_JSON_ROWS_H

#include "trace/import/import.h"
#include "trace/json/args.h"

typedef enum {
    /* The values up to MRD_ROW_PERCENT are kept as texts. A time is a text because another key may
     * state its unit later in the row. */
    MRD_ROW_TIMESTAMP,
    MRD_ROW_DURATION,
    MRD_ROW_VALUE, /* a number as text, like the next two fields */
    MRD_ROW_USED,
    MRD_ROW_PERCENT,
    MRD_ROW_TEXTS,
    /* the fields from here to MRD_ROW_INTS are integers, which may be in quotes */
    MRD_ROW_PROCESS = MRD_ROW_TEXTS,
    MRD_ROW_THREAD,
    MRD_ROW_LNC,
    MRD_ROW_NC,
    MRD_ROW_PCORE,
    MRD_ROW_DEVICE,
    MRD_ROW_HBM,
    MRD_ROW_WORKER,
    MRD_ROW_TYPE,
    MRD_ROW_PARENT,
    MRD_ROW_SCOPE,
    MRD_ROW_LOST,
    MRD_ROW_INTS,
    /* the fields from here to MRD_ROW_SIDS are strings, which are interned */
    MRD_ROW_NAME = MRD_ROW_INTS,
    MRD_ROW_TIME_UNIT,
    MRD_ROW_INSTANCE,
    MRD_ROW_PROCESS_NAME, /* process_id, if it is not a number */
    MRD_ROW_GROUP,
    MRD_ROW_SOURCE,
    /* Meridian's name of the source of an event. MRD_ROW_SOURCE has the vendor's name of it. */
    MRD_ROW_OWN_SOURCE,
    MRD_ROW_CATEGORY,
    MRD_ROW_TRACK,
    MRD_ROW_KIND,
    MRD_ROW_CPU,
    MRD_ROW_UNIT,
    MRD_ROW_UNIT_NAME,
    MRD_ROW_SIDS,
    MRD_ROW_UNFINISHED = MRD_ROW_SIDS, /* the fields from here to MRD_ROW_BOOLS are true or false */
    MRD_ROW_NO_START,
    MRD_ROW_SIMULATED,
    MRD_ROW_NODE,
    MRD_ROW_OWN_PROCESS,
    MRD_ROW_BOOLS,
    MRD_ROW_ID = MRD_ROW_BOOLS, /* an unsigned integer */
    MRD_ROW_BOUND,              /* an unsigned integer; null means unknown */
    MRD_ROW_FLOW_ID,            /* an array of unsigned integers, in quotes or not */
    MRD_ROW_FLOW_DIR,           /* an array of "start", "step", "end" */
    MRD_ROW_ARGS,               /* an object that contains arguments */
    MRD_ROW_NUMBER_ARG,         /* an argument that is a number, also in quotes */
    MRD_ROW_FIELDS,
} mrd_row_field;

typedef struct {
    const char *key;
    mrd_row_field field;
} mrd_row_key;

/* Maximum length of a value that is kept as text, in bytes. A longer value becomes an argument. */
#define MRD_ROW_TEXT_MAX 64
#define MRD_ROW_FLOWS    255

typedef struct {
    uint64_t has; /* bit N is set if the row has the mrd_row_field N */
    uint64_t offset;
    char text[MRD_ROW_TEXTS][MRD_ROW_TEXT_MAX];
    uint8_t text_len[MRD_ROW_TEXTS];
    int64_t number[MRD_ROW_INTS - MRD_ROW_TEXTS];
    mrd_sid sid[MRD_ROW_SIDS - MRD_ROW_INTS];
    bool flag[MRD_ROW_BOOLS - MRD_ROW_SIDS];
    uint64_t id;
    uint32_t bound_ns;
    uint64_t flow_id[MRD_ROW_FLOWS];
    uint8_t flow_dir[MRD_ROW_FLOWS];
    /* flow_taken[i] is true if flow_id[i], the id of a flow arrow, is valid */
    bool flow_taken[MRD_ROW_FLOWS];
    size_t n_flow_ids, n_flow_dirs, flows_refused;
    mrd_args *args; /* arguments of the row; cleared for each row */
} mrd_json_row;

static inline bool
mrd_row_has(const mrd_json_row *row, mrd_row_field field)
{
    return row->has >> field & 1;
}
static inline int64_t
mrd_row_number(const mrd_json_row *row, mrd_row_field field)
{
    return mrd_row_has(row, field) ? row->number[field - MRD_ROW_TEXTS] : MRD_NONE;
}
static inline mrd_sid
mrd_row_sid(const mrd_json_row *row, mrd_row_field field)
{
    return mrd_row_has(row, field) ? row->sid[field - MRD_ROW_INTS] : MRD_SID_EMPTY;
}
static inline bool
mrd_row_flag(const mrd_json_row *row, mrd_row_field field)
{
    return mrd_row_has(row, field) && row->flag[field - MRD_ROW_SIDS];
}
static inline mrd_str
mrd_row_text(const mrd_json_row *row, mrd_row_field field)
{
    return (mrd_str){ row->text[field], mrd_row_has(row, field) ? row->text_len[field] : 0 };
}

/*
 * Reads the members of a row. The reader must have entered the row's object. `keys` ends with a
 * NULL key. Errors: NOMEM and the errors of the reader.
 */
mrd_err mrd_row_read(mrd_json_row *row, mrd_json_reader *reader, const mrd_row_key *keys,
                     mrd_strtab *strings);
/*
 * Reads an array of rows. The last token of the reader must be the begin of the array. Calls
 * row(self) for each object, counts other elements as dropped, and resumes after damaged text.
 * Messages call the array `section`. Errors: errors of the reader and of row().
 */
mrd_err mrd_rows_read(mrd_import *imp, mrd_json_reader *reader, mrd_str section,
                      mrd_err (*row)(void *self), void *self);
/* Sets the event's sample from a number: an integer if possible, else a double. Returns false if it
 * is out of range. */
bool mrd_row_sample(mrd_str number, mrd_event *ev);
/* Sets the kind (SPAN or INSTANT), flags, bound, id and category of the event from the row. Sets
 * dur_ns of instants and unfinished spans. */
void mrd_row_marks(const mrd_json_row *row, const mrd_strtab *strings, mrd_event *ev);
/* Stores the arrows of the row in `flows`, which must have room for MRD_ROW_FLOWS. Mixes their ids
 * with the number of the input. Returns the number of arrows. Counts invalid ids (except null) and
 * ids beyond the limit as dropped. */
uint8_t mrd_row_flows(mrd_import *imp, const mrd_json_row *row, mrd_flow *flows);

#endif
