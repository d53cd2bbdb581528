/* agent/hang/work.h - how much a process and its children did up to now: CPU time, and bytes that
 * the process read and wrote. So a process that waits for a compiler (its child) or writes a
 * checkpoint does not look idle. */
#ifndef MRD_AGENT_HANG_WORK_H
#define MRD_AGENT_HANG_WORK_H

#include "base/clock.h"
#include "base/err.h"

typedef struct {
    mrd_dur_ns cpu;
    uint64_t bytes; /* bytes read and written; 0 if the kernel does not report them */
} mrd_process_work;

/* Reads the work of process `pid`. Errors: as mrd_proc_read. */
mrd_err mrd_work_read(const char *proc_root, int64_t pid, mrd_process_work *ret_work);

#endif
