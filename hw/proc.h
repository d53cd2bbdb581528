/*
 * hw/proc.h - reads CPU, memory and control group of one process from /proc and the cgroup tree.
 *
 * All text is parsed as untrusted input. A value that is missing or invalid is MRD_NONE. Threads:
 * stateless.
 */
#ifndef MRD_HW_PROC_H
#define MRD_HW_PROC_H

#include "hw/hw.h"

typedef struct {
    mrd_dur_ns cpu_user_ns, cpu_system_ns;
    /* start time in USER_HZ since boot; differs between two processes that had the same pid */
    int64_t start_ticks;
    int64_t rss_bytes, virtual_bytes, swap_bytes; /* MRD_NONE when not known */
    int64_t threads, minor_faults, major_faults;
    int64_t switches_voluntary, switches_involuntary; /* MRD_NONE when not known */
    int64_t ppid;
    char state;
    char comm[64];
} mrd_proc_stat;

/* Reads the counters of a process. pid 0 means the calling process. Errors: NOTFOUND (the process
 * has ended), DENIED, CORRUPT. */
mrd_err mrd_proc_read(const char *proc_root, int64_t pid, mrd_proc_stat *ret_stat, mrd_why *why);
/* Parses the text of /proc/<pid>/stat, in which `comm` may contain spaces and parentheses. Errors:
 * CORRUPT. */
mrd_err mrd_proc_parse_stat(mrd_str text, mrd_proc_stat *ret_stat);

typedef struct {
    /* CPU time used by the group: in total, in user mode, in kernel mode */
    mrd_dur_ns cpu_ns, cpu_user_ns, cpu_system_ns;
    mrd_dur_ns throttled_ns;
    /* number of CPU periods in which the group was throttled */
    int64_t throttled;
    /* memory_limit_bytes is INT64_MAX if there is no limit */
    int64_t memory_bytes, memory_limit_bytes, memory_peak_bytes;
    int64_t pids;
    int64_t oom_kills;
} mrd_cgroup_stat; /* members are MRD_NONE if unknown */

/*
 * Stores the path of a process's control group below the root of the cgroup tree, such as
 * "/kubepods.slice/.../cri-containerd-<id>.scope". *ret_v2 is true for cgroup v2. In cgroup v1,
 * this is the path in the tree of the memory controller. Errors: NOTFOUND, LIMIT.
 */
mrd_err mrd_cgroup_of(const char *proc_root, int64_t pid, char path[1024], bool *ret_v2,
                      mrd_why *why);
/* Parses the text of /proc/<pid>/cgroup. Errors: NOTFOUND, LIMIT (path too long), INVALID (a path
 * with ".."). */
mrd_err mrd_cgroup_parse(mrd_str text, char path[1024], bool *ret_v2);
/* Reads the counters of a control group in the cgroup tree at cgroup_root. Errors: NOTFOUND. */
mrd_err mrd_cgroup_read(const char *cgroup_root, const char *path, bool v2,
                        mrd_cgroup_stat *ret_stat, mrd_why *why);

#endif
