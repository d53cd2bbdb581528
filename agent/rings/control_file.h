/* agent/rings/control_file.h - sends a request to a workload as a small file in the directory of
 * the workload's rings. libmeridian reads the file (capture/nrt/nrt_request.c,
 * docs/reference/nrt.md) if root or the user of the workload wrote it. */
#ifndef MRD_AGENT_RINGS_CONTROL_FILE_H
#define MRD_AGENT_RINGS_CONTROL_FILE_H

#include "agent/rings/drain.h"

/* Replaces the file with the request to this process, atomically by a rename. Errors: IO, NOTFOUND
 * (the process has no rings any more), LIMIT. */
mrd_err mrd_control_file_put(mrd_drain *drain, mrd_drain_process *process, const char *text,
                             mrd_why *why);
void mrd_control_file_drop(mrd_drain *drain, mrd_drain_process *process);
/* Like mrd_control_file_put, for the file with the settings of the runtime's trace in this process
 * (capture/nrt/nrt_settings.h). */
mrd_err mrd_settings_file_put(mrd_drain *drain, mrd_drain_process *process, const char *text,
                              mrd_why *why);
void mrd_settings_file_drop(mrd_drain *drain, mrd_drain_process *process);

#endif
