/*
 * trace/analysis/step_path.h - steps over time, and the critical path through each.
 *
 * Steps     of one process: the one whose first step begins first. A step inside another is left out. At
 *           its begin and end all workers' accounts are read, so each step has a breakdown of all.
 * Path      backwards from the step's end: what the process's worker did (of several the one whose
 *           device works longest; where none has begun yet, of all workers), until it last waited for
 *           somebody in a collective or barrier; there the path goes on with the one that came last, at
 *           its begin; and so on, to the step's begin. So the path holds no waiting in collectives and
 *           barriers that met, each instant of the step is in it once, and its parts
 *           (trace/analysis/worker_time.h) add up to the step exactly. Communication on it outside of
 *           these (single messages, broadcasts, collectives that lack parts or that somebody left, by its
 *           clock, before the last came) may be waiting; how much there is, is unmet_ns. Time before a
 *           worker's first device span is idle; a step that ends before anybody's is idle and nobody's.
 *           Who came last is the estimate of the clocks; whether it is proven, the collectives say.
 * Share     of a worker: how long the path ran through it. The MRD_PATH_SHARES largest are kept per
 *           path, the others are in rest_ns.
 * Late      of a step: the worker for which others waited longest in it. Waiting for several that came at
 *           the same time is nobody's.
 * Without steps there is one path, from the first device span of the worker where it ends backwards to.
 *
 * Memory    grows with workers. Blocks: MRD_PATH_BLOCKS at most; neighbours are added up when there are more.
 * Threads   belongs to one thread.
 * Source    critical path of message-passing programs (Yang and Miller 1988; Scalasca).
 */
#ifndef MRD_TRACE_STEP_PATH_H
#define MRD_TRACE_STEP_PATH_H

#include "trace/analysis/gather.h"
#include "trace/analysis/worker_time.h"

#define MRD_PATH_SHARES 8u
#define MRD_PATH_BLOCKS 32u

/* What a worker did until an instant. */
typedef struct {
    bool any; /* a device span was there */
    mrd_ev_ns first, device_end;
    uint64_t part_ns[MRD_REPORT_PARTS];
    uint64_t unmet_ns; /* trace/analysis/worker_time.h */
} mrd_step_account;

typedef void (*mrd_step_account_fn)(void *self, uint32_t worker, mrd_ev_ns at,
                                    mrd_step_account *ret);

typedef struct {
    uint32_t worker;
    uint64_t ns;
} mrd_path_share;

typedef struct {
    mrd_ev_ns begin;
    uint64_t ns; /* the parts add up to it, and so do the shares with rest_ns */
    uint64_t part_ns[MRD_REPORT_PARTS];
    uint64_t unmet_ns; /* of its exposed and waiting parts, what may be waiting */
    mrd_path_share share[MRD_PATH_SHARES]; /* by falling time */
    uint32_t shares;
    uint64_t rest_ns, changes; /* times that it goes on with another worker */
} mrd_critical_path;

/* So many steps in a row. */
typedef struct {
    uint64_t steps, ns;
    uint64_t part_ns[MRD_REPORT_PARTS]; /* of all workers, within the steps */
    uint64_t path_ns[MRD_REPORT_PARTS];
} mrd_step_block;

typedef struct {
    mrd_proc_id process;
    uint64_t steps; /* over; 0: the path is of the whole recording */
    uint64_t width; /* steps in a block, but for the last */
    size_t blocks;
    uint64_t late_steps;     /* in which somebody waited */
    uint64_t changed;        /* of these, another one was late than in the one before */
    uint64_t path_of_all_ns; /* sum of the paths */
    uint64_t path_ns[MRD_REPORT_PARTS];
    uint64_t unmet_ns; /* of the paths */
    uint64_t changes;
    mrd_critical_path slowest; /* step; without steps the path */
    uint64_t slowest_number;
} mrd_step_totals;

/* Of a worker, over all steps. */
typedef struct {
    uint64_t path_ns; /* the path ran through it, as far as shares were kept */
    uint64_t late;    /* steps in which others waited longest for it */
    uint64_t caused_ns;
} mrd_step_worker;

typedef struct mrd_step_path mrd_step_path;

mrd_step_path *mrd_step_path_new(const mrd_workers *who, mrd_step_account_fn account,
                                 void *self); /* NULL without memory */
void mrd_step_path_free(mrd_step_path *p);    /* NULL is fine */
/* A step of a process begins. What came before is accounted; call over first. */
void mrd_step_path_begin(mrd_step_path *p, mrd_proc_id process, mrd_ev_ns begin, mrd_ev_ns end);
/* When the step ends that is under way; INT64_MAX none. With the first event at or after it, call over. */
mrd_ev_ns mrd_step_path_end(const mrd_step_path *p);
void mrd_step_path_over(mrd_step_path *p);
/* The last part of a collective begins (mrd_gather_on_met). */
void mrd_step_path_meet(mrd_step_path *p, const mrd_gathered *c);
void mrd_step_path_finish(mrd_step_path *p);
/* Gives workers other numbers: place[old] is the new one, which is not larger. */
void mrd_step_path_renumber(mrd_step_path *p, const uint32_t *place);

const mrd_step_totals *mrd_step_path_totals(const mrd_step_path *p);
const mrd_step_block *mrd_step_path_blocks(const mrd_step_path *p, size_t *ret_n);
const mrd_step_worker *mrd_step_path_worker(const mrd_step_path *p, uint32_t worker);

#endif
