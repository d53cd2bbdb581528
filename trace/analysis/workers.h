/*
 * trace/analysis/workers.h - whose time a span is and what goes on in it: the first question of the
 * report and of the comparison of runs.
 *
 * Worker   a core of a process (lnc_idx), or a device of it where the source knows only devices.
 *          Each track with one of the two belongs to a worker; the others belong to a process.
 *          In a trace without either, workers are those of its program phases (trace/analysis/phases.h), if it has any.
 * Span     of a worker's device (MRD_ON_COMPUTE .. MRD_ON_COPY), of the runtime for it (MRD_ON_HOST),
 *          a step ("step", "step 12", "train_step", "ProfilerStep#12" and the like outside devices),
 *          or any other span of a process's host.
 *
 * Names and categories are classified once each. Memory grows with tracks and names.
 * Threads: belongs to one thread. The catalog is complete before the first call.
 */
#ifndef MRD_TRACE_WORKERS_H
#define MRD_TRACE_WORKERS_H

#include "trace/analysis/collectives.h"
#include "trace/analysis/phases.h"
#include "trace/model/sink.h"

#define MRD_NO_WORKER UINT32_MAX

/* What can be going on for a worker at one instant; any number of them together. */
typedef enum {
    MRD_ON_COMPUTE,
    MRD_ON_COLLECTIVE,
    MRD_ON_BARRIER,
    MRD_ON_COPY,
    MRD_ON_HOST,
    MRD_ON_LOADING, /* the process loads data: on its host */
    MRD_ON_GAP,     /* events were lost */
    MRD_ON_PAUSED,  /* nothing was to be recorded */
    MRD_ONS
} mrd_work_on;

typedef struct {
    mrd_proc_id process;
    int64_t lnc_idx, device_idx; /* MRD_NONE; the first names the worker when it is known */
    int64_t worker_gid;          /* MRD_NONE */
    mrd_str ranks;               /* of a thread, for program phases; borrowed, empty for others */
    bool waits_known;            /* its source records barriers */
    bool host_known;             /* ... the runtime's calls for it */
    bool mapped; /* its times came through a device's clock that the runtime mapped */
} mrd_worker;

typedef enum {
    MRD_WORK_NONE,    /* no finished span of a known track */
    MRD_WORK_BESIDE,  /* nobody's time: drawn over other spans */
    MRD_WORK_WORKER,  /* of a worker */
    MRD_WORK_STEP,    /* a step of a process */
    MRD_WORK_LOADING, /* a process loads data: "DataLoader", "next_batch" and the like */
    MRD_WORK_HOST     /* another span of a process */
} mrd_work_kind;

typedef struct {
    mrd_proc_id process;
    uint32_t worker;        /* MRD_WORK_WORKER; else MRD_NO_WORKER */
    mrd_work_on on;         /* MRD_WORK_WORKER */
    bool device;            /* the span is the device's own */
    mrd_kernel_class class; /* trace/analysis/device_work.h; COMPUTE on lines of other sources */
    mrd_cc_kind kind;       /* MRD_CC_NO: no collective */
    mrd_cc what;            /* written as mrd_collectives_see says */
} mrd_work;

typedef struct mrd_workers mrd_workers;

mrd_workers *mrd_workers_new(const mrd_sink_env *env); /* NULL without memory */
void mrd_workers_free(mrd_workers *w);                 /* NULL is fine */
size_t mrd_workers_count(const mrd_workers *w);
/* By rank, instance, process and core. Borrowed, i < count. */
const mrd_worker *mrd_workers_at(const mrd_workers *w, uint32_t i);
/* False: the track is not of this profile, or was added after mrd_workers_new. */
bool mrd_workers_knows(const mrd_workers *w, mrd_track_id track);
/* Returns true if the workers are those of program phases. */
bool mrd_workers_are_phases(const mrd_workers *w);
/* Stores the most frequent labels (category, else name) of spans that are not work, at most `most`, in falling order. Returns
 * their number. Only profiles without cores and devices have them. */
size_t mrd_workers_labels(const mrd_workers *w, mrd_sid *ret_labels, size_t most);
/* The worker that a track belongs to, MRD_NO_WORKER none. */
uint32_t mrd_workers_of(const mrd_workers *w, mrd_track_id track);
/* What an event is. *ret is written for
 * MRD_WORK_WORKER and the kinds below it. */
mrd_work_kind mrd_workers_see(mrd_workers *w, const mrd_event *ev, mrd_work *ret);
/* Whether an MRD_LOSS event concerns this worker: of its core, process or node, and not of
 * annotations of threads. *ret_on: MRD_ON_GAP or MRD_ON_PAUSED. */
bool mrd_workers_lost(const mrd_workers *w, const mrd_event *ev, uint32_t worker,
                      mrd_work_on *ret_on);
/* The order of processes in lists: by rank where there are ranks, then mrd_catalog_process_order. */
int mrd_workers_process_order(const mrd_catalog *cat, mrd_proc_id a, mrd_proc_id b);

#endif
