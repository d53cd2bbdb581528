/* hw/hw_monitor.h - parses the reports of neuron-monitor into counters. It has its own header for
 * tests and fuzzing. */
#ifndef MRD_HW_HW_MONITOR_H
#define MRD_HW_HW_MONITOR_H

#include "hw/hw_table.h"

/* Begins a sampling and sets the counters in one report. New counters are added. Errors: SYNTAX,
 * FORMAT, LIMIT. */
mrd_err mrd_hw_monitor_parse(mrd_str line, mrd_hw_table *table, mrd_local_ns at, mrd_why *why);

#endif
