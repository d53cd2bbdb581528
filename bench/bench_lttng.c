/* Defines the tracepoints of bench_lttng.h. They have a file of their own, because LTTng's macros
 * cause compiler warnings. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench/bench_lttng.h"
