/*
 * trace/analysis/summary.h - collects counts, times and losses of a profile in one pass. The
 * outputs summary-text and summary-json print them.
 *
 * There are three levels: nodes, their processes, and the cores of each process. One more "core" of
 * a process contains its tracks without a core. Busy time is the union of spans, never their sum.
 * It is exact because events come in order of time. Percentiles come from trace/analysis/hist.h,
 * with a relative error of at most MRD_HIST_ERROR. Memory grows with cores x event names, not with
 * events, up to the limits of trace/analysis/types.h. Further names of a core share one row, "(too
 * many distinct names)".
 *
 * A runtime call that both the hook and the runtime recorded counts once among the types
 * (trace/analysis/calls.h). An execution on two physical cores comes as one span (MRD_EV_PAIR), and
 * also counts once. This span lasts from the earlier begin to the later end. `events` and `spans`
 * count both halves, so spans + instants = counts of all types + twice + pairs.
 *
 * Spans without an end are counted. Their duration is unknown, so no sum of times contains them.
 * Timestamps of 0 are invalid in a profile with absolute time. Such events are counted, and left
 * out of ranges and unions. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_SUMMARY_H
#define MRD_TRACE_SUMMARY_H

#include "trace/analysis/types.h"
#include "trace/model/sink.h"

typedef struct {
    uint64_t ns;
    mrd_ev_ns end; /* end of the latest of the joined intervals */
    bool any;
} mrd_union;

/* A row of the summary: a node, a process or a core. */
typedef struct {
    /* The fields that every span changes come first, so that they share cache lines. */
    uint64_t events;
    mrd_ev_ns first, last; /* first > last if no event has a time */
    mrd_union busy;        /* time covered by any span */
    uint64_t lost;
    /* time covered by spans that the device itself recorded (MRD_SRC_DEVICE, MRD_SRC_DEVPROF) */
    mrd_union device;
    mrd_union collective;
    uint64_t cc_running; /* number of spans named cc_running */
    /* Executions (nc_exec_running), and how many of them ran on two physical cores. Such a pair
     * counts as one execution. A half without a recorded other half counts as an execution. */
    uint64_t executions, pairs;
    uint32_t parent; /* index of the parent row: the node of a process, or the process of a core */
    /* the row's cores are [cores, cores_end) in mrd_summary_cores; for a core, only its own
     * index */
    uint32_t cores, cores_end;
    union {
        mrd_sid instance;    /* name of the node */
        mrd_proc_id process; /* the process; unused in the row of a node */
        int64_t lnc_idx;     /* logical core; MRD_NONE for tracks without a core */
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
    uint64_t gaps_ns; /* time in which events were lost, summed over all loss records */
    mrd_ev_ns first, last;
} mrd_summary_loss;

typedef struct mrd_summary mrd_summary;

mrd_summary *mrd_summary_new(const mrd_sink_env *env); /* returns NULL if out of memory */
void mrd_summary_free(mrd_summary *summary);
/* Adds an event. Errors: NOMEM, STATE (unknown track or another profile). */
mrd_err mrd_summary_add(mrd_summary *summary, const mrd_event *ev);
/* Completes the sums. Call once, after the last event and before the functions below. */
mrd_err mrd_summary_finish(mrd_summary *summary);

typedef struct {
    uint64_t events, spans, instants, samples, flow_points, losses;
    uint64_t unfinished, no_start, mistimed, lost;
    /* runtime calls that two sources recorded, counted once; valid after mrd_summary_finish */
    uint64_t twice;
    /* number of executions that stand for two spans, one for each of two physical cores */
    uint64_t pairs;
    uint64_t cpu_samples, memory_samples;
    mrd_ev_ns first, last;
} mrd_summary_totals;

const mrd_summary_totals *mrd_summary_totals_of(const mrd_summary *summary);
/* Return the rows in order: nodes by name, processes by node, rank and number, cores by process and
 * number. Borrowed. */
const mrd_summary_row *mrd_summary_nodes(const mrd_summary *summary, size_t *ret_n);
const mrd_summary_row *mrd_summary_processes(const mrd_summary *summary, size_t *ret_n);
const mrd_summary_row *mrd_summary_cores(const mrd_summary *summary, size_t *ret_n);
/* Returns the index of the row in mrd_summary_cores to which the track belongs; UINT32_MAX if the
 * track is not of this profile. */
uint32_t mrd_summary_core_of(const mrd_summary *summary, mrd_track_id track);
/* Stores the event types of a row, or of the whole profile if `row` is NULL. Sorted by falling
 * total time, then count, then name. Free with mrd_types_merged_free. Errors: NOMEM. */
mrd_err mrd_summary_types(const mrd_summary *summary, const mrd_summary_row *row,
                          mrd_type **ret_types, size_t *ret_n);
bool mrd_summary_any_type(const mrd_summary *summary, const mrd_summary_row *row);
const mrd_summary_counter *mrd_summary_counters(const mrd_summary *summary, size_t *ret_n);
const mrd_summary_loss *mrd_summary_losses(const mrd_summary *summary, size_t *ret_n);

/* Returns the quantile q, 0..1, of the durations of an event type. It lies within [min, max]. */
int64_t mrd_summary_quantile(const mrd_type *type, double q);
/* Returns how much of the row's window [first, last] no span covers. */
uint64_t mrd_summary_idle(const mrd_summary_row *row);

#endif
