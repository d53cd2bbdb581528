/*
 * trace/table/schema.h - defines the tables of a profile. There is one list of all fields that rows
 * can have. Two dialects select fields from it as columns, and name them:
 *
 *   meridian   events, counters, flows, losses, steps, collectives, collective_groups, workers,
 *     processes, tracks, models, clocks, verdicts, inputs, facts. Only an argument that an event
 *     does not have is null. Other unknown values are -1 and ''. Times are nanoseconds of the
 *     session. bound_ns is the largest error of a time, -1 if unknown
 *   explorer   the vendor's system-profile tables of schema 7.4.0, with its names and types
 *
 * To add a table or column, add a row here. Threads: static.
 */
#ifndef MRD_TRACE_TABLE_SCHEMA_H
#define MRD_TRACE_TABLE_SCHEMA_H

#include "trace/model/arg_keys.h"
#include "trace/model/event.h"
#include "trace/table/hbm_columns.h"

/* The fields that rows may have. F_TRACK to F_TRACK_LAST have the same value in all rows of a
 * track. */
typedef enum {
    F_ROW,
    F_TS,
    F_DUR,
    F_END,
    F_BOUND,
    F_KIND,
    F_NAME,
    F_CATEGORY,
    F_ACTIVITY,
    F_ID,
    F_NO_START,
    F_SIMULATED,
    F_ARGS,
    F_FLOWS,
    F_FLOW_ID,
    F_FLOW_DIR,
    F_VALUE,
    F_VALUE_INT,
    F_IS_INT,
    F_LOST,
    F_ARG_FIRST, /* one field for each argument with its own column, in the order of mrd_arg_key */
    F_ARG_LAST = F_ARG_FIRST + MRD_KEY_LAST_COLUMN,
    F_ARG_SET, /* not a column: bit mask that tells which of these arguments the event has */
    F_TRACK,
    F_SOURCE,
    F_VENDOR_SOURCE,
    F_TRACK_NAME,
    F_UNIT,
    F_PROC,
    F_INSTANCE,
    F_PID,
    F_RANK,
    F_WORKER_GID,
    F_WORKER,
    F_LNC,
    F_PCORE,
    F_DEVICE,
    F_TID,
    F_CLOCK,
    F_NODE,
    F_JOB,
    F_SESSION,
    F_CPU_ID,
    F_TRACK_LAST = F_CPU_ID,
    F_TRACK_KIND,
    F_STEP,
    F_STEP_COUNTS,
    F_COLLECTIVE,
    F_GROUP,
    F_SIZE,
    F_MEMBERS,
    F_PARTS,
    F_TAKERS,
    F_CONTRADICTED,
    F_POS,
    F_MAPPING,
    F_SUSPECT,
    F_CONTAINER_PID,
    F_POD,
    F_LABELS,
    F_WORLD,
    F_IS_NODE,
    F_MODEL_KEY,
    F_NC,
    F_MODEL_SESSION,
    F_PATH,
    F_SHA256,
    F_BYTES,
    F_TOTAL_NS,
    F_QUALITY,
    F_METHOD,
    F_ESTIMATE,
    F_NOISE,
    F_EPOCHS,
    F_VIOLATIONS,
    F_STATE,
    F_ERROR,
    F_RECORDS,
    F_EVENTS,
    F_UNFINISHED,
    F_DROPPED,
    F_KEY,
    F_TEXT,
    F_FIRST,
    F_LAST,
    /* one field for each part of a worker's time, in ns, in the order of mrd_report_part */
    F_PART_FIRST,
    F_PART_LAST = F_PART_FIRST + 7,
    F_TOOK_PART,
    F_LAST_N,
    F_PROVEN_N,
    F_ALONE_NS,
    F_ALONE_WAIT_NS,
    F_CAUSED_NS,
    F_PROVEN_NS,
    F_WAIT_NS,
    F_VERDICT,
    F_SHARE,
    F_IMPACT,
    F_USED_BYTES,
    F_USED_PERCENT,
    F_FIRST_TEXT,
    F_LAST_TEXT,
    F_FIRST_NS_TEXT,
    F_LAST_NS_TEXT,
    F_VERSION,
    F_HBM,
    F_HBM_INDEX,
    F_HBM_TOTAL,
    /* one field for each category of device memory, in bytes, in the order of MRD_HBM_COLUMNS */
    F_HBM_FIRST,
    F_HBM_LAST = F_HBM_FIRST + MRD_HBM_CATEGORIES - 1,
    F_MESSAGE,
    F_SCHEMA_TABLE,
    F_SCHEMA_TABLE_WHAT,
    F_SCHEMA_FIELD,
    F_SCHEMA_FIELD_WHAT,
    F_SCHEMA_TYPE,
    F_SCHEMA_REQUIRED,
    F_SCHEMA_FORMAT,
    F_SCHEMA_UNIT,
    F_SCHEMA_EXAMPLE,
    F_SCHEMA_VALUES,
    F_SCHEMA_LEAST, /* the fields from here on are doubles; NaN means that the row has no value */
    F_SCHEMA_MOST,
    F_NONE, /* a column of the dialect that never has a value */
    F_COUNT
} mrd_field;

typedef enum {
    MRD_COL_I64,
    MRD_COL_DOUBLE,
    MRD_COL_FLOAT,
    MRD_COL_BOOL,
    MRD_COL_SID,   /* a text stored once, for texts that repeat often */
    MRD_COL_TEXT,  /* a text stored with its row, for texts that rarely repeat */
    MRD_COL_FLOWS, /* a list of texts: the ids of the event's arrows */
} mrd_col_type;

/* One cell of a row. The text of `sid` is returned by mrd_rows_text. */
typedef union {
    int64_t i;
    double d;
    mrd_sid sid;
    struct {
        const char *p;
        size_t len;
    } text;
    struct {
        const mrd_flow *v;
        size_t n;
    } flows;
} mrd_slot;

typedef struct {
    const char *name;
    mrd_col_type type;
    mrd_field field;
    /* the values -1, '' and NaN mean unknown and are written as null; F_NONE is always null */
    bool optional;
    const char *unit, *what;
} mrd_column;

/* The kind of rows that a table has. */
typedef enum {
    MRD_ROWS_EVENTS,
    MRD_ROWS_COUNTERS,
    MRD_ROWS_FLOWS,
    MRD_ROWS_LOSSES,
    MRD_ROWS_STEPS,
    MRD_ROWS_PARTS,
    MRD_ROWS_GROUPS,
    MRD_ROWS_WORKERS,
    MRD_ROWS_PROCESSES,
    MRD_ROWS_TRACKS,
    MRD_ROWS_MODELS,
    MRD_ROWS_CLOCKS,
    MRD_ROWS_INPUTS,
    MRD_ROWS_FACTS,
    MRD_ROWS_VERDICTS,
    MRD_ROWS_CPU,
    MRD_ROWS_MEMORY,
    MRD_ROWS_HBM,
    MRD_ROWS_METADATA,
    MRD_ROWS_DEVICE_PROFILES,
    MRD_ROWS_SCHEMA,
    MRD_ROWS_WARNINGS,
    MRD_ROWS_NONE, /* a table of the vendor that we always leave empty */
    MRD_ROWS_KINDS = MRD_ROWS_NONE
} mrd_rows_kind;

typedef struct {
    const char *name;
    mrd_rows_kind rows;
    const mrd_column *columns;
    size_t n;
    int sorted_by; /* index of the column that orders the rows; -1 if none */
    const char *what;
} mrd_table_def;

typedef struct mrd_dialect {
    const char *name, *version;
    const mrd_table_def *tables;
    size_t n;
    bool promote; /* true: an argument with its own column is not repeated in the column args */
} mrd_dialect;
enum { MRD_SCHEMA_COLUMNS = 250 }; /* maximum number of columns in a table */
extern const mrd_dialect mrd_dialect_meridian, mrd_dialect_explorer;

#endif
