/*
 * aggregator/core/decide/watch.h - connects the watches of jobs, for hangs and for slow ranks, with
 * the messages of nodes and with flight recorders.
 */
#ifndef MRD_AGGREGATOR_CORE_DECIDE_WATCH_H
#define MRD_AGGREGATOR_CORE_DECIDE_WATCH_H

#include "aggregator/core/model/state.h"

/* Adds a process of a node's report to the slow watch. `of` has its identity and state. A time of
 * the node plus `offset` is a time of the aggregator. */
void mrd_watch_take_pace(mrd_core *core, const mrd_node *node, const mrd_jobid *job,
                         const mrd_hang_rank *of, const Mrd__RankState *state, int64_t offset);
/* Judges the slow watch, logs its verdicts, and freezes flight recorders. */
void mrd_watch_slow(mrd_core *core);
/* Makes the flight recorders on the job's nodes save their events, because of `reason`. */
void mrd_watch_freeze(mrd_core *core, const mrd_job_key *job, const char *reason);

#endif
