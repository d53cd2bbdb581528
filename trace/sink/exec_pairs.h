/*
 * trace/sink/exec_pairs.h - a logical core of two physical ones (LNC 2) has a span nc_exec_running of each
 * for one execution: every output but the vendor's layouts (mrd_sink_ops.each_half) gets the two as one. Counts
 * of executions and sums of their times are therefore those of executions, the same in all outputs. Inside trace/ only.
 *
 * Two halves: spans of that name and one exec_id, of one process and logical core, on the physical cores 2k and
 * 2k+1, the second beginning within the first and at most MRD_PAIR_WAIT behind its begin. They become one
 * span (MRD_EV_PAIR) on the line of core 2k, from the earlier begin to the later end (times are never scaled; the
 * bound is the wider one), with the arguments of the first and of each core pcore<n>_timestamp and
 * pcore<n>_duration, in ns of the profile's clock. Where the other half was not recorded, began later than
 * that, or came behind MRD_PAIR_EVENTS others, the half is an execution of its own, and pcore_missing names the core of the
 * other. Halves without an end, and logical cores of which only one physical core has a line, stay as they are.
 *
 * Memory: what comes within MRD_PAIR_WAIT of a half that waits, at most MRD_PAIR_EVENTS events.
 */
#ifndef MRD_TRACE_SINK_EXEC_PAIRS_H
#define MRD_TRACE_SINK_EXEC_PAIRS_H

#include "trace/model/catalog.h"

#define MRD_PAIR_WAIT   1000000 /* ns */
#define MRD_PAIR_EVENTS 4096

typedef struct mrd_exec_pairs mrd_exec_pairs;
typedef mrd_err mrd_exec_pairs_fn(void *self, const mrd_event *ev);

/* give: gets all events in their order. *ret_pairs is NULL where the profile has no logical core of two
 * lines. Errors: NOMEM. */
mrd_err mrd_exec_pairs_new(const mrd_catalog *cat, uint32_t profile, mrd_exec_pairs_fn *give,
                           void *self, mrd_exec_pairs **ret_pairs);
void mrd_exec_pairs_free(mrd_exec_pairs *p);
/* In order of time. Errors: NOMEM, those of give. */
mrd_err mrd_exec_pairs_add(mrd_exec_pairs *p, const mrd_event *ev);
/* After the last. */
mrd_err mrd_exec_pairs_finish(mrd_exec_pairs *p);

#endif
