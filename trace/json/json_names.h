/*
 * trace/json/json_names.h - names in the exported system profile, shared by its writer
 * (trace/sink/sink_json.c) and its reader (trace/import/device/import_sysprof.c). The writer leaves
 * out values that can be computed from others. The reader computes them with these functions.
 */
#ifndef MRD_TRACE_JSON_NAMES_H
#define MRD_TRACE_JSON_NAMES_H

#include <stdio.h>

#include "trace/model/catalog.h"

/* Names of the counter tracks that become mem_usage and cpu_util rows. They are the same as in
 * hw/hw.h. */
#define MRD_NAME_MEM_USED "mem.used_bytes"
/* the name that neuron-monitor uses for the same value */
#define MRD_NAME_MEM_MONITOR "memory_info memory_used_bytes"
#define MRD_NAME_MEM_PERCENT "mem.used_percent"
#define MRD_NAME_CPU_PREFIX  "cpu."
#define MRD_NAME_CPU_SUFFIX  ".util_percent"

/* Values of `type` that the vendor's guide shows. Other values are not published. */
#define MRD_TYPE_TENSOR_WRITE 11
#define MRD_TYPE_FRAMEWORK    99999

static inline bool
mrd_source_is_runtime(mrd_source_kind source)
{
    return source == MRD_SRC_RUNTIME || source == MRD_SRC_DEVICE || source == MRD_SRC_API;
}

/* Returns the value of `type` for an event that does not state one. */
static inline int64_t
mrd_json_event_type(mrd_source_kind source, mrd_str name)
{
    if (source == MRD_SRC_FRAMEWORK)
        return MRD_TYPE_FRAMEWORK;
    return mrd_source_is_runtime(source) && mrd_str_is(name, "nrt_tensor_write")
               ? MRD_TYPE_TENSOR_WRITE
               : 0;
}

/* Writes the name of the row on which the viewer of the vendor's guide shows a track, such as
 * "nrt-nc-003", "framework-4711" or "annotation-4711". */
static inline int
mrd_json_group(const mrd_track *track, char text[64])
{
    if (mrd_source_is_runtime(track->source) && track->lnc_idx != MRD_NONE)
        return snprintf(text, 64, "nrt-nc-%03lld", (long long) track->lnc_idx);
    if (track->thread_id == MRD_NONE)
        return snprintf(text, 64, "%s",
                        mrd_source_is_runtime(track->source) ? "nrt"
                                                             : mrd_source_text(track->source));
    return snprintf(text, 64, "%s-%lld",
                    mrd_source_is_runtime(track->source) ? "nrt" : mrd_source_text(track->source),
                    (long long) track->thread_id);
}

/* These words stand for all CPUs together: "all" in names of counters, "average" as cpu_id. */
#define MRD_NAME_CPU_ALL     "all"
#define MRD_NAME_CPU_AVERAGE "average"

/* Gets the cpu_id of the counter "cpu.X.util_percent". Returns false for another counter. */
static inline bool
mrd_json_cpu_id(mrd_str name, mrd_str *ret_id)
{
    size_t pre = sizeof(MRD_NAME_CPU_PREFIX) - 1, post = sizeof(MRD_NAME_CPU_SUFFIX) - 1;

    if (name.len <= pre + post || !mrd_str_starts(name, MRD_NAME_CPU_PREFIX) ||
        !mrd_str_ends(name, MRD_NAME_CPU_SUFFIX))
        return false;
    *ret_id = (mrd_str){ name.p + pre, name.len - pre - post };
    if (mrd_str_is(*ret_id, MRD_NAME_CPU_ALL))
        *ret_id = MRD_STR(MRD_NAME_CPU_AVERAGE);
    return true;
}

#endif
