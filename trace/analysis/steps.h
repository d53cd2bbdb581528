/*
 * trace/analysis/steps.h - what each operation costs per training step, as a short series over the
 * recording: what `meridian diff` compares between runs.
 *
 * Step      a span "step", "step 12", "ProfilerStep#12" and the like of a process; one inside another
 *           of its process is not counted. Steps are numbered per process from 0. What begins within
 *           a step belongs to it; what begins between steps is counted as outside.
 * Operation kind, name and size. Time is that of all its spans in a step. In a collective whose parts
 *           met (trace/analysis/gather.h) the time until the last had come is `waiting`, the rest is
 *           the collective's own.
 * Part      for each worker and step, the account of trace/analysis/worker_time.h: parts add up to
 *           the step.
 * Block     the series has at most MRD_STEPS_BLOCKS values, each the sum over `width` steps. When a
 *           recording has more, neighbours are added up and width doubles: memory does not grow with
 *           the recording.
 * Without any step the series of an operation is over its own calls instead (`by_call`), with a width
 * of its own; parts and outside are then empty.
 *
 * Memory   MRD_STEPS_ROWS operations at most, half of them of the host; the time of the rest is in
 *          one row of its kind without a name. MRD_STEPS_PLACES pairs of operation and process.
 * Threads  belongs to one thread.
 * Source   sums over fixed numbers of neighbours are "batch means" (Law and Carson).
 */
#ifndef MRD_TRACE_STEPS_H
#define MRD_TRACE_STEPS_H

#include "trace/analysis/worker_time.h"

#define MRD_STEPS_BLOCKS 256u
#define MRD_STEPS_ROWS   4096u
#define MRD_STEPS_PLACES 65536u

typedef enum {
    MRD_OP_COMPUTE,    /* device spans that are none of the next */
    MRD_OP_COLLECTIVE, /* of a collective, from the last one's begin */
    MRD_OP_WAITING,    /* of a collective, for the last to begin; barriers */
    MRD_OP_COPY,
    MRD_OP_RUNTIME, /* calls of the runtime for a core */
    MRD_OP_HOST,    /* other spans of the host; they nest, so their times do not add up */
    MRD_OP_PART,    /* part of a worker's time */
    MRD_OP_KINDS
} mrd_op_kind;

const char *mrd_op_kind_text(mrd_op_kind kind); /* "compute", static */

typedef struct {
    mrd_op_kind kind;
    mrd_sid name; /* MRD_SID_EMPTY: the rest; PART: not used */
    mrd_report_part part;
    int64_t size;       /* of a collective; MRD_NONE */
    uint64_t calls, ns; /* within steps; all without steps */
    uint64_t width;     /* calls in a block, when by_call */
    uint64_t block_ns[MRD_STEPS_BLOCKS];
    uint32_t block_calls[MRD_STEPS_BLOCKS]; /* PART: steps of workers */
} mrd_steps_row;

/* What one process had of an operation. */
typedef struct {
    uint32_t row;
    mrd_proc_id process;
    uint64_t calls, ns;
} mrd_steps_place;

typedef struct {
    mrd_proc_id process;
    uint64_t steps, ns; /* whole steps, their time */
    uint64_t block_ns[MRD_STEPS_BLOCKS];
    uint32_t block_steps[MRD_STEPS_BLOCKS];
} mrd_steps_process;

typedef struct {
    bool by_call;        /* no step was there */
    uint64_t width;      /* steps in a block */
    uint64_t nested;     /* steps inside steps: not counted */
    uint64_t outside_ns; /* time of operations that began between steps, without the host's */
    uint64_t rest;       /* calls of operations beyond MRD_STEPS_ROWS */
    uint64_t unplaced;   /* calls that no mrd_steps_place counts */
} mrd_steps_totals;

typedef struct mrd_steps mrd_steps;

mrd_steps *mrd_steps_new(const mrd_sink_env *env); /* NULL without memory */
void mrd_steps_free(mrd_steps *s);                 /* NULL is fine */
/* In the order of time. Errors: NOMEM; STATE for a track that was not there, or of another profile. */
mrd_err mrd_steps_add(mrd_steps *s, const mrd_event *ev);
/* Once, after the last event and before the functions below. */
mrd_err mrd_steps_finish(mrd_steps *s);

/* Borrowed. Rows by kind, name and size; processes with a step by rank, instance and id; places by
 * row and process. */
const mrd_steps_totals *mrd_steps_totals_of(const mrd_steps *s);
const mrd_steps_row *mrd_steps_row_at(const mrd_steps *s, size_t i); /* i < mrd_steps_rows */
size_t mrd_steps_rows(const mrd_steps *s);
const mrd_steps_process *mrd_steps_processes(const mrd_steps *s, size_t *ret_n);
const mrd_steps_place *mrd_steps_places(const mrd_steps *s, size_t *ret_n);

#endif
