/*
 * trace/analysis/summary.h - counts, times and losses of a profile, collected in one pass: what the outputs
 * summary-text and summary-json print.
 *
 * Three levels: nodes, their processes, and in each process its cores (one more "core" holds the
 * tracks that belong to none). Busy is the union of spans, never their sum; it is exact because
 * events come in order of time. Percentiles come from trace/analysis/hist.h and are off by at most
 * MRD_HIST_ERROR of themselves. Memory grows with cores x event names, not with events, up to the
 * limits of trace/analysis/types.h; further names of a core are one row, "(too many distinct names)".
 * A call of the runtime that the hook recorded too counts once among the types (trace/analysis/calls.h), and so
 * does an execution on two physical cores, which comes as one span (MRD_EV_PAIR) and lasts from the earlier
 * begin to the later end; `events` and `spans` count both of its halves:
 * spans + instants = counts of all types + twice + pairs.
 * Spans without an end have no duration: they are counted, and are in no time. Stamps of 0 are not
 * times in a profile that knows the date: they are counted and left out of ranges and unions.
 * Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_SUMMARY_H
#define MRD_TRACE_SUMMARY_H

#include "trace/analysis/types.h"
#include "trace/model/sink.h"

typedef struct {
    uint64_t ns;
    mrd_ev_ns end; /* of the interval that is open */
    bool any;
} mrd_union;

/* A node, a process or a core. */
typedef struct {
    /* What every span changes stands together. */
    uint64_t events;
    mrd_ev_ns first, last; /* first > last: nothing with a time */
    mrd_union busy;        /* all spans */
    uint64_t lost;
    mrd_union device; /* spans that the device ran (MRD_SRC_DEVICE, MRD_SRC_DEVPROF) */
    mrd_union collective;
    uint64_t cc_running; /* spans of that name */
    /* Of nc_exec_running: executions, and how many of them were on two physical cores, with both halves
     * recorded. A half whose other is missing is an execution. */
    uint64_t executions, pairs;
    uint32_t parent;           /* of a process: its node; of a core: its process's row */
    uint32_t cores, cores_end; /* its cores; of a core: itself */
    union {
        mrd_sid instance;    /* node */
        mrd_proc_id process; /* process */
        int64_t lnc_idx;     /* core; MRD_NONE: tracks of no core */
    };
} mrd_summary_row;

typedef struct {
    mrd_track_id track;
    uint64_t count;
    double min, max, sum, last;
} mrd_summary_counter;

typedef struct {
    mrd_track_id track;
    mrd_sid cause;
    uint64_t records, lost;
    uint64_t gaps_ns; /* of all records together */
    mrd_ev_ns first, last;
} mrd_summary_loss;

typedef struct mrd_summary mrd_summary;

mrd_summary *mrd_summary_new(const mrd_sink_env *env); /* NULL without memory */
void mrd_summary_free(mrd_summary *s);
/* Errors: NOMEM; STATE for a track that was not there, or of another profile. */
mrd_err mrd_summary_add(mrd_summary *s, const mrd_event *ev);
/* Call once, after the last event and before the functions below. */
mrd_err mrd_summary_finish(mrd_summary *s);

typedef struct {
    uint64_t events, spans, instants, samples, flow_points, losses;
    uint64_t unfinished, no_start, mistimed, lost;
    uint64_t twice; /* spans of calls that another source has; after mrd_summary_finish */
    uint64_t pairs; /* executions that stand for two spans */
    uint64_t cpu_samples, memory_samples;
    mrd_ev_ns first, last;
} mrd_summary_totals;

const mrd_summary_totals *mrd_summary_totals_of(const mrd_summary *s);
/* In order: nodes by name, processes by node, rank and number, cores by process and number.
 * Borrowed. */
const mrd_summary_row *mrd_summary_nodes(const mrd_summary *s, size_t *ret_n);
const mrd_summary_row *mrd_summary_processes(const mrd_summary *s, size_t *ret_n);
const mrd_summary_row *mrd_summary_cores(const mrd_summary *s, size_t *ret_n);
/* The index of the track's row among the cores; UINT32_MAX for no track of this profile. */
uint32_t mrd_summary_core_of(const mrd_summary *s, mrd_track_id track);
/* The event types of a row, NULL: of everything; by falling total time, then count, then name.
 * Freed with mrd_types_merged_free. Errors: NOMEM. */
mrd_err mrd_summary_types(const mrd_summary *s, const mrd_summary_row *row, mrd_type **ret_types,
                          size_t *ret_n);
bool mrd_summary_any_type(const mrd_summary *s, const mrd_summary_row *row);
const mrd_summary_counter *mrd_summary_counters(const mrd_summary *s, size_t *ret_n);
const mrd_summary_loss *mrd_summary_losses(const mrd_summary *s, size_t *ret_n);

/* Quantile of a type, inside [min, max]. */
int64_t mrd_summary_quantile(const mrd_type *type, double q);
/* The part of the row's own window [first, last] that no span covers. */
uint64_t mrd_summary_idle(const mrd_summary_row *row);

#endif
