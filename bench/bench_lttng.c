/* The provider for bench_lttng.h. A separate file, because its macros cause warnings that are not
 * ours. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench/bench_lttng.h"
