/*
 * trace/sink/exec_pairs.h - merges the two spans nc_exec_running that a logical core of two
 * physical ones (LNC 2) has for one execution. All outputs except the vendor's layouts
 * (mrd_sink_ops.each_half) get one span. So counts of executions and sums of their times are equal
 * in all outputs. Internal to trace/.
 *
 * Two halves are spans of that name with one exec_id, of one process and logical core, on the
 * physical cores 2k and 2k+1, where the second begins within the first and at most MRD_PAIR_WAIT
 * after its begin. They become one span (MRD_EV_PAIR) on the line of core 2k, from the earlier
 * begin to the later end. Times are never scaled, and the bound is the wider one. It has the
 * arguments of the first half, and of each core pcore<n>_timestamp and pcore<n>_duration, in ns of
 * the profile's clock. If the other half was not recorded, began later, or came after
 * MRD_PAIR_EVENTS other events, the half is an execution of its own, and pcore_missing names the
 * core of the other. Halves without an end, and logical cores with a line of only one physical
 * core, are not changed.
 *
 * Memory: the events within MRD_PAIR_WAIT of a waiting half, at most MRD_PAIR_EVENTS.
 */
#ifndef MRD_TRACE_SINK_EXEC_PAIRS_H
#define MRD_TRACE_SINK_EXEC_PAIRS_H

#include "trace/model/catalog.h"

/* ns after the begin of a half within which the other half must begin */
#define MRD_PAIR_WAIT   1000000
#define MRD_PAIR_EVENTS 4096

typedef struct mrd_exec_pairs mrd_exec_pairs;
typedef mrd_err mrd_exec_pairs_fn(void *self, const mrd_event *ev);

/* Calls `give` with all events in order of time. *ret_pairs is NULL if the profile has no logical
 * core with two lines. Errors: NOMEM. */
mrd_err mrd_exec_pairs_new(const mrd_catalog *cat, uint32_t profile, mrd_exec_pairs_fn *give,
                           void *self, mrd_exec_pairs **ret_pairs);
void mrd_exec_pairs_free(mrd_exec_pairs *pairs);
/* Adds an event. Events must come in order of time. Errors: NOMEM, errors of `give`. */
mrd_err mrd_exec_pairs_add(mrd_exec_pairs *pairs, const mrd_event *ev);
/* Emits the events that still wait. Call it after the last event. */
mrd_err mrd_exec_pairs_finish(mrd_exec_pairs *pairs);

#endif
