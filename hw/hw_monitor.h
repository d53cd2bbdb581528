/* hw/hw_monitor.h - the report of neuron-monitor as counters; apart for tests and fuzzing. */
#ifndef MRD_HW_HW_MONITOR_H
#define MRD_HW_HW_MONITOR_H

#include "hw/hw_table.h"

/* Sets the counters that one report names (a new sampling); new ones are added. Errors: SYNTAX,
 * FORMAT, LIMIT. */
mrd_err mrd_hw_monitor_parse(mrd_str line, mrd_hw_table *table, mrd_local_ns at, mrd_why *why);

#endif
