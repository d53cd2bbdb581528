/*
 * trace/sink/export.h - from sources to files: merge, map, filter, and several sinks in one pass.
 */
#ifndef MRD_TRACE_EXPORT_H
#define MRD_TRACE_EXPORT_H

#include "trace/model/filter.h"
#include "trace/model/sink.h"
#include "trace/store/stream.h"

typedef struct {
    const mrd_sink_ops *ops;
    mrd_out *out; /* owned by the export: committed on success, aborted on failure */
    const char *dir; /* of a format that is a folder; NULL: an archive */
} mrd_export_target;

typedef struct {
    uint64_t events, held; /* written; held back by the filter */
    int64_t first_ns, last_ns;
} mrd_export_result;

/*
 * Runs `source` (owned) through every target in one pass. range: first/last session time if known.
 * progress is called about every 65,536 events with the number so far; returning false cancels.
 */
mrd_err mrd_export_run(mrd_source *source, const mrd_catalog *cat, uint32_t profile,
                       const mrd_sink_options *options, const mrd_filter *filter, int64_t first_ns,
                       int64_t last_ns, mrd_export_target *targets, size_t n_targets,
                       bool (*progress)(void *self, uint64_t events), void *self,
                       mrd_export_result *ret_result, mrd_why *why);

#endif
