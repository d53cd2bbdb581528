/* The provider behind bench_lttng.h; apart, because its macros are not ours to warn about. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench/bench_lttng.h"
