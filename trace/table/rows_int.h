/*
 * trace/table/rows_int.h - declarations shared by rows.c (events) and rows_end.c (tables at the
 * end). Private to trace/table/.
 */
#ifndef MRD_TRACE_TABLE_ROWS_INT_H
#define MRD_TRACE_TABLE_ROWS_INT_H

#include "trace/analysis/gather.h"
#include "trace/analysis/judge/verdict.h"
#include "trace/analysis/workers.h"
#include "trace/table/rows.h"
#include "trace/table/rows_hbm.h"

enum { NO_TABLE = -1, TRACK_FIELDS = F_TRACK_LAST - F_TRACK + 1 };

/* Texts in rows that the catalog does not contain, such as "span". */
typedef enum {
    WORD_SPAN,
    WORD_INSTANT,
    WORD_COMPUTE,
    WORD_COLLECTIVE,
    WORD_BARRIER,
    WORD_COPY,
    WORD_HOST,
    WORD_STEP,
    WORD_START,
    WORD_FLOW_STEP,
    WORD_END,
    WORD_SPANS,
    WORD_COUNTER,
    WORD_OK,
    WORD_INCOMPLETE,
    WORD_FAILED,
    WORD_SKIPPED,
    WORD_NONE,
    WORD_NOTHING,
    WORD_STILL,
    WORD_ABSENT,
    WORD_MORE_WORK,
    WORD_SOMETIMES,
    WORD_UNPROVEN,
    WORD_LATE,
    WORDS
} mrd_word;

/* Data about a worker that were collected from its events. */
typedef struct {
    /* begin of the worker's first device span, and end of the last; first > last if it has none */
    mrd_ev_ns first, last;
    uint64_t longest_ns; /* duration of the worker's longest device span, in ns */
} worker_seen;

/* A row of host memory. A process has two counters, used bytes and percent. Their samples at the
 * same time share a row. */
typedef struct {
    mrd_track_id track;
    mrd_proc_id process;
    double used, percent; /* values of the samples; negative if unknown */
    mrd_ev_ns ts;
} memory_row;

struct mrd_rows {
    const mrd_sink_env *env;
    const mrd_catalog *cat;
    const mrd_dialect *dialect;
    mrd_rows_fn *give;
    void *self;
    int table_of[MRD_ROWS_KINDS + 1];
    mrd_slot slots[F_COUNT];
    /* TRACK_FIELDS elements for each track: the values of F_TRACK to F_TRACK_LAST */
    mrd_slot *tracks;
    size_t n_tracks;
    /* Texts that the catalog lacks: first the texts of rows_word, then generated ones (sources,
     * units). Their SIDs begin after the catalog's SIDs. */
    mrd_strlist own;
    size_t n_catalog;
    /* indexed by SID: the column for arguments with this key, or MRD_ARG_COLUMNS */
    uint8_t *arg_column;
    mrd_workers *workers;
    worker_seen *seen;  /* indexed by worker */
    mrd_report *report; /* NULL if the dialect has no verdicts */
    mrd_gather *gather;
    bool *suspect; /* indexed by process: the process's clock is suspect */
    /* for each process: its clock has an error bound, so a bound of 0 means that a time is exact */
    bool *bounded;
    mrd_ev_ns *step_end; /* indexed by process: end of its latest counted step */
    int64_t *node;       /* indexed by process: number of its node */
    uint32_t n_groups;
    memory_row *memory;
    size_t n_memory, cap_memory;
    mrd_hbm *hbm; /* NULL if the dialect has no table of device memory */
    uint64_t events, collectives, other_samples;
    mrd_ev_ns first, last;
    bool any;
    mrd_buf text;
    char session[160], date[16];
    mrd_err err; /* first error while emitting the rows of a collective */
};

static inline mrd_sid
rows_word(const mrd_rows *rows, mrd_word word)
{
    return (mrd_sid) (rows->n_catalog + word);
}

/* Returns the SID of a text. Adds the text to rows->own if neither rows->own nor the catalog
 * contains it. Returns 0 for an empty text. Sets rows->err if out of memory. */
mrd_sid mrd_rows_own(mrd_rows *rows, const char *text);
/* Sets the fields of a row to their values for unknown. */
void mrd_rows_clear(mrd_slot slots[F_COUNT]);
void mrd_rows_identity(mrd_rows *rows, mrd_proc_id process);
mrd_err mrd_rows_give(mrd_rows *rows, mrd_rows_kind kind);
/* Returns true if a check of the clocks has found a contradiction since mrd_rows_new (see
 * mrd_proof_fell). */
bool mrd_rows_contradicted(const mrd_rows *rows);
/* Appends an argument to rows->text as a member of a JSON object. Writes '{' before the first
 * member and a comma before others. */
void mrd_rows_arg(mrd_rows *rows, const mrd_arg *arg);
/* Emits the rows of host memory for the current time. */
mrd_err mrd_rows_flush_memory(mrd_rows *rows);

#endif
