/*
 * trace/import/device/devprof_cc.h - computes values of a collective that a device profile does not
 * state: bandwidths, and how long the collective waited after its trigger.
 *
 * Bandwidths are in bytes per second.
 *
 *   algorithm_bandwidth  the larger of input_size and output_size, divided by the duration, as in
 *     the vendor's tool. The two sizes of an all-reduce are equal, so one of them is enough.
 *   bus_bandwidth        algorithm_bandwidth times a factor for n members of a replica group. The
 *     factor of an all-reduce is 2(n-1)/n, of an all-gather, a reduce-scatter and an all-to-all
 *     (n-1)/n, of others 1. The value exists only if all groups have the same number of members, at
 *     least two.
 *
 * Values that the file states are kept. A value is left out if its inputs are missing (a size, a
 * group, a known operation). The members of AllGatherV and similar operations contribute
 * different amounts, so these have no bandwidths.
 *
 * Source   definitions of nccl-tests (doc/PERFORMANCE.md) and of the vendor's schema 7.4.0, table
 *          CcOp.
 * Threads  stateless.
 */
#ifndef MRD_TRACE_DEVPROF_CC_H
#define MRD_TRACE_DEVPROF_CC_H

#include "trace/json/args.h"

/* Adds the bandwidths and the waiting time to the arguments of a finished collective. `exp10` is
 * the unit of times in the file: a time of the file times 10^exp10 is in ns. */
void mrd_devprof_cc(mrd_args *args, mrd_strtab *strings, const mrd_event *ev, int exp10);

#endif
