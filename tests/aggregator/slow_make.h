/*
 * tests/aggregator/slow_make.h - generates parallel jobs with known delays in fake time, and reports
 * them to a slow watch as agents do.
 */
#ifndef MRD_TESTS_AGGREGATOR_SLOW_MAKE_H
#define MRD_TESTS_AGGREGATOR_SLOW_MAKE_H

#include "aggregator/core/slow/slow.h"

#define JOB_RANKS 1024
#define PER_NODE  8

typedef enum {
    HEALTHY,
    HOST,
    DEVICE,
    RUNTIME,
    STARVED,
    EXECUTION, /* the device is slow, and the runtime's trace is off */
    RAMP,
    FROM_START,
    TWO_SLOW, /* another rank has half of the delay */
    /* nobody is slow */
    LOGNORMAL,
    PARETO,
    ROTATES,
    ROTATES_SLOWLY,
    CHECKPOINT,
    LONGER,
    REPLICAS,
    STAGES,
    MOVES,
    CLOCKS,
    TWO_SPEEDS,
    EVALUATES,
    NODE_NOISE,
    HALF_SPEEDS,
    BIMODAL,
    BIMODAL_APART,
    WANDERS,
    FAST_HOST,
    MOVED,
    REPLICA_SLOW,
    REPLICA_DEVICE,
    LONG_PAUSE,
    PAUSES,
    WILD
} fault;

typedef struct {
    mrd_slow_reading now; /* counts until now */
    mrd_slow_reading newest,
        before;                /* at the begin of the newest execution, and of the one before */
    double host, copy, device; /* time of this rank in a normal step, in ns */
    int64_t left_collective;   /* end of its last step */
    uint64_t entered[4];
    bool left, lost;
    unsigned lies; /* 0, or in which way its reports are wrong */
    double wander; /* noise that changes slowly, as a part of the step */
    int64_t begin; /* of the newest execution */
} made_rank;

typedef struct {
    mrd_slow *slow;
    made_rank *r;
    unsigned ranks, nodes;
    fault kind;
    bool traced;   /* the device's own work is reported */
    bool separate; /* the collective is a call of its own */
    bool apart;    /* the ranks do not wait for one another */
    int culprit;
    double size;        /* the delay, as a part of the step */
    int64_t step;       /* a step without a delay, in ns */
    int64_t onset, end; /* of the delay; `end` 0: it does not end */
    int64_t now, tick;
    int64_t *next_report;     /* of each node */
    int64_t clock[JOB_RANKS]; /* error of each node's clock in the last report */
    double noise, shared;     /* `shared`: noise of one node in this step */
    uint64_t random, steps;
    unsigned given, withdrawn, wrong;
    mrd_slow_verdict first;
    const char *name;
} job;

double uniform(job *j); /* from 0 to 1 */
double normal(job *j);
/* Makes a healthy job, or one with a fault of this kind from j->onset on. */
void job_init(job *j, unsigned ranks, unsigned seed, fault kind);
void job_fini(job *j);
void job_run(job *j, int64_t until);
/* Returns how many seeds a table uses: MRD_SLOW_SEEDS, or the default. */
unsigned seeds_of(unsigned usual);

#endif
