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

/* What the kernel's scheduler says about a thread, since the thread began. */
typedef struct {
    mrd_dur_ns on_cpu;
    mrd_dur_ns cpu_wait; /* the thread was ready to run and waited for a CPU */
} mrd_thread_work;

/* Returns the id in proc_root of a thread of process `pid`, or 0 if it has ended. `tid` is the
 * thread's id in the process's own pid namespace, where the process has the id `own_pid`. own_pid is
 * MRD_NONE if that is the namespace of proc_root. */
int64_t mrd_work_find_thread(const char *proc_root, int64_t pid, int64_t own_pid, int64_t tid);
/* Reads the times of a thread with the ids of proc_root. Errors: NOTFOUND, also if the kernel does
 * not keep these times. */
mrd_err mrd_work_thread(const char *proc_root, int64_t pid, int64_t tid, mrd_thread_work *ret_work);

#endif
