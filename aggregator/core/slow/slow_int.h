/* aggregator/core/slow/slow_int.h - internals of the slow watch: slow.c stores the reports of
 * nodes, slow_slots.c turns readings into slots, slow_rule.c compares ranks, slow_verdict.c
 * gives verdicts, and slow_list.c lists jobs and ranks */
#ifndef MRD_AGGREGATOR_CORE_SLOW_SLOW_INT_H
#define MRD_AGGREGATOR_CORE_SLOW_SLOW_INT_H

#include "aggregator/core/slow/slow.h"
#include "base/map.h"

#define SLOW_RECENT 5 /* number of slots that count as the present */

typedef struct slow_job slow_job;

/* Mean times of a step between two readings of a rank, in ns. */
typedef struct {
    uint32_t steps; /* number of steps between the readings; 0 if the slot has no values */
    bool fresh;     /* a reading lies in this slot; false if only a later reading covers it */
    uint32_t end;   /* time from the begin of the slot to its reading, if it is fresh */
    float step;
    float part[MRD_SLOW_PARTS]; /* negative if unknown */
    float collective;           /* inside operations that wait for other ranks, except executions */
    float cpu_wait;             /* negative if unknown */
} slow_slot;

/* The readings of one process. Slots are numbered by time: slot n begins at n * MRD_SLOW_SLOT. */
typedef struct {
    /* the newest reading, and the newest one of an earlier slot */
    mrd_slow_reading last, base;
    /* The process had no reading for a while. The next reading cannot be compared with `last`. */
    bool interrupted;
    /* numbers of the oldest and the newest slot; `newest_slot` is less if there is none */
    int64_t oldest_slot, newest_slot;
    slow_slot slots[MRD_SLOW_SLOTS]; /* slot n is at index n % MRD_SLOW_SLOTS */
} slow_series;

typedef struct {
    int64_t pid, start_ticks, rank, world;
    mrd_hang_state state;
    bool lost; /* the newest report has incomplete counts */
    slow_job *job;
    size_t member;       /* index in job->members */
    size_t node;         /* index in mrd_slow.nodes */
    bool reported;       /* the newest report of the node has this process */
    slow_series *series; /* NULL if the process has no reading */
} slow_process;

typedef struct {
    uint64_t key;
    char name[129];
    mrd_local_ns seen; /* when the node's last message arrived */
    mrd_local_ns gone; /* when the connection of the node ended; 0 while it is connected */
    slow_process **processes;
    size_t n, cap;
    size_t next;  /* index after the process that was reported last; the usual place of the next */
    bool changed; /* `processes` may have processes that were not reported again */
} slow_node;

/* A process that may get a verdict, or that has one. */
typedef struct {
    int64_t pid, start_ticks; /* `pid` 0 if there is no process */
    size_t node;
    mrd_slow_part part;
    unsigned scale; /* of the window in which the process is slow */
    unsigned seen;  /* number of judgements in a row that found it */
} slow_watched;

struct slow_job {
    mrd_job_key key;
    mrd_jobid identity; /* the key=value pairs that all processes of the job reported */
    bool confirmed;
    mrd_local_ns first_seen;
    slow_process **members;
    size_t n, cap;
    bool unsorted; /* `members` is not in the order of the ranks */
    /* Medians over the ranks. `medians_from` is the first slot that has to be computed again. */
    int64_t medians_from, medians_to;
    /* medians of the ranks' times of a step; 0 if no rank has a value */
    float medians[MRD_SLOW_SLOTS];
    /* medians of the parts of a step in the last 10 s; negative if unknown */
    float part[MRD_SLOW_PARTS];
    /* the verdict about the job; its class is NO_VERDICT if there is none */
    mrd_slow_verdict verdict;
    slow_watched candidate; /* the process that the verdict, or the next one, names first */
    uint64_t judged;        /* number of judgements of the job */
    /* spread between the ranks of each part, as a mean over the last judgements with blocks of 1, 4
     * and 16 slots; 0 if unknown */
    float between[3][MRD_SLOW_PARTS];
    /* number of judgements in a row in which the delay was over, or the rank was not judged */
    unsigned over, unjudged;
};

#define SLOW_SCALE_MAX 16 /* slots in the longest block */
#define SLOW_CHANNELS  9  /* values of a slot that are compared; slow_rule.c lists them */

/* The last slots of the ranks that repeat the same leading operation. */
typedef struct {
    slow_process **peers; /* in mrd_slow.peers */
    size_t n, all;        /* number of `peers`, and of all ranks with this operation */
    int64_t to;           /* number of the newest slot */
    unsigned scale;       /* slots in each of the 8 blocks */
    /* median time of a step, and the spread of the ranks' mean steps: ranks that wait for one another
     * have nearly equal steps */
    float step, step_spread;
    float *between;  /* slow_job.between of this scale */
    uint64_t judged; /* slow_job.judged */
    /* medians over the ranks that were already computed, by channel and slot */
    float medians[SLOW_CHANNELS][MRD_SLOW_SLOTS];
} slow_window;

/* A slow rank, with the part of its step that is too long. All times are per step. */
typedef struct {
    slow_process *process;
    mrd_slow_part part;
    mrd_slow_class cls;
    unsigned scale;
    /* The rank's part minus the median part of its peers. The rank is slow if this excess is at
     * least `threshold`. */
    float excess, threshold;
    float spread, peers, step;
} slow_finding;

struct mrd_slow {
    slow_node *nodes;
    size_t n_nodes, cap_nodes;
    mrd_map node_by_key; /* maps a node's key to its index in `nodes` */
    slow_job **jobs;
    size_t n_jobs, cap_jobs;
    mrd_map job_by_key;   /* maps the hash of a job's key to its index in `jobs` */
    mrd_local_ns stepped; /* time of the last judgement */
    mrd_slow_verdict *history;
    size_t n_history, history_at;
    mrd_slow_verdict *changed;
    size_t n_changed, cap_changed;
    float *scratch; /* memory for medians */
    size_t cap_scratch;
    slow_process **peers; /* the ranks that are compared at present */
    size_t cap_peers;
    slow_finding *findings; /* the slow ranks of the job that is judged */
    size_t n_findings, cap_findings;
    uint64_t last_id;
    mrd_slow_counts counts;
};

/* Adds a reading to the series of the process. Readings that cannot be true are counted and
 * dropped. A change of the leading operation begins the series again. */
void mrd_slow_take(mrd_slow *slow, slow_process *process, const mrd_slow_reading *reading);
/* Returns the values of the process in this slot, or NULL if there are none. */
const slow_slot *mrd_slow_slot_of(const slow_process *process, int64_t slot);
/* Returns the median of n numbers, n > 0. Changes their order. */
float mrd_slow_median(float *v, size_t n);
/* Sorts the ranks of the job by number, and computes the medians that the lists of jobs show. */
void mrd_slow_refresh(mrd_slow *slow, slow_job *job);
/* Judges a job: gives a verdict, updates or withdraws it. */
void mrd_slow_judge(mrd_slow *slow, slow_job *job, mrd_local_ns now);
/* Withdraws the verdict about the job, if there is one. */
void mrd_slow_withdraw(mrd_slow *slow, slow_job *job, mrd_local_ns now);

/* ---- slow_rule.c ---- */

/* Returns true if the process has readings and runs, and if its node sends messages. */
bool mrd_slow_is_comparable(const mrd_slow *slow, const slow_process *process, mrd_local_ns now);
bool mrd_slow_has_same_lead(const slow_process *a, const slow_process *b);
/* Collects the ranks of the job that can be compared with `like`, over the last 8 * `scale` slots.
 * Returns false if they are less than 3, or if the slots have too few readings. The window is valid
 * until the next call. */
bool mrd_slow_window_open(mrd_slow *slow, slow_job *job, const slow_process *like, mrd_local_ns now,
                          unsigned scale, slow_window *ret_window);
/* Adds the slow ranks of the window to slow->findings. `has_device` is true if the device's own
 * work is known for a rank of the job. */
void mrd_slow_find(mrd_slow *slow, slow_window *window, bool has_device);
/* Compares one part of one rank. Returns false if it is unknown. */
bool mrd_slow_check(mrd_slow *slow, slow_window *window, const slow_process *process,
                    mrd_slow_part part, slow_finding *ret_finding);
/* Finds the time at which the rank became slow. `*ret_first` is true if it was slow in all readings
 * that are stored. */
mrd_local_ns mrd_slow_onset(mrd_slow *slow, slow_window *window, const slow_finding *finding,
                            bool *ret_first);
/* Returns how much shorter a step would be without the ranks in slow->findings. */
float mrd_slow_loss(mrd_slow *slow, slow_window *window, const slow_finding *finding);
slow_job *mrd_slow_find_job(const mrd_slow *slow, const mrd_job_key *key, bool confirmed);

#endif
