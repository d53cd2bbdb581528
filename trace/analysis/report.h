/*
 * trace/analysis/report.h - where the time goes and who was late: collected in one pass over a merged
 * profile; what the outputs report-text and report-json print.
 *
 * Worker   a core of a process, or a device of it (trace/analysis/workers.h).
 * Window   of a worker: from the begin of its first device span to the end of its last. Every
 *          nanosecond of it is in exactly one part (trace/analysis/worker_time.h).
 *
 *   A part that a trace cannot tell is `unmeasured`, and none of it is counted: waiting where nothing
 *   records barriers, host where nothing records the runtime's calls for the core. Devices of other
 *   traces (trace/model/activity.h) have neither; what their host does is in none of the parts.
 *
 *   On Neuron an execution contains its collectives, so `both` says that they ran inside it;
 *   whether engines computed meanwhile only a device profile tells.
 *
 * Late     parts of a collective come from trace/analysis/gather.h. The last to begin is *proven* late when
 *          its begin lies after every other's by more than MRD_REPORT_NOISE, for those of other
 *          nodes the bounds of both, and for cores of Neuron devices MRD_REPORT_MAPPING for each of
 *          the two: every core has a clock of its own, which the runtime maps to its node's by one
 *          sync point per execution. Otherwise who was last is *indistinguishable*. Nothing is proven by
 *          a clock that is suspect or was contradicted, of a collective that lacks a part of somebody who
 *          took part in others of its group, nor of a group with more or fewer members in the profile
 *          than it has, nor of one whose size nothing states in a job of which the profile lacks ranks.
 *          `alone` is the time between the last and the last but one: what this worker alone made the
 *          others wait. `own` is what of that it did not bring along from another collective
 *          (trace/analysis/lateness.h). `caused` is the sum of all waits for it. If the last two begin within
 *          MRD_REPORT_NOISE of each other, nobody came last and nobody caused the waits.
 * Idle     of a pause, by cause, after HolisticTraceAnalysis: the process loaded data meanwhile; else the
 *          device span behind it was launched after the pause had begun (an arrow leads from the
 *          launch to it, or both have the same number `correlation`, as all kernels of a graph have
 *          that of its launch); was launched before, the pause no longer than MRD_REPORT_SHORT; was launched
 *          before, and the device waited for something else; nothing says when it was launched.
 *          They add up to the idle part.
 * Steps    spans "step", "step 12", "train_step", "ProfilerStep#12" and the like outside devices,
 *          per process.
 * Pauses   the longest times in which a worker's device did nothing; none in which events were lost.
 *
 * Memory   grows with workers and names of collectives, not with events. Threads: one.
 * Source   breakdown and overlap as HolisticTraceAnalysis defines them, collectives by TraceLens'
 *          latency and skew, scores by nvidia-resiliency-ext; the bound rule is ours.
 */
#ifndef MRD_TRACE_REPORT_H
#define MRD_TRACE_REPORT_H

#include "trace/analysis/balance.h"
#include "trace/analysis/credible.h"
#include "trace/analysis/hist.h"
#include "trace/analysis/kernels.h"
#include "trace/analysis/lateness.h"
#include "trace/analysis/proof.h"
#include "trace/analysis/queue_depth.h"
#include "trace/analysis/standstill.h"
#include "trace/analysis/steady.h"
#include "trace/analysis/step_path.h"
#include "trace/analysis/trend.h"

#define MRD_REPORT_SHORT 30 /* ns: between two device spans there is always this much */
#define MRD_REPORT_LOSS  5 /* one part in so many of all windows: a loss named before computation */
#define MRD_REPORT_ABSENT                                                                          \
    5 /* times the usual length of a collective to which somebody did not come */
#define MRD_REPORT_PAUSES 16 /* longest pauses kept */
#define MRD_REPORT_STEPS  16 /* slowest steps kept */

typedef enum {
    MRD_IDLE_LOADING,
    MRD_IDLE_LAUNCH,
    MRD_IDLE_SHORT,
    MRD_IDLE_QUEUED,
    MRD_IDLE_UNKNOWN,
    MRD_IDLE_CAUSES
} mrd_idle_cause;

const char *mrd_idle_cause_text(mrd_idle_cause cause); /* "launch", static */

typedef struct {
    mrd_proc_id process;
    int64_t lnc_idx, device_idx; /* MRD_NONE; the first names the worker when it is known */
    int64_t worker_gid;
    mrd_str ranks;         /* of a worker of program phases; borrowed, empty for others */
    bool more_work;        /* it computes more than others (trace/analysis/balance.h) */
    mrd_ev_ns first, last; /* its window; first > last: no device span, not in the report */
    uint64_t part_ns[MRD_REPORT_PARTS];
    uint64_t paused_ns;                /* of MRD_REPORT_UNRECORDED: the session was paused */
    uint64_t idle_ns[MRD_IDLE_CAUSES]; /* of the idle part */
    uint64_t exposed_wait_ns, exposed_transfer_ns; /* of the exposed part; the rest is not told */
    unsigned unmeasured;        /* a bit for each part that its trace cannot tell (1u << part) */
    uint64_t lost;              /* events lost of it; those of its process when no core is named */
    uint64_t took_part;         /* in collectives with at least two parts */
    uint64_t came_last, proven; /* was the last to begin, alone; of these proven */
    uint64_t alone_ns;          /* sums over those it was last in: behind the last but one, */
    uint64_t alone_wait_ns;     /* ... times those who waited, */
    uint64_t own_wait_ns;       /* ... of these, not brought along from another collective */
    uint64_t longest_wait_ns;   /* the most of own_wait_ns in one collective */
    uint64_t caused_ns;         /* ... all waits for it, */
    uint64_t proven_ns;         /* ... of these, where it was proven */
    uint64_t wait_ns;           /* its own waits for others */
    mrd_steadiness steady;      /* of own_wait_ns; only for the worker that has the most of it */
    mrd_lateness_sum late;      /* why it came last, where it did */
    mrd_queue_sum queue;        /* launches in flight; no launches: nothing says */
} mrd_report_worker;

typedef struct {
    mrd_sid name;
    int64_t size;          /* MRD_NONE */
    uint64_t count, parts; /* matched; their parts in all */
    uint64_t proven;
    mrd_hist latency, spread; /* shortest part; last begin - first begin */
    uint64_t wait_ns;         /* waits of all parts for the last */
    uint64_t spread_max_ns;
    /* Sums over those whose bytes are known, for bandwidth: bytes of the operation over its latency.
     * bus_bytes is what one member moves over its links (mrd_cc_traffic), 0 unknown. */
    uint64_t sized, bytes, bus_bytes, sized_ns;
} mrd_report_collective;

typedef struct {
    mrd_proc_id process;
    uint64_t count, total_ns;
    mrd_dur_ns min_ns, max_ns;
    mrd_hist hist;
} mrd_report_pace;

typedef struct {
    uint32_t worker;
    mrd_ev_ns start;
    mrd_dur_ns dur_ns;
    uint64_t host_ns;      /* of it, the runtime was in a call */
    mrd_sid before, after; /* device spans around it */
} mrd_report_pause;

typedef struct {
    mrd_proc_id process;
    mrd_sid name;
    mrd_ev_ns start;
    mrd_dur_ns dur_ns;
} mrd_report_step;

/*
 * A collective to which somebody did not come any more: the last of its group, or another one was begun
 * by others meanwhile. Only such that its participants were in for MRD_REPORT_ABSENT times as long as is usual.
 */
typedef struct {
    mrd_sid name;
    uint32_t
        worker; /* that took part in earlier ones of the group and not in this one; of several the first */
    uint32_t workers;  /* how many such there are; 0: there is no such collective */
    size_t parts;      /* those who came */
    mrd_ev_ns begin;   /* of the first part */
    uint64_t spent_ns; /* lengths of all parts */
} mrd_report_absence;

typedef struct {
    uint64_t matched, alone; /* collectives; parts without a partner */
    uint64_t ties;           /* collectives to which nobody came last */
    uint64_t proven;
    uint64_t
        proven_unsized; /* of these, in groups whose size nothing states: if all members are here */
    uint64_t left_out;  /* parts of too many groups */
    uint64_t loose; /* spans of collectives that do not synchronise: single messages, broadcast */
    uint64_t no_bound; /* collectives over nodes with a clock whose bound is unknown */
    uint64_t suspect;  /* ... with a clock that is suspect or that something contradicts */
    uint64_t mapped;   /* ... where only the mapping of device clocks leaves open who was last */
    uint64_t
        partial;    /* lack a part: of somebody in others of its group, or whom the profile lacks */
    uint64_t mixed; /* of groups with more members than they say */
    uint64_t open;  /* spans that did not end */
    mrd_ev_ns first; /* of all spans; 0 without any */
    mrd_ev_ns last;  /* of all spans */
    /* Ranks that have a worker here (without any workers: spans), and how many their job has; both 0 where
     * they do not say the same. */
    uint64_t ranks, world_size;
    uint64_t window_ns; /* of all workers */
    uint64_t wait_ns;   /* of all parts */
    bool any_mapped;    /* workers whose device clock the runtime mapped took part in any */
    bool any_traced;    /* a proof leans on times of a device that a framework's tracer mapped */
} mrd_report_totals;

typedef struct mrd_report mrd_report;

mrd_report *mrd_report_new(const mrd_sink_env *env); /* NULL without memory */
void mrd_report_free(mrd_report *r);
/* Errors: NOMEM; STATE for a track that was not there, or of another profile. */
mrd_err mrd_report_add(mrd_report *r, const mrd_event *ev);
/* Once, after the last event and before the functions below. */
mrd_err mrd_report_finish(mrd_report *r);

/* Borrowed. Workers by rank, instance, process and core; collectives by falling waits, then name;
 * paces like workers; pauses and steps longest first. */
const mrd_report_totals *mrd_report_totals_of(const mrd_report *r);
const mrd_report_worker *mrd_report_workers(const mrd_report *r, size_t *ret_n);
const mrd_report_collective *mrd_report_collectives(const mrd_report *r, size_t *ret_n);
const mrd_report_pace *mrd_report_paces(const mrd_report *r, size_t *ret_n);
/* Steps of a process; after finish. */
uint64_t mrd_report_steps_of(const mrd_report *r, mrd_proc_id process);
const mrd_report_pause *mrd_report_pauses(const mrd_report *r, size_t *ret_n);
const mrd_report_step *mrd_report_slow_steps(const mrd_report *r, size_t *ret_n);
/* Steps over time, and the critical path through them; workers as in mrd_report_workers. */
const mrd_step_path *mrd_report_path(const mrd_report *r);
const mrd_kernels *mrd_report_kernels(const mrd_report *r);
/* Of the mean step of each block of mrd_step_path_blocks; without the last block when it has fewer steps. */
mrd_trend mrd_report_trend(const mrd_report *r);
/* The collective with the most parts, of these the one that took longest. */
const mrd_report_absence *mrd_report_absent(const mrd_report *r);
/* What was going on at the end; totals.open spans did not end. */
const mrd_standstill *mrd_report_standstill(const mrd_report *r);
/* Returns the comparison of program phases. Its `workers` is 0 in other traces. */
const mrd_imbalance *mrd_report_imbalance(const mrd_report *r);
/* As mrd_workers_labels. */
size_t mrd_report_labels(const mrd_report *r, mrd_sid *ret_labels, size_t most);
/* What is wrong with the records of a process; after finish. */
const mrd_credible_row *mrd_report_credible(const mrd_report *r, mrd_proc_id process);
uint64_t mrd_report_window(const mrd_report_worker *w);

#endif
