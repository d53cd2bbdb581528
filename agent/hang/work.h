/* agent/hang/work.h - reads how much a process did up to now: CPU time of the process and its
 * children, and bytes that the process read and wrote. A process that waits for a compiler (its
 * child) or writes a checkpoint is thus not idle. */
#ifndef MRD_AGENT_HANG_WORK_H
#define MRD_AGENT_HANG_WORK_H

#include "base/clock.h"
#include "base/err.h"

typedef struct {
    mrd_dur_ns cpu;
    uint64_t bytes; /* number of bytes read and written; 0 if the kernel does not report them */
} mrd_process_work;

/* Reads the work of process `pid` up to now. Errors: as for mrd_proc_read. */
mrd_err mrd_work_read(const char *proc_root, int64_t pid, mrd_process_work *ret_work);

#endif
