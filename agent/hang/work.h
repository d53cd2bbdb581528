/* agent/hang/work.h - how much a process and its children did up to now: CPU time, and bytes that the
 * process read and wrote. A compiler is a child, a checkpoint is written. */
#ifndef MRD_AGENT_HANG_WORK_H
#define MRD_AGENT_HANG_WORK_H

#include "base/clock.h"
#include "base/err.h"

typedef struct {
    mrd_dur_ns cpu;
    uint64_t bytes; /* 0 if the kernel does not say */
} mrd_process_work;

/* Errors: as mrd_proc_read. */
mrd_err mrd_work_read(const char *proc_root, int64_t pid, mrd_process_work *ret_work);

#endif
