/*
 * agent/hang/ranks.h - the state of each process that enters operations together with other ranks:
 * which operations, how often, whether it is inside, and what the kernel says about the process.
 *
 * The aggregator compares it when a job stands still (aggregator/core/hang/hang.h). The counts are
 * in the headers of the rings (capture/api/ops.h), so that reading them costs no event anything. A
 * process is looked at ten times a second. /proc is read only for a process that entered and left
 * nothing since the last look.
 *
 * Needs    a process that records its API calls: MERIDIAN_ENABLE, or a session that selected it.
 * Changes  mrd_ranks_version changes when the aggregator has to know: a process became quiet, went
 *          on, was stopped, ended. A process that continues changes nothing.
 * Threads  one, the agent's loop. Memory: at most MRD_RANKS_MAX processes.
 */
#ifndef MRD_AGENT_HANG_RANKS_H
#define MRD_AGENT_HANG_RANKS_H

#include "agent/rings/drain.h"

#define MRD_RANKS_MAX 512u

typedef struct mrd_ranks mrd_ranks;

mrd_err mrd_ranks_open(mrd_drain *drain, const char *proc_root, mrd_ranks **ret_ranks,
                       mrd_why *why);
void mrd_ranks_close(mrd_ranks *ranks); /* Does nothing for NULL. */
/* Notes that a process with rings ended. */
void mrd_ranks_gone(mrd_ranks *ranks, mrd_drain_process *process, mrd_local_ns now);
void mrd_ranks_step(mrd_ranks *ranks, mrd_local_ns now);
mrd_local_ns mrd_ranks_next_ns(const mrd_ranks *ranks);
/* Returns a number that changes with the state of the processes. 0 means that no process was ever
 * seen, so that there is nothing to send. */
uint64_t mrd_ranks_version(const mrd_ranks *ranks);

/* The state of one process. Texts are valid until the next mrd_ranks_step(). */
typedef struct {
    const mrd_ident *ident;
    bool gone;
    char state;               /* letter of /proc/PID/stat; 'X' if it ended, '?' if unknown */
    mrd_local_ns state_at;    /* since when `state` is unchanged */
    mrd_local_ns quiet, idle; /* same meaning as in mrd_hang_rank */
    const char *lost;         /* why the process's counts are incomplete; "" if they are complete */
    bool partial;             /* operations that it entered long ago may be missing in `ops` */
    const char *inside;       /* names of its open spans, outermost first */
    bool traced;              /* the runtime's trace of the process is recorded */
    const char *running; /* event types that began in it during the open call and did not end */
    const mrd_drain_op *ops;
    size_t n_ops;
} mrd_rank_state;

/* Gets the i-th process. Returns false beyond the last. */
bool mrd_ranks_get(const mrd_ranks *ranks, size_t i, mrd_rank_state *ret_state);
/* Returns true if this process runs, and entered and left no operation for a second. *ret_ticks is
 * its start time in this agent's /proc; -1 if unknown, because the process has a clock of its own. */
bool mrd_ranks_stands(const mrd_ranks *ranks, int64_t pid, int64_t start_ticks, int64_t *ret_ticks);
/* Returns the number of processes beyond MRD_RANKS_MAX. */
uint32_t mrd_ranks_left_out(const mrd_ranks *ranks);

#endif
