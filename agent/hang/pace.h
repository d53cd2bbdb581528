/*
 * agent/hang/pace.h - measures how far a process came and how its main thread spent the time, at
 * the begin of one call of its leading operation.
 *
 * The aggregator subtracts two paces of a process. The difference describes whole steps: how many,
 * how long, and how long the main thread was inside which operation. The aggregator compares this
 * with the other ranks, to find the rank that makes the job slow.
 *
 * Leading   The operation that the process enters most often, but an execution if there is one. It
 *           is chosen again only after the process did not enter it for MRD_RANK_PACE_WINDOW.
 * Main      The main thread is the thread with the lowest id that enters the leading operation.
 * When      A pace is due MRD_RANK_PACE_EVERY after the one before. It is made by the first look that
 *           finds a call which began since the previous look, and that reads consistent times.
 * Restart   Between two paces, all times of the main thread together must grow as fast as the
 *           clock. They do not if the thread changed, or if an operation lost its slot in the ring.
 *           Then the process has no pace until the next one is due. The same applies if the leading
 *           operation changes. So the difference of two paces is exact, unless the process had no
 *           pace between them.
 * Threads   One, the agent's loop. Memory: sizeof(mrd_rank_pace_tracker) bytes for each process.
 */
#ifndef MRD_AGENT_HANG_PACE_H
#define MRD_AGENT_HANG_PACE_H

#include "agent/rings/rank_ops.h"

#define MRD_RANK_PACE_EVERY  (2 * MRD_SEC)
#define MRD_RANK_PACE_WINDOW (10 * MRD_SEC)

typedef struct {
    char name[MRD_DRAIN_OP_NAME];
    uint64_t group;
    uint64_t entered;  /* number of calls that the main thread had begun */
    mrd_dur_ns inside; /* time that the main thread had spent in ended calls */
} mrd_rank_pace_op;

/* What a process had done when a call of its leading operation began. */
typedef struct {
    mrd_local_ns at;    /* begin of the call; 0 if nothing was read yet */
    uint32_t thread;    /* the main thread, as in mrd_ring_ops_thread */
    mrd_dur_ns outside; /* time of the main thread between calls of any operation */
    /* operations, such as collectives, that the main thread entered */
    mrd_rank_pace_op ops[MRD_RING_OPS];
    size_t n_ops, lead; /* `lead` is the index of the leading operation (see above) in `ops` */
} mrd_rank_pace;

typedef struct {
    mrd_rank_pace_op lead; /* the leading operation; name "" if none is known */
    uint32_t thread;
    mrd_local_ns looked; /* time of the last look; 0 if there was none */
    mrd_local_ns window; /* begin of the time in which calls are counted to choose an operation */
    /* all operations, and how often the process had entered them at `window` */
    mrd_rank_pace_op starts[MRD_DRAIN_OPS];
    size_t n_starts;
    mrd_rank_pace last; /* the newest reading */
    bool valid;         /* `last` is the pace of the process */
    mrd_local_ns due;   /* when to read again */
} mrd_rank_pace_tracker;

/* Looks at the process at the time `now`. The tracker is zeroed before the first call. Call it about
 * ten times a second in irregular intervals, because equal intervals may always find the same part
 * of a step. Returns true if mrd_rank_pace_of changed: there is another pace, or none any more. */
bool mrd_rank_pace_look(mrd_rank_pace_tracker *tracker, const mrd_drain_ops_kept *ops,
                        const mrd_drain_threads *threads, mrd_local_ns now);
/* Returns the newest pace, or NULL if there is none. It is valid until the next look. */
const mrd_rank_pace *mrd_rank_pace_of(const mrd_rank_pace_tracker *tracker);

#endif
