/*
 * hw/hw_ls.h - the Neuron devices of the node and how they are connected, from `neuron-ls -j`, else
 * from sysfs. Texts are bounded and may be empty; numbers not known are MRD_NONE.
 */
#ifndef MRD_HW_HW_LS_H
#define MRD_HW_HW_LS_H

#include "hw/hw.h"

#define MRD_LS_DEVICES   64
#define MRD_LS_LINKS     32
#define MRD_LS_CORES     64
#define MRD_LS_PROCESSES 64

typedef struct {
    int64_t pid;
    char command[128], runtime[32];
} mrd_ls_process;

typedef struct {
    int64_t device, numa_node, core_count, lnc, memory_bytes; /* lnc: logical core configuration */
    char bdf[32], cpu_affinity[128], type[32], instance_type[32];
    size_t n_links, n_cores, n_processes;
    int64_t links[MRD_LS_LINKS], cores[MRD_LS_CORES];
    mrd_ls_process processes[MRD_LS_PROCESSES];
} mrd_ls_device;

typedef struct {
    size_t n;
    uint64_t left_out; /* devices, links, cores or processes beyond the limits above */
    mrd_ls_device *devices;
} mrd_ls;

void mrd_ls_fini(mrd_ls *ls);
/* Parses the output of `neuron-ls -j`. Errors: SYNTAX, FORMAT, LIMIT, NOMEM. */
mrd_err mrd_ls_parse(mrd_str text, mrd_ls *ret_ls, mrd_why *why);
/* Runs tool (NULL: looks for neuron-ls) with a time-out. Errors: NOTFOUND, TIMEOUT, IO and parse's.
 */
mrd_err mrd_ls_run(const char *tool, mrd_dur_ns timeout, mrd_ls *ret_ls, mrd_why *why);
/* From the driver's tree: without processes. Errors: NOTFOUND when there is no driver. */
mrd_err mrd_ls_sysfs(const char *sys_root, mrd_ls *ret_ls, mrd_why *why);

#endif
