/* agent/rings/drain_processes.h - keeps the processes with rings that the drain reads. Identifies
 * each process, and reports when it was found and when it ended. Only the drain's thread calls
 * these functions. */
#ifndef MRD_AGENT_RINGS_DRAIN_PROCESSES_H
#define MRD_AGENT_RINGS_DRAIN_PROCESSES_H

#include "agent/rings/drain_int.h"

/* Finds a process by its rings or notes of losses (ring_notes.h) that are being read. NULL if there
 * is none. */
proc *mrd_drain_proc_find(mrd_drain *drain, int64_t pid, uint64_t start_ticks);
/* Adds a process to the list, announces it (options.process), and restores the spans that were open
 * in a previous agent. NULL if out of memory. */
proc *mrd_drain_proc_new(mrd_drain *drain, const mrd_ident *id, const mrd_ring_info *info);
/* Ends a process that has no rings and no notes of losses left. Emits its open spans as unfinished,
 * reports the end, and frees the process. */
void mrd_drain_proc_unused(mrd_drain *drain, proc *pr);
/* Adds a process that has open spans from a previous agent but no rings. This is the callback
 * `orphan` of mrd_drain_open_step. */
void mrd_drain_proc_orphan(mrd_drain *drain, int64_t pid, const mrd_ring_info *info, uint64_t key,
                           const void *records);
/* Frees the process when the drain is closed. Reports nothing. */
void mrd_drain_proc_free(mrd_drain *drain, proc *pr);

#endif
