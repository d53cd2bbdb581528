/*
 * agent/devprof.h - captures of the runtime's own that sessions ask for, device profiles and inspect: tells the
 * workloads by control files beside their rings (docs/nrt.md), hears their answers as notices, and keeps who was
 * armed, what was written and why not, for the manifest. Models that are chosen by name become numbers here: only
 * the agent knows names.
 *
 * A process belongs to one request at a time. Processes that appear while a session records are
 * asked too. Files are found by agent/files.h: the answers name the folder.
 * Threads: one. Memory: MRD_DEVPROF_RESULTS answers of each session; that there were more is logged.
 */
#ifndef MRD_AGENT_DEVPROF_H
#define MRD_AGENT_DEVPROF_H

#include "agent/models.h"

#define MRD_DEVPROF_RESULTS 256 /* as the manifest takes of a node */

typedef struct mrd_devprof mrd_devprof;

typedef struct {
    int64_t pid, core;   /* core MRD_NONE: the process as a whole */
    const char *state;   /* "asked", "armed", "written", "refused", "ended": static */
    uint32_t count;      /* profiles written */
    const char *message; /* why not; "" */
} mrd_devprof_result;

/* All are borrowed. */
mrd_err mrd_devprof_open(mrd_record *record, mrd_drain *drain, const mrd_model_table *models,
                         const char *instance_id, mrd_devprof **ret_devprof, mrd_why *why);
void mrd_devprof_close(mrd_devprof *d); /* control files stay: a successor goes on. NULL is fine */
/* Asks, ends and gives up what is due. */
void mrd_devprof_step(mrd_devprof *d, mrd_local_ns now);
/* Continuous profiles of the session are saved now. */
void mrd_devprof_save(mrd_devprof *d, uint64_t session, mrd_local_ns now);
/* A notice of a process; false when it is about something else. */
bool mrd_devprof_notice(mrd_devprof *d, mrd_drain_process *process, const mrd_event *ev,
                        mrd_local_ns now);
void mrd_devprof_gone(mrd_devprof *d, const mrd_drain_process *process);
/* There are new processes: what a predecessor asked of them is withdrawn, unless a session still
 * does. */
void mrd_devprof_seen(mrd_devprof *d);
/* The session must not end yet: an answer is missing. *ret_since (RAW): when the newest file was
 * told of, 0 none. */
bool mrd_devprof_pending(const mrd_devprof *d, uint64_t session, int64_t *ret_since);
/* False beyond the last, or when d is NULL; texts live until the next call of anything here. */
bool mrd_devprof_get(const mrd_devprof *d, uint64_t session, size_t i,
                     mrd_devprof_result *ret_result);

#endif
