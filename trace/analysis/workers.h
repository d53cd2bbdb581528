/*
 * trace/analysis/workers.h - assigns each span to a worker and to a kind of activity, for the
 * report and the comparison of runs.
 *
 * Worker   a core of a process (lnc_idx), or one of its devices if the source has only devices.
 *          Each track with a core or a device belongs to a worker, and the others belong to a
 *          process. In a trace without cores and devices, the workers come from program phases
 *          (trace/analysis/phases.h). If collectives ran on the host (Gloo, MPI), each process is
 *          a worker. Its collectives count as device spans, and its operators as work of the host.
 * Span     a span belongs to a worker's device (MRD_ON_COMPUTE .. MRD_ON_COPY) or to the runtime's
 *          calls for it (MRD_ON_HOST). Otherwise it is a step ("step", "step 12", "train_step",
 *          "ProfilerStep#12" and the like outside devices, and any span with an argument step_num), or another span of a process's host.
 *
 * Names and categories are classified once each. Memory grows with tracks and names. Threads:
 * belongs to one thread. The catalog is complete before the first call.
 */
#ifndef MRD_TRACE_WORKERS_H
#define MRD_TRACE_WORKERS_H

#include "trace/analysis/collectives.h"
#include "trace/analysis/phases.h"
#include "trace/model/sink.h"

#define MRD_NO_WORKER UINT32_MAX

/* Activities of a worker at one instant. Any number of them may run concurrently. */
typedef enum {
    MRD_ON_COMPUTE,
    MRD_ON_COLLECTIVE,
    MRD_ON_BARRIER,
    MRD_ON_COPY,
    MRD_ON_HOST,
    MRD_ON_LOADING, /* the process loads data on its host */
    MRD_ON_GAP,     /* events were lost */
    MRD_ON_PAUSED,  /* the session was paused */
    MRD_ONS
} mrd_work_on;

typedef struct {
    mrd_proc_id process;
    /* MRD_NONE if unknown; device_idx is set only if there is no lnc_idx */
    int64_t lnc_idx, device_idx;
    /* global number of the worker as its trace states it; MRD_NONE if unknown */
    int64_t worker_gid;
    /* text with the worker's ranks if the worker comes from program phases, else empty; borrowed */
    mrd_str ranks;
    bool waits_known; /* the worker's trace records barriers */
    bool host_known;  /* the worker's trace records the runtime's calls for it */
    /* the worker's times were recorded by a device clock, and the runtime converted them to host
     * time */
    bool mapped;
} mrd_worker;

typedef enum {
    MRD_WORK_NONE,    /* not counted: not a finished span, or on an unknown track */
    MRD_WORK_BESIDE,  /* counts for no worker: an annotation that lies over other spans */
    MRD_WORK_WORKER,  /* a span of a worker's device, or a runtime call for it */
    MRD_WORK_STEP,    /* a step of a process */
    MRD_WORK_LOADING, /* a process loads data: "DataLoader", "next_batch" and the like */
    MRD_WORK_HOST     /* any other span of a process */
} mrd_work_kind;

typedef struct {
    mrd_proc_id process;
    uint32_t worker; /* the span's worker, for MRD_WORK_WORKER; else MRD_NO_WORKER */
    mrd_work_on on;  /* activity of the worker, for MRD_WORK_WORKER */
    bool device;     /* the span ran on the device itself, not on the host */
    /* class of the span (trace/analysis/device_work.h); MRD_CLASS_COMPUTE on tracks of other
     * sources */
    mrd_kernel_class class;
    mrd_cc_kind kind; /* kind of collective that the span is; MRD_CC_NO if it is none */
    mrd_cc what;      /* the collective, written in the cases that mrd_collectives_see describes */
} mrd_work;

typedef struct mrd_workers mrd_workers;

mrd_workers *mrd_workers_new(const mrd_sink_env *env); /* returns NULL if out of memory */
void mrd_workers_free(mrd_workers *workers);           /* accepts NULL */
size_t mrd_workers_count(const mrd_workers *workers);
/* Returns worker i < count. Workers are sorted by rank, instance, process and core. Borrowed. */
const mrd_worker *mrd_workers_at(const mrd_workers *workers, uint32_t i);
/* Returns false if the track is not of this profile or was added after mrd_workers_new. */
bool mrd_workers_knows(const mrd_workers *workers, mrd_track_id track);
/* Returns true if the workers come from program phases. */
bool mrd_workers_are_phases(const mrd_workers *workers);
/* Returns true if the workers are processes whose collectives ran on the host. */
bool mrd_workers_are_hosts(const mrd_workers *workers);
/* Stores at most `most` labels of spans that are not work, the most frequent first. A label is the
 * span's category, or its name if it has none. Returns their number. Only profiles without cores
 * and devices have labels. */
size_t mrd_workers_labels(const mrd_workers *workers, mrd_sid *ret_labels, size_t most);
/* Returns the worker of a track; MRD_NO_WORKER if the track has none. */
uint32_t mrd_workers_of(const mrd_workers *workers, mrd_track_id track);
/* Returns the number of workers of a process. They have successive numbers from *ret_first. */
uint32_t mrd_workers_of_process(const mrd_workers *workers, mrd_proc_id process,
                                uint32_t *ret_first);
/* Returns the kind of an event for the analysis. Writes *ret for MRD_WORK_WORKER and the kinds that
 * follow it in the enum. */
mrd_work_kind mrd_workers_see(mrd_workers *workers, const mrd_event *ev, mrd_work *ret);
/* Returns true if an MRD_LOSS event concerns this worker: the lost events are of the worker's core,
 * process or node, and not only annotations of threads. Stores MRD_ON_GAP or MRD_ON_PAUSED in
 * *ret_on. */
bool mrd_workers_lost(const mrd_workers *workers, const mrd_event *ev, uint32_t worker,
                      mrd_work_on *ret_on);
/* Compares two processes for sorted lists: by rank if they have ranks, else by
 * mrd_catalog_process_order. */
int mrd_workers_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b);

#endif
