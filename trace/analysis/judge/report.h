/*
 * trace/analysis/judge/report.h - finds where the time goes, and which workers were late. The
 * result is collected in one pass over a merged profile, and printed by the outputs report-text and
 * report-json.
 *
 * Worker   a core of a process, or one of its devices (trace/analysis/workers.h).
 * Window   of a worker: from the begin of its first device span to the end of its last. Every
 *          nanosecond of it is in exactly one part (trace/analysis/worker_time.h).
 *
 * A part that a trace cannot show is `unmeasured`, and stays 0. `waiting` is unmeasured if no
 * source records barriers, and `host` if no source records the runtime's calls for the core.
 * Devices of other traces (trace/model/activity.h) have neither, and the work of their host is in
 * none of the parts. On Neuron an execution contains its collectives, so `both` means that
 * collectives ran inside an execution. Only a device profile shows whether engines computed
 * meanwhile.
 *
 * Late     parts of a collective come from trace/analysis/gather.h. The last part is *proven* late
 *          if its begin lies after every other begin by more than the sum of all errors. The errors
 *          are MRD_REPORT_NOISE and, between parts on different nodes, the bounds of both clocks.
 *          A core of a Neuron device has its own clock, which is mapped to its node's clock. If the
 *          bound of a part includes the error of this mapping (MRD_EV_DEVICE_BOUND), the bound also
 *          counts within a node. If not, MRD_REPORT_MAPPING is added. A part that is not proven
 *          late is *indistinguishable*. Nothing is proven by a clock that is suspect or was
 *          contradicted, nor by a collective that lacks a part of a member of its group. The same
 *          holds for groups with more or fewer
 *          members in the profile than their size, and for groups of unknown size if the profile
 *          lacks ranks of the job. `alone` is the time between the last begin and the last but one,
 *          in which only this worker made the others wait. `own` is `alone` without the lateness
 *          that the worker had from an earlier collective (trace/analysis/judge/lateness.h).
 *          `caused` is the sum of all waits for this worker. If the last two begin within
 *          MRD_REPORT_NOISE of each other, no worker is last and none caused the waits.
 * Idle     causes of idle time, after HolisticTraceAnalysis. The first that applies counts, so
 *          together they add up to the idle part:
 *            loading  the process loaded data.
 *            launch   the next device span was launched after the pause had begun.
 *            short    the span was launched before the pause, and the pause is at most
 *                     MRD_REPORT_SHORT.
 *            queued   the span was launched before the pause, but the device waited for something
 *                     else.
 *            unknown  the launch of the span is unknown.
 *          An arrow connects a launch with its span, or both have the same number `correlation`.
 *          All kernels of a graph have the number of its launch.
 * Steps    spans "step", "step 12", "train_step", "ProfilerStep#12" and the like outside devices,
 *          per process. A step that begins inside another is not counted.
 * Pauses   the longest times in which a worker's device did nothing and no events were lost.
 *
 * Memory   grows with workers and names of collectives, not with events. Threads: one.
 * Source   breakdown and overlap as HolisticTraceAnalysis defines them, collectives by TraceLens'
 *          latency and skew, scores by nvidia-resiliency-ext. The rule with bounds is our own.
 */
#ifndef MRD_TRACE_REPORT_H
#define MRD_TRACE_REPORT_H

#include "trace/analysis/balance.h"
#include "trace/analysis/hist.h"
#include "trace/analysis/judge/absence.h"
#include "trace/analysis/judge/credible.h"
#include "trace/analysis/judge/host_work.h"
#include "trace/analysis/judge/lateness.h"
#include "trace/analysis/judge/proof.h"
#include "trace/analysis/judge/standstill.h"
#include "trace/analysis/judge/step_path.h"
#include "trace/analysis/judge/stuck.h"
#include "trace/analysis/judge/what_if.h"
#include "trace/analysis/kernels.h"
#include "trace/analysis/queue_depth.h"
#include "trace/analysis/series/steady.h"

/* maximum length, in ns, of the gap that is normal between two device spans */
#define MRD_REPORT_SHORT 30
/* a loss of at least 1/MRD_REPORT_LOSS of all windows is the bottleneck, even if computation takes
 * more time */
#define MRD_REPORT_LOSS   5
#define MRD_REPORT_PAUSES 16 /* number of longest pauses that are stored */
#define MRD_REPORT_STEPS  16 /* number of slowest steps that are stored */

typedef enum {
    MRD_IDLE_LOADING,
    MRD_IDLE_LAUNCH,
    MRD_IDLE_SHORT,
    MRD_IDLE_QUEUED,
    MRD_IDLE_UNKNOWN,
    MRD_IDLE_CAUSES
} mrd_idle_cause;

const char *mrd_idle_cause_text(mrd_idle_cause cause); /* returns a static text such as "launch" */

typedef struct {
    mrd_proc_id process;
    /* MRD_NONE if unknown; device_idx is set only if there is no lnc_idx */
    int64_t lnc_idx, device_idx;
    int64_t worker_gid;
    mrd_str ranks;  /* the worker's ranks if it comes from program phases, else empty; borrowed */
    bool more_work; /* the worker computes more than the others (trace/analysis/balance.h) */
    /* window of the worker; first > last if it has no device span and is not in the report */
    mrd_ev_ns first, last;
    uint64_t part_ns[MRD_REPORT_PARTS];
    /* part of MRD_REPORT_UNRECORDED in which the session was paused */
    uint64_t paused_ns;
    uint64_t idle_ns[MRD_IDLE_CAUSES]; /* the idle part by cause */
    /* the exposed time that certainly is waiting or transfer */
    uint64_t exposed_wait_ns, exposed_transfer_ns;
    unsigned unmeasured; /* a bit (1u << part) for each part that its trace cannot show */
    /* number of lost events of the worker; losses without a core count for all workers of their
     * process or node */
    uint64_t lost;
    /* number of collectives of the worker in which at least one other part was recorded */
    uint64_t took_part;
    /* how many collectives the worker began last, without ties; for how many of them the clocks'
     * error bounds prove that it was last (trace/analysis/judge/proof.h) */
    uint64_t came_last, proven;
    /* sum over the collectives that the worker began last: time from the last but one begin to its
     * begin */
    uint64_t alone_ns;
    /* as alone_ns, but each time counts once for each waiting worker */
    uint64_t alone_wait_ns;
    /* as alone_wait_ns, without lateness that the worker inherited from earlier collectives */
    uint64_t own_wait_ns;
    uint64_t longest_wait_ns; /* the largest own_wait_ns of one collective */
    uint64_t caused_ns;       /* time that other workers waited for this one */
    uint64_t proven_ns;       /* the part of caused_ns in collectives that count in `proven` */
    uint64_t wait_ns;         /* time that this worker waited for others */
    mrd_steadiness steady;    /* test of own_wait_ns; only for the worker with the largest value */
    mrd_lateness_sum late;    /* reasons for its lateness */
    /* work of its host while its device was idle, more than on other workers */
    mrd_host_excess host_work;
    mrd_queue_sum queue; /* launches in flight; unknown if queue.launches is 0 */
} mrd_report_worker;

typedef struct {
    mrd_sid name;
    int64_t size;          /* size of the collective; MRD_NONE if unknown */
    uint64_t count, parts; /* number of complete collectives, and of all their parts */
    uint64_t proven;       /* number of collectives whose last worker is proven */
    mrd_hist latency,      /* shortest part of each collective */
        spread;            /* last begin minus first begin */
    /* time that parts waited for the last part of their collective, summed over all parts */
    uint64_t wait_ns;
    uint64_t spread_max_ns;
    /* Sums over the `sized` collectives with known bytes. The bandwidth is bytes divided by
     * sized_ns, the sum of their latencies. bus_bytes is how many bytes one member moves over its
     * links (mrd_cc_traffic); 0 if unknown. */
    uint64_t sized, bytes, bus_bytes, sized_ns;
} mrd_report_collective;

typedef struct {
    mrd_proc_id process;
    uint64_t count, total_ns;
    mrd_dur_ns min_ns, max_ns;
    mrd_hist hist;
    mrd_ev_ns end; /* end of the last counted step */
} mrd_report_pace;

typedef struct {
    uint32_t worker;
    mrd_ev_ns start;
    mrd_dur_ns dur_ns;
    uint64_t host_ns;      /* the part of the pause in which the runtime was in a call */
    mrd_sid before, after; /* names of the device spans before and after the pause */
} mrd_report_pause;

typedef struct {
    mrd_proc_id process;
    mrd_sid name;
    mrd_ev_ns start;
    mrd_dur_ns dur_ns;
} mrd_report_step;

typedef struct {
    /* collectives with at least two parts, and collectives with only one */
    uint64_t matched, alone;
    /* collectives whose last two begins are closer than MRD_REPORT_NOISE, so no worker counts as
     * the last */
    uint64_t ties;
    uint64_t proven; /* collectives whose last worker is proven */
    /* counted in `proven` too: groups of unknown size. The proof holds only if all members took
     * part. */
    uint64_t proven_unsized;
    uint64_t left_out; /* parts of groups beyond the limit */
    uint64_t loose; /* spans of collectives that do not synchronise: single messages, broadcast */
    uint64_t no_bound; /* collectives between nodes with a clock of unknown bound */
    /* collectives between nodes with a clock that is suspect or was contradicted */
    uint64_t suspect;
    uint64_t mapped;  /* collectives without a proof only because of the mapping of device clocks */
    uint64_t partial; /* collectives that lack the part of a member */
    uint64_t mixed;   /* collectives of groups that have more members than their stated size */
    uint64_t open;    /* spans that did not end */
    mrd_ev_ns first;  /* begin of the first span; 0 if there are none */
    mrd_ev_ns last;   /* end of the last span */
    /* Number of ranks with a worker in the profile, and number of ranks of their job. Without any
     * workers, ranks with spans count. Both are 0 if the ranks state different numbers. */
    uint64_t ranks, world_size;
    /* The longest collective that lacks members of its group: how long its shortest part took, the
     * median of this time for its name and size, and the name. longest_ns is 0 if there is none. */
    uint64_t longest_ns, usual_ns;
    mrd_sid longest_name;
    uint64_t window_ns; /* sum of the windows of all workers */
    uint64_t wait_ns;   /* sum of the waits of all parts */
    /* a collective has a worker whose device clock was mapped by the runtime's sync points */
    bool any_mapped;
    /* the workers are processes whose collectives ran on their host (trace/analysis/workers.h) */
    bool on_host;
    bool any_traced; /* a proof uses times of a device that a framework's tracer mapped */
    /* the incomplete collective with the most parts; of several, the one with the longest total
     * time */
    mrd_report_absence absence;
    /* since when the worker with the largest own_wait_ns is late, and since when the steps are
     * longer or shorter */
    mrd_onset_result late_since, step_changes;
    /* the comparison of workers by program phases; `workers` is 0 in traces with devices */
    mrd_imbalance imbalance;
    /* how much stragglers slow the job down; `steps` is 0 in traces with devices */
    mrd_slowdown slowdown;
} mrd_report_totals;

typedef struct mrd_report mrd_report;

mrd_report *mrd_report_new(const mrd_sink_env *env); /* returns NULL if out of memory */
void mrd_report_free(mrd_report *report);
/* Adds an event. Errors: NOMEM, STATE (unknown track or another profile). */
mrd_err mrd_report_add(mrd_report *report, const mrd_event *ev);
/* Computes the results. Call once, after the last event and before the functions below. */
mrd_err mrd_report_finish(mrd_report *report);

/* Results, all borrowed. Workers are sorted by rank, instance, process and core. Collectives are
 * sorted by falling waits, then name. Paces are sorted like workers, and pauses and steps by
 * falling length. */
const mrd_report_totals *mrd_report_totals_of(const mrd_report *report);
const mrd_report_worker *mrd_report_workers(const mrd_report *report, size_t *ret_n);
const mrd_report_collective *mrd_report_collectives(const mrd_report *report, size_t *ret_n);
const mrd_report_pace *mrd_report_paces(const mrd_report *report, size_t *ret_n);
/* Returns the number of steps of a process. Call after finish. */
uint64_t mrd_report_steps_of(const mrd_report *report, mrd_proc_id process);
const mrd_report_pause *mrd_report_pauses(const mrd_report *report, size_t *ret_n);
const mrd_report_step *mrd_report_slow_steps(const mrd_report *report, size_t *ret_n);
/* Returns steps over time, and the critical path through them. Workers are numbered as in
 * mrd_report_workers. */
const mrd_step_path *mrd_report_path(const mrd_report *report);
const mrd_kernels *mrd_report_kernels(const mrd_report *report);
/* Returns the state of all processes at the end of the recording. */
const mrd_standstill *mrd_report_standstill(const mrd_report *report);
/* Returns for which ranks the operations of flight recorder dumps wait. */
const mrd_stuck_verdict *mrd_report_stuck(const mrd_report *report);
/* Stores labels of spans that are not work, as mrd_workers_labels does. */
size_t mrd_report_labels(const mrd_report *report, mrd_sid *ret_labels, size_t most);
/* Returns the impossible records of a process. Call after finish. */
const mrd_credible_row *mrd_report_credible(const mrd_report *report, mrd_proc_id process);
uint64_t mrd_report_window(const mrd_report_worker *worker);

#endif
