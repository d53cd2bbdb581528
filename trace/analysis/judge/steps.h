/*
 * trace/analysis/judge/steps.h - computes the cost of each operation per training step, as a short
 * series over the recording. `meridian diff` compares these series between runs.
 *
 * Step       a span "step", "step 12", "ProfilerStep#12" and the like of a process. A step inside
 *            another one of its process does not count. Steps are numbered per process from 0. An
 *            operation belongs to the step in which it begins. An operation that begins between
 *            steps counts as outside.
 * Operation  work of one kind, name and size. Its time in a step is the sum of its spans. If the
 *            parts of a collective met (trace/analysis/gather.h), the time until the last begin is
 *            `waiting`, and the rest is the collective's own.
 * Part       each worker's time in a step is divided as in trace/analysis/worker_time.h. The parts
 *            add up to the step.
 * Own        the time in a step in which the busiest worker of the process computes, copies, calls
 *            the runtime or idles. Waiting for a slower rank does not count as own time.
 * Block      the series has at most MRD_STEPS_BLOCKS values, each the sum over `width` steps. If a
 *            recording has more steps, neighbours are added up and width doubles, so memory does
 *            not grow with the recording.
 *
 * If the recording has no steps, the series of each operation counts its own calls instead
 * (`by_call`), with its own width. Then there are no parts, and no time outside of steps.
 *
 * Memory     at most MRD_STEPS_ROWS operations, half of them of the host. The time of further
 *            operations is in one row of their kind without a name. At most MRD_STEPS_PLACES pairs
 *            of operation and process.
 * Threads    belongs to one thread.
 * Source     sums over fixed numbers of neighbours are "batch means" (Law and Carson).
 */
#ifndef MRD_TRACE_STEPS_H
#define MRD_TRACE_STEPS_H

#include "trace/analysis/worker_time.h"

#define MRD_STEPS_BLOCKS 256u
#define MRD_STEPS_ROWS   4096u
#define MRD_STEPS_PLACES 65536u

typedef enum {
    MRD_OP_COMPUTE,    /* device spans that are no collective and no copy */
    MRD_OP_COLLECTIVE, /* time in a collective after its last begin */
    MRD_OP_WAITING,    /* time in a collective before its last begin, and time in barriers */
    MRD_OP_COPY,
    MRD_OP_RUNTIME, /* runtime calls for a core */
    MRD_OP_HOST,    /* other spans of the host, which nest, so their times do not add up */
    MRD_OP_PART,    /* part of a worker's time */
    MRD_OP_KINDS
} mrd_op_kind;

const char *mrd_op_kind_text(mrd_op_kind kind); /* returns a static text such as "compute" */

typedef struct {
    mrd_op_kind kind;
    /* empty (MRD_SID_EMPTY) in the row for operations beyond the limit; unused for PART */
    mrd_sid name;
    mrd_report_part part;
    int64_t size; /* size of a collective; MRD_NONE for other operations */
    /* number and time of calls within steps; of all calls if there are no steps */
    uint64_t calls, ns;
    uint64_t width; /* number of calls in a block, if the series counts calls (by_call) */
    uint64_t block_ns[MRD_STEPS_BLOCKS];
    /* calls in each block; for PART, the number of pairs of a worker and a step */
    uint32_t block_calls[MRD_STEPS_BLOCKS];
} mrd_steps_row;

/* The share of one process in an operation. */
typedef struct {
    uint32_t row;
    mrd_proc_id process;
    uint64_t calls, ns;
} mrd_steps_place;

typedef struct {
    mrd_proc_id process;
    uint64_t steps, ns; /* number of complete steps, and their total time */
    uint64_t block_ns[MRD_STEPS_BLOCKS];
    uint32_t block_steps[MRD_STEPS_BLOCKS];
    /* own time by part and block; parts that grow while a worker waits for others stay 0 */
    uint64_t own_ns[MRD_REPORT_PARTS][MRD_STEPS_BLOCKS];
    /* number of steps in each block for which own_ns contains the time of a worker */
    uint32_t own_steps[MRD_STEPS_BLOCKS];
} mrd_steps_process;

typedef struct {
    bool by_call;        /* no step exists, so series count calls */
    uint64_t width;      /* number of steps in a block */
    uint64_t nested;     /* steps inside steps, which do not count */
    uint64_t outside_ns; /* time of operations that began between steps, except the host's */
    uint64_t rest; /* calls of operations beyond MRD_STEPS_ROWS, which have no row of their own */
    /* calls that no mrd_steps_place counts, because there are MRD_STEPS_PLACES already */
    uint64_t unplaced;
} mrd_steps_totals;

typedef struct mrd_steps mrd_steps;

mrd_steps *mrd_steps_new(const mrd_sink_env *env); /* returns NULL if out of memory */
void mrd_steps_free(mrd_steps *steps);             /* accepts NULL */
/* Adds an event. Events come in order of time. Errors: NOMEM, STATE (unknown track or another
 * profile). */
mrd_err mrd_steps_add(mrd_steps *steps, const mrd_event *ev);
/* Completes the results. Call once, after the last event and before the functions below. */
mrd_err mrd_steps_finish(mrd_steps *steps);

/* Return the results, all borrowed. Rows are sorted by kind, name and size. Processes with a step
 * are sorted by rank, instance and id, and places by row and process. */
const mrd_steps_totals *mrd_steps_totals_of(const mrd_steps *steps);
/* requires i < mrd_steps_rows */
const mrd_steps_row *mrd_steps_row_at(const mrd_steps *steps, size_t i);
size_t mrd_steps_rows(const mrd_steps *steps);
const mrd_steps_process *mrd_steps_processes(const mrd_steps *steps, size_t *ret_n);
const mrd_steps_place *mrd_steps_places(const mrd_steps *steps, size_t *ret_n);

#endif
