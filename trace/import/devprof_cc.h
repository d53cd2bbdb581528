/*
 * trace/import/devprof_cc.h - what a collective of a device profile says of itself and does not state: bandwidths
 * and how long it waited after its trigger.
 *
 * Bandwidths are bytes a second. algorithm_bandwidth: the larger of input_size and output_size over the
 * duration, as the vendor's; one of them does for an all-reduce, whose two are equal. bus_bandwidth: that
 * times what the operation moves for n members of a replica group (all-reduce 2(n-1)/n; all-gather,
 * reduce-scatter, all-to-all (n-1)/n; others 1), where all groups have the same number of at least two.
 * What the file states stays; what is not known (a size, a group, another operation) is left out, and
 * none is guessed: of AllGatherV and its like members hand in different amounts, so they have none.
 * Source   definitions of nccl-tests (doc/PERFORMANCE.md) and of the vendor's schema 7.4.0, table CcOp.
 * Threads  none of its own.
 */
#ifndef MRD_TRACE_DEVPROF_CC_H
#define MRD_TRACE_DEVPROF_CC_H

#include "trace/json/args.h"

/* Adds to the arguments of a finished collective what they do not have. exp10: of the file's times. */
void mrd_devprof_cc(mrd_args *args, mrd_strtab *strings, const mrd_event *ev, int exp10);

#endif
