/*
 * agent/neuron/devprof.h - requests device profiles and inspect captures of the runtime for
 * sessions. Sends requests to workloads by control files in the directory of their rings
 * (docs/reference/nrt.md), receives answers as notices, and keeps the state of each request for the
 * manifest. Replaces names of models in a request by numbers, because only the agent knows the
 * names.
 *
 * A process serves one request at a time. Processes that appear while a session records receive the
 * request as well. The answers name a directory, in which agent/files/files.h finds the files. At
 * most MRD_DEVPROF_RESULTS answers per session are kept. Further answers are only logged. Only the
 * agent's loop calls these functions.
 */
#ifndef MRD_AGENT_NEURON_DEVPROF_H
#define MRD_AGENT_NEURON_DEVPROF_H

#include "agent/neuron/models.h"

/* maximum number of results per session of one node in the manifest */
#define MRD_DEVPROF_RESULTS 256

typedef struct mrd_devprof mrd_devprof;

typedef struct {
    /* process and core of this result; core MRD_NONE means the whole process */
    int64_t pid, core;
    /* static text: "asked" (requested), "armed", "written", "refused" or "ended" */
    const char *state;
    uint32_t count;      /* number of written profiles */
    const char *message; /* why no profile was written; "" without a reason */
} mrd_devprof_result;

/* Opens the module. All arguments are borrowed. */
mrd_err mrd_devprof_open(mrd_record *record, mrd_drain *drain, const mrd_model_table *models,
                         const char *instance_id, mrd_devprof **ret_devprof, mrd_why *why);
/* Closes the module. Keeps the control files of processes, so that the next agent continues the
 * requests. NULL is allowed. */
void mrd_devprof_close(mrd_devprof *prof);
/* Sends requests for device profiles to processes. Ends the requests of sessions that ended, and
 * drops requests that were not answered in time. */
void mrd_devprof_step(mrd_devprof *prof, mrd_local_ns now);
/* Requests that processes write the session's continuous device profiles now. */
void mrd_devprof_save(mrd_devprof *prof, uint64_t session, mrd_local_ns now);
/* Handles a notice from libmeridian in a process. Returns false if the notice is not about device
 * profiles or captures. */
bool mrd_devprof_notice(mrd_devprof *prof, mrd_drain_process *process, const mrd_event *ev,
                        mrd_local_ns now);
void mrd_devprof_gone(mrd_devprof *prof, const mrd_drain_process *process);
/* Cancels requests that a previous agent made for sessions that no longer exist. Must be called
 * when new processes appeared. */
void mrd_devprof_seen(mrd_devprof *prof);
/* Returns true if the session must not end yet, because a process has not answered. *ret_since is
 * the RAW time when the newest file was reported, 0 if no file was. */
bool mrd_devprof_pending(const mrd_devprof *prof, uint64_t session, int64_t *ret_since);
/* Gets the i-th result of a session's requests. Returns false after the last one, or if prof is
 * NULL. Texts are valid until the next call of this module. */
bool mrd_devprof_get(const mrd_devprof *prof, uint64_t session, size_t i,
                     mrd_devprof_result *ret_result);

#endif
