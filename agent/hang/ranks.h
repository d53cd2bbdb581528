/*
 * agent/hang/ranks.h - keeps the state of each process that enters operations together with other
 * ranks. The state says which operations, how often, whether a call is open, and what the kernel
 * says about the process.
 *
 * The aggregator compares the states when a job makes no progress (aggregator/core/hang/hang.h).
 * The counts are in the headers of the rings (capture/api/ops.h), so they can be read without cost
 * for any event. Each process is checked ten times a second. /proc is only read for a process that
 * entered and left no operation since the last check.
 *
 * Needs    A process must record its API calls: by MERIDIAN_ENABLE, or because a session selects
 *          it.
 * Changes  mrd_ranks_version changes when the aggregator must be informed: a process made no
 *          progress for a second, continued after that, was stopped, or ended. It does not change
 *          while a process makes progress.
 * Threads  One, the agent's loop. Memory: at most MRD_RANKS_MAX processes.
 */
#ifndef MRD_AGENT_HANG_RANKS_H
#define MRD_AGENT_HANG_RANKS_H

#include "agent/hang/pace.h"
#include "agent/hang/work.h"
#include "agent/rings/drain.h"

#define MRD_RANKS_MAX 512u

typedef struct mrd_ranks mrd_ranks;

mrd_err mrd_ranks_open(mrd_drain *drain, const char *proc_root, mrd_ranks **ret_ranks,
                       mrd_why *why);
void mrd_ranks_close(mrd_ranks *ranks); /* Does nothing for NULL. */
/* Handles that a process with rings ended. */
void mrd_ranks_gone(mrd_ranks *ranks, mrd_drain_process *process, mrd_local_ns now);
void mrd_ranks_step(mrd_ranks *ranks, mrd_local_ns now);
mrd_local_ns mrd_ranks_next_ns(const mrd_ranks *ranks);
/* Returns a number that changes when the state of a process changes. 0 means that there was no
 * process yet, so that nothing need be sent. */
uint64_t mrd_ranks_version(const mrd_ranks *ranks);
/* Returns a number that changes when the pace of a process changes (agent/hang/pace.h). Processes
 * without a job have no pace. */
uint64_t mrd_ranks_paces(const mrd_ranks *ranks);
/* Takes an event of a process, from which the own work of its cores is measured. */
void mrd_ranks_event(mrd_ranks *ranks, const mrd_drain_process *process, unsigned clock,
                     const mrd_event *ev);

/* The state of one process. Texts are valid until the next mrd_ranks_step(). */
typedef struct {
    const mrd_ident *ident;
    bool gone;
    /* state of the process as the letter in /proc/PID/stat; 'R' if it makes progress, 'X' if it
     * ended, '?' if unknown */
    char state;
    mrd_local_ns state_at; /* since when `state` is unchanged */
    /* RAW times since when the process makes no progress, and since when it does no work either;
     * defined as in mrd_hang_rank */
    mrd_local_ns quiet, idle;
    const char *lost;     /* why the process's counts are incomplete; "" if they are complete */
    mrd_local_ns watched; /* RAW time since when this agent watches the process */
    bool failed;          /* the last call of an operation returned an error */
    /* operations that the process entered long ago may be missing in `ops` */
    bool partial;
    const char *inside; /* names of the process's open spans, outermost first */
    bool traced;        /* the Neuron runtime's trace of the process is recorded */
    /* types of the events in the runtime's trace that began during the open call and did not end */
    const char *running;
    const mrd_drain_op *ops;
    size_t n_ops;
    const mrd_rank_pace
        *pace; /* NULL if the process has none; then the next members mean nothing */
    /* CPU times of the main thread, read soon after the pace; -1 if unknown */
    mrd_thread_work thread;
    /* Own work of the process's cores and the number of executions that it includes
     * (agent/hang/device_time.h). `device` is -1 if it is unknown: the runtime's trace is not
     * recorded or lacks collectives, or events were lost. */
    mrd_dur_ns device;
    uint64_t executions;
} mrd_rank_state;

/* Gets the state of the i-th process. Returns false if there is no i-th process. */
bool mrd_ranks_get(const mrd_ranks *ranks, size_t i, mrd_rank_state *ret_state);
/* Returns true if this process is running but has entered and left no operation for a second.
 * *ret_ticks is its start time in this agent's /proc, or -1 if the process is in another time
 * namespace. *ret_uid is its user. */
bool mrd_ranks_stands(const mrd_ranks *ranks, int64_t pid, int64_t start_ticks, int64_t *ret_ticks,
                      int64_t *ret_uid);
/* Returns the number of processes that are left out because of MRD_RANKS_MAX. */
uint32_t mrd_ranks_left_out(const mrd_ranks *ranks);

#endif
