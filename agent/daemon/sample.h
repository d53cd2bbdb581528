/*
 * agent/daemon/sample.h - samples host and device counters of the node, and CPU and memory of processes
 * with rings, as counter events at a fixed interval
 *
 * An unchanged value is emitted only every tenth time, unless a session requests all. Counters are
 * selected by the patterns of hw/hw.h. Threads: one. A device that hangs delays it by at most a
 * tenth of the interval, because hw counter sessions have a deadline.
 */
#ifndef MRD_AGENT_DAEMON_SAMPLE_H
#define MRD_AGENT_DAEMON_SAMPLE_H

#include "agent/rings/drain.h"
#include "hw/hw.h"

typedef struct mrd_sample mrd_sample;

typedef struct {
    /* catalog for the process that represents the node; NULL means a new one */
    mrd_catalog *catalog;
    const char *instance_id;
    const char *proc_root; /* root of procfs; NULL means /proc */
    bool simulated;
    mrd_dur_ns period;         /* interval of the node's counters; 0 means off */
    mrd_dur_ns process_period; /* interval of the processes' values; 0 means off */
    const char *const *patterns;
    size_t n_patterns;
    bool strict; /* a pattern without a match is an error that names it; otherwise it is ignored */
    /* Takes an event, as in mrd_drain_options; clock is MRD_DRAIN_RAW. */
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    void *self;
} mrd_sample_options;

typedef struct {
    uint64_t samples; /* number of emitted events */
    uint64_t begun, refused;
    uint64_t failed; /* number of failed polls */
    size_t counters;
    /* reason of the last failed poll; empty if the last poll succeeded */
    char message[MRD_WHY_MAX];
} mrd_sample_stats;

#define MRD_SAMPLE_DEFAULT                                                                         \
    "cpu.*.util_percent,mem.used_bytes,mem.used_percent,load.1min,net.*.rx_bytes,net.*.tx_bytes,"  \
    "disk.*.read_bytes,disk.*.write_bytes,pressure.*.some_ns,neuron*.stats.power.utilization.*,"   \
    "neuron*.stats.memory_usage.*.total,neuron*.stats.status.*.total,neuron*.stats.hardware.*,"    \
    "runtime.*utilization,runtime.*used_bytes.neuron_device,runtime.*.execution_summary.*"

/* Opens a sampler. `hw` is borrowed; NULL samples only processes. Errors: NOMEM and errors of
 * mrd_hw_session_create. */
mrd_err mrd_sample_open(mrd_hw *hw, const mrd_sample_options *options, mrd_sample **ret_sample,
                        mrd_why *why);
void mrd_sample_close(mrd_sample *sample);
/* Samples everything that is due. The processes come from `drain`; NULL means none. */
void mrd_sample_step(mrd_sample *sample, const mrd_drain *drain, mrd_local_ns now);
mrd_local_ns mrd_sample_next_ns(const mrd_sample *sample);
/* Makes the next step sample and emit all values, because a session begins. */
void mrd_sample_all_now(mrd_sample *sample);
/* With `always`, every sample emits all values from now on, including unchanged ones. */
void mrd_sample_repeat(mrd_sample *sample, bool always);
/* Returns the process that represents the node. */
mrd_drain_process *mrd_sample_node(mrd_sample *sample);
/* Gets the statistics; all are zero if `sample` is NULL. */
void mrd_sample_get_stats(const mrd_sample *sample, mrd_sample_stats *ret_stats);

#endif
