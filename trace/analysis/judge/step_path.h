/*
 * trace/analysis/judge/step_path.h - adds up the training steps of a recording, and finds the
 * critical path through each step.
 *
 * Steps    only the steps of one process count: the process that is the first to begin a step. A
 *          step inside another step is left out. At the begin and the end of a step, the accounts
 *          of time of all workers are read. So each step has a breakdown of the time of all
 *          workers.
 * Path     the path is followed backwards from the step's end. It starts at the worker of the
 *          process with the latest end of device work. If no worker of the process has had device
 *          work, the workers of all processes are considered. The path contains the work of this
 *          worker back to its last wait in a collective or barrier. There the path changes to the
 *          worker that came last, at the time when this worker began. It continues in this way to
 *          the step's begin. So the path contains no waiting in a collective or barrier that has
 *          met, that is, of which all parts are known (mrd_gather_on_met).
 *          It contains each instant of the step once, and its parts (trace/analysis/worker_time.h)
 *          add up to the step exactly. Other communication on the path may contain waiting, and
 *          unmet_ns is the time of this communication. It consists of single messages, broadcasts,
 *          and collectives that lack parts. It also includes collectives that a worker left, by its
 *          clock, before the last worker began. Time before a worker's first device span is idle. A
 *          step that ends before every worker's first device span is idle, and belongs to no
 *          worker. The clocks estimate which worker came last. Whether this is proven is stated
 *          with the collectives.
 * Share    the share of a worker is how long the path ran through this worker. Each path stores the
 *          MRD_PATH_SHARES largest shares, and the sum of the others in rest_ns.
 * Late     the late worker of a step is the worker for which others waited longest in it. Waiting
 *          for several workers that came at the same time counts for none.
 *
 * Program phases (trace/analysis/phases.h) do not show which worker waits for which, so they have
 * no path. Without steps there is one path for the whole recording. It leads backwards to the first
 * device span of the worker that it reaches.
 *
 * Memory   grows with workers. At most MRD_PATH_BLOCKS blocks are stored. If there are more,
 *          neighbours are added up.
 * Threads  belongs to one thread.
 * Source   critical path of message-passing programs (Yang and Miller 1988; Scalasca).
 */
#ifndef MRD_TRACE_STEP_PATH_H
#define MRD_TRACE_STEP_PATH_H

#include "trace/analysis/gather.h"
#include "trace/analysis/series/onset.h"
#include "trace/analysis/series/trend.h"
#include "trace/analysis/worker_time.h"

#define MRD_PATH_SHARES 8u
#define MRD_PATH_BLOCKS 32u

/* How a worker spent its time up to an instant. */
typedef struct {
    bool any; /* the worker had a device span */
    mrd_ev_ns first, device_end;
    uint64_t part_ns[MRD_REPORT_PARTS];
    /* exposed time and barrier time, except in collectives of which all parts had begun */
    uint64_t unmet_ns;
} mrd_step_account;

typedef void (*mrd_step_account_fn)(void *self, uint32_t worker, mrd_ev_ns at,
                                    mrd_step_account *ret);

typedef struct {
    uint32_t worker;
    uint64_t ns;
} mrd_path_share;

typedef struct {
    mrd_ev_ns begin;
    /* length of the path, which is the sum of part_ns, and also the sum of all shares and
     * rest_ns */
    uint64_t ns;
    uint64_t part_ns[MRD_REPORT_PARTS];
    uint64_t unmet_ns; /* exposed time and barrier time on the path that may be waiting */
    mrd_path_share share[MRD_PATH_SHARES]; /* the largest shares, longest first */
    uint32_t shares;
    uint64_t rest_ns, changes; /* changes: number of times that the path moves to another worker */
} mrd_critical_path;

/* Several consecutive steps. */
typedef struct {
    mrd_sid name; /* name of the last step's span */
    uint64_t steps, ns;
    uint64_t part_ns[MRD_REPORT_PARTS]; /* time of all workers within the steps, by part */
    uint64_t path_ns[MRD_REPORT_PARTS];
} mrd_step_block;

typedef struct {
    mrd_proc_id process;
    uint64_t steps; /* complete steps; 0 if there is one path for the whole recording */
    uint64_t width; /* steps in each block except the last */
    size_t blocks;
    uint64_t late_steps; /* steps in which a worker waited for another */
    /* number of late steps with another late worker than the late step before */
    uint64_t changed;
    uint64_t path_of_all_ns; /* sum of the lengths of all paths */
    uint64_t path_ns[MRD_REPORT_PARTS];
    uint64_t unmet_ns; /* unmet_ns summed over all paths */
    uint64_t changes;
    mrd_critical_path slowest; /* path of the slowest step; without steps the only path */
    uint64_t slowest_number;
} mrd_step_totals;

/* Totals of a worker over all steps. */
typedef struct {
    /* how long the path ran through the worker, counting only the stored shares */
    uint64_t path_ns;
    uint64_t late; /* number of steps in which the other workers waited longest for this one */
    uint64_t caused_ns;
} mrd_step_worker;

typedef struct mrd_step_path mrd_step_path;

mrd_step_path *mrd_step_path_new(const mrd_workers *who, mrd_step_account_fn account,
                                 void *self);      /* returns NULL if out of memory */
void mrd_step_path_free(mrd_step_path *step_path); /* accepts NULL */
/* Begins a step of a process with the name of its span. All earlier events must have been added. Call mrd_step_path_over for
 * the previous step first. */
void mrd_step_path_begin(mrd_step_path *step_path, mrd_proc_id process, mrd_sid name,
                         mrd_ev_ns begin, mrd_ev_ns end);
/* Returns the end of the current step; INT64_MAX if there is none. Call mrd_step_path_over at the
 * first event at or after this time. */
mrd_ev_ns mrd_step_path_end(const mrd_step_path *step_path);
void mrd_step_path_over(mrd_step_path *step_path);
/* Adds a collective at the begin of its last part (mrd_gather_on_met). */
void mrd_step_path_meet(mrd_step_path *step_path, const mrd_gathered *group);
void mrd_step_path_finish(mrd_step_path *step_path);
/* Renumbers the workers after some were dropped. place[i] is the new number of worker i, and is not
 * larger than i. */
void mrd_step_path_renumber(mrd_step_path *step_path, const uint32_t *place);

const mrd_step_totals *mrd_step_path_totals(const mrd_step_path *step_path);
const mrd_step_block *mrd_step_path_blocks(const mrd_step_path *step_path, size_t *ret_n);
/* Returns the trend of the mean step of each block of mrd_step_path_blocks. The last block is left
 * out if it has fewer steps. */
mrd_trend mrd_step_path_trend(const mrd_step_path *step_path);
/* Returns the number of the step, from 0, that began last at this time or before it. In recordings
 * with more than MRD_ONSET_MOST steps it may be the number of a step shortly before. */
uint64_t mrd_step_path_at(const mrd_step_path *step_path, mrd_ev_ns at);
/* Finds the changes of the steps' duration. Fails as mrd_onset_of does. */
mrd_err mrd_step_path_changes(const mrd_step_path *step_path, mrd_onset_result *ret);
const mrd_step_worker *mrd_step_path_worker(const mrd_step_path *step_path, uint32_t worker);

#endif
