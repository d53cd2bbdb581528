/* trace/sink/export.h - writes the events of a source to several output formats (sinks) in one
 * pass. Filters the events, and adds arrows and merged spans on the way. */
#ifndef MRD_TRACE_EXPORT_H
#define MRD_TRACE_EXPORT_H

#include "trace/model/filter.h"
#include "trace/model/sink.h"
#include "trace/store/stream.h"

typedef struct {
    const mrd_sink_ops *ops;
    mrd_out *out; /* owned by the export: committed on success, aborted on failure */
    /* Path of `out` if it is a file. Formats with several files write the others next to it. Else
     * NULL. */
    const char *path;
    /* directory for a format with several files; with NULL they go into an archive (`out`) */
    const char *dir;
} mrd_export_target;

typedef struct {
    /* number of events written, and number of events that the filter excluded */
    uint64_t events, held;
    uint64_t arrows; /* number of arrows added between calls and the work that they started */
    mrd_ev_ns first, last;
} mrd_export_result;

typedef struct {
    const mrd_catalog *catalog;
    /* number of the device profile that is exported; 0 means the system profile */
    uint32_t profile;
    const mrd_sink_options *options;
    const mrd_filter *filter; /* filter of events; NULL means that all are written */
    mrd_ev_ns first, last;    /* first and last session time of the profile, if known */
    mrd_export_target *targets;
    size_t n_targets;
    /* Called about every 65,536 events with the number of exported events. Returns false to cancel
     * the export. May be NULL. */
    bool (*progress)(void *self, uint64_t events);
    void *self;
} mrd_export_job;

/* Writes all events of `source` to every target in one pass. Takes ownership of `source`. */
mrd_err mrd_export_run(mrd_source *source, const mrd_export_job *job, mrd_export_result *ret_result,
                       mrd_why *why);

#endif
