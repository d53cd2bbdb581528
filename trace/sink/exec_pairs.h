/*
 * trace/sink/exec_pairs.h - merges the two spans nc_exec_running that a logical core of two
 * physical ones (LNC 2) has for one execution. All outputs except the vendor's layouts
 * (mrd_sink_ops.each_half) get one span. So counts of executions and sums of their times are equal
 * in all outputs. Internal to trace/.
 *
 * Two spans of that name are halves of one execution if they have the same exec_id, process and
 * logical core, and are on the physical cores 2k and 2k+1. The second one must begin within the
 * first and at most MRD_PAIR_WAIT after its begin. The halves become one span (MRD_EV_PAIR) on the
 * track of core 2k, from the earlier begin to the later end. Times are never scaled, and the bound
 * is the wider one. The merged span has the arguments of the first half. For each core it also has
 * pcore<n>_timestamp and pcore<n>_duration, in ns of the profile's clock.
 *
 * A half stays an execution of its own if the other half was not recorded, began later, or came
 * after MRD_PAIR_EVENTS other events. Its argument pcore_missing then names the core of the other
 * half. Halves without an end, and logical cores with a track of only one physical core, are not
 * changed.
 *
 * Memory: the events within MRD_PAIR_WAIT of a waiting half, at most MRD_PAIR_EVENTS.
 */
#ifndef MRD_TRACE_SINK_EXEC_PAIRS_H
#define MRD_TRACE_SINK_EXEC_PAIRS_H

#include "trace/model/catalog.h"

/* the other half must begin within this time after the first, in ns */
#define MRD_PAIR_WAIT   1000000
#define MRD_PAIR_EVENTS 4096

typedef struct mrd_exec_pairs mrd_exec_pairs;
typedef mrd_err mrd_exec_pairs_fn(void *self, const mrd_event *ev);

/* Creates a merger that calls `give` with all events in order of time. *ret_pairs is NULL if no
 * logical core of the profile has two tracks. Errors: NOMEM. */
mrd_err mrd_exec_pairs_new(const mrd_catalog *cat, uint32_t profile, mrd_exec_pairs_fn *give,
                           void *self, mrd_exec_pairs **ret_pairs);
void mrd_exec_pairs_free(mrd_exec_pairs *pairs);
/* Adds an event. Events must come in order of time. Errors: NOMEM, errors of `give`. */
mrd_err mrd_exec_pairs_add(mrd_exec_pairs *pairs, const mrd_event *ev);
/* Emits the events that still wait. Call it after the last event. */
mrd_err mrd_exec_pairs_finish(mrd_exec_pairs *pairs);

#endif
