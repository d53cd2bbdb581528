/* The tracepoints with which bench_ring and bench_stream compare our recording. The tracepoint
 * `span` has 24 bytes of payload, like our record without its time. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER meridian_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench/bench_lttng.h"

#if !defined(MRD_BENCH_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define MRD_BENCH_LTTNG_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    meridian_bench, span,
    LTTNG_UST_TP_ARGS(uint64_t, id, uint32_t, name, uint32_t, track, uint64_t, value),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, id, id)
                            lttng_ust_field_integer(uint32_t, name, name)
                                lttng_ust_field_integer(uint32_t, track, track)
                                    lttng_ust_field_integer(uint64_t, value, value)))

/* The tracepoint that bench_stream records. It has the fields of one of our spans. */
LTTNG_UST_TRACEPOINT_EVENT(meridian_bench, slice,
                           LTTNG_UST_TP_ARGS(uint64_t, dur, uint32_t, name, uint32_t, track),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, dur, dur)
                                                   lttng_ust_field_integer(uint32_t, name, name)
                                                       lttng_ust_field_integer(uint32_t, track,
                                                                               track)))

#endif

#include <lttng/tracepoint-event.h>
