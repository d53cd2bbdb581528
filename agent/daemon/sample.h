/*
 * agent/daemon/sample.h - samples counters at a fixed interval and emits them as counter events.
 * The counters are those of the host and the devices of the node, and CPU and memory of processes
 * with rings.
 *
 * An unchanged value is emitted only every tenth time, unless a session requests all values.
 * Counters are selected by the patterns of hw/hw.h. All functions must be called by one thread. A
 * device that hangs delays a step by at most a tenth of the interval, because reading counters
 * (hw/) has a deadline.
 */
#ifndef MRD_AGENT_DAEMON_SAMPLE_H
#define MRD_AGENT_DAEMON_SAMPLE_H

#include "agent/rings/drain.h"
#include "hw/hw.h"

typedef struct mrd_sample mrd_sample;

typedef struct {
    /* catalog with the names for the process that represents the node; NULL creates a new
     * catalog */
    mrd_catalog *catalog;
    const char *instance_id;
    const char *proc_root; /* root of procfs; NULL means /proc */
    bool simulated;
    mrd_dur_ns period;         /* interval at which the node's counters are sampled; 0 means off */
    mrd_dur_ns process_period; /* interval at which processes are sampled; 0 means off */
    const char *const *patterns;
    size_t n_patterns;
    /* true means that a pattern without a matching counter is an error; false means that this
     * pattern is ignored */
    bool strict;
    /* Called for each counter event, like mrd_drain_options.event. `clock` is always
     * MRD_DRAIN_RAW. */
    mrd_err (*event)(void *self, mrd_drain_process *process, unsigned clock, const mrd_event *ev);
    void *self;
} mrd_sample_options;

typedef struct {
    uint64_t samples; /* number of counter events that were emitted */
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

/* Opens a sampler. `hw` is borrowed. If `hw` is NULL, only processes are sampled. Errors: NOMEM and
 * errors of mrd_hw_session_create. */
mrd_err mrd_sample_open(mrd_hw *hw, const mrd_sample_options *options, mrd_sample **ret_sample,
                        mrd_why *why);
void mrd_sample_close(mrd_sample *sample);
/* Samples all counters and processes that are due. The processes come from `drain`; NULL means no
 * processes. */
void mrd_sample_step(mrd_sample *sample, const mrd_drain *drain, mrd_local_ns now);
mrd_local_ns mrd_sample_next_ns(const mrd_sample *sample);
/* Makes the next step sample and emit all values, because a session begins. */
void mrd_sample_all_now(mrd_sample *sample);
/* Chooses whether unchanged values are emitted in every sample (`always` is true) or only in every
 * tenth. */
void mrd_sample_repeat(mrd_sample *sample, bool always);
/* Returns the process that represents the node. */
mrd_drain_process *mrd_sample_node(mrd_sample *sample);
/* Gets the statistics; all are zero if `sample` is NULL. */
void mrd_sample_get_stats(const mrd_sample *sample, mrd_sample_stats *ret_stats);

#endif
