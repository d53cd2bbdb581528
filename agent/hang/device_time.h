/*
 * agent/hang/device_time.h - measures the own work of a process's NeuronCores from the events of
 * the runtime's trace.
 *
 * The own work of an execution is the time of its span nc_exec_running without the parts in which
 * the core runs or waits for a collective (cc_running, cc_exec_barrier). A rank that waits for a
 * slow rank does so in these parts, so the own work of the slow rank is longer than that of its
 * peers.
 *
 * Cores     A core is a logical core. Each of its physical cores has a span of the same execution,
 *           but only one may have the collectives. So the spans of one execution are joined.
 * Order     An execution counts when the next execution of its core arrives, because the runtime
 *           reports the collectives inside it before that.
 * Losses    An execution does not count if events were lost during it, or if its core has more than
 *           MRD_DEVICE_WAITS separate collectives.
 * Memory    at most MRD_DEVICE_CORES cores with MRD_DEVICE_WAITS intervals each.
 * Threads   Each mrd_device_time belongs to one thread.
 */
#ifndef MRD_AGENT_HANG_DEVICE_TIME_H
#define MRD_AGENT_HANG_DEVICE_TIME_H

#include <stdbool.h>

#include "base/clock.h"

#define MRD_DEVICE_CORES 64u
#define MRD_DEVICE_WAITS 2048u

typedef struct mrd_device_time mrd_device_time;

mrd_device_time *mrd_device_time_new(void); /* Returns NULL if out of memory. */
void mrd_device_time_free(mrd_device_time *device);
/* Adds a span of the logical core with this key. `wait` is true for a collective, false for an execution.
 * Spans with an unknown length (dur < 0) are ignored. */
void mrd_device_time_add(mrd_device_time *device, uint64_t core, bool wait, mrd_ev_ns start,
                         mrd_dur_ns dur);
/* Handles that events of the process were lost. */
void mrd_device_time_lost(mrd_device_time *device);
/* Returns own work and the number of executions that it includes. Each call adds what the slowest
 * core did since the call before, because the other cores wait for it. The slowest core is the one
 * with the longest own work of an execution. So both values only grow. */
mrd_dur_ns mrd_device_time_take(mrd_device_time *device, uint64_t *ret_executions);

#endif
