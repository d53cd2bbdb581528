/*
 * trace/sink/perfetto/pf_parts.h - the files of a Perfetto trace that is split by time: X.pftrace,
 * X.2.pftrace, X.3.pftrace. X.parts.json is an index with their times, nodes and sizes.
 *
 * A trace that fits into one file has no index. The first file has the usual name and is renamed to
 * it last. So if the first file exists, all files exist. The commit removes files with such names
 * from an earlier run. If the output has no path but the options request an archive, the same files
 * become a tar archive, and the index is always its last entry.
 *
 * A part contains the whole events that begin in it: a span that crosses a cut has its true end in
 * the part in which it begins. The next parts repeat some data, so that each part can be opened
 * alone:
 * - spans that are open at the cut, from the cut on
 * - the last value of each counter, at the cut
 * - the begin of an arrow that ends in the part, as an instant
 * Repeated spans and instants have the arguments meridian_continued = 1 and meridian_begin_ns,
 * which is their true begin. Repeated samples have no arguments, because readers drop those.
 */
#ifndef MRD_TRACE_PF_PARTS_H
#define MRD_TRACE_PF_PARTS_H

#include "base/conf/json.h"
#include "trace/model/sink.h"
#include "trace/table/outdir.h"

#define MRD_PF_CONTINUED "meridian_continued"
#define MRD_PF_BEGIN_NS  "meridian_begin_ns"

/* A part of the trace, as the index lists it. */
typedef struct {
    mrd_ev_ns first, last; /* session times at which the part's first and last event begin */
    /* session time at which the next file of the trace begins; for the last file, the end of the
     * trace */
    mrd_ev_ns until;
    uint64_t events, spans, repeated;
    const uint8_t *seen; /* indexed by mrd_track_id: nonzero if the part has events of this track */
} mrd_pf_part;

typedef struct {
    const mrd_sink_env *env;
    mrd_json *list;
    mrd_out **more; /* outputs of part 2 and later, finished or not; NULL for an archive */
    size_t n, cap;  /* number of outputs in `more`, and its capacity */
    mrd_outdir *archive;
    mrd_outdir_file *file; /* the file being written; for an archive only */
    uint64_t events;
} mrd_pf_parts;

/* Appends the path of part `number` (from 1) of the trace at `path`, or of its index. */
void mrd_pf_part_path(const char *path, size_t number, mrd_buf *to);
void mrd_pf_index_path(const char *path, mrd_buf *to);

/* Removes files that an earlier run left next to the trace at `path`: parts with numbers above
 * `parts`, and also the index if `parts` is 1. */
void mrd_pf_parts_stale(const char *path, size_t parts);

/* Gets the output of the first part. Errors: NOMEM, IO. mrd_pf_parts_fini removes uncommitted
 * files, and may be called on a zeroed mrd_pf_parts. */
mrd_err mrd_pf_parts_init(mrd_pf_parts *parts, const mrd_sink_env *env, mrd_out **ret_out,
                          mrd_why *why);
void mrd_pf_parts_fini(mrd_pf_parts *parts);
/* Returns true if the trace may be split, so that another part can follow. */
bool mrd_pf_parts_can(const mrd_pf_parts *parts);
/* Completes the part that was written to `out`. */
mrd_err mrd_pf_parts_end(mrd_pf_parts *parts, mrd_out *out, const mrd_pf_part *part, mrd_why *why);
/* Begins the next part and gets its output. */
mrd_err mrd_pf_parts_next(mrd_pf_parts *parts, mrd_out **ret_out, mrd_why *why);
/* Renames the parts after the first to their final names, then the index. Call it after all parts
 * are complete. The caller commits the first part. */
mrd_err mrd_pf_parts_commit(mrd_pf_parts *parts, mrd_why *why);

#endif
