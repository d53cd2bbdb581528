/* hw/hw_monitor.h - parses a report of neuron-monitor into counters. It is a header of its own for
 * tests and fuzzing. */
#ifndef MRD_HW_HW_MONITOR_H
#define MRD_HW_HW_MONITOR_H

#include "hw/hw_table.h"

/* Parses one report, and sets the values of its counters in the table. Adds new counters. Each call
 * begins a new round of values (mrd_hw_table.round). Errors: SYNTAX, FORMAT, LIMIT. */
mrd_err mrd_hw_monitor_parse(mrd_str line, mrd_hw_table *table, mrd_local_ns at, mrd_why *why);

#endif
