/*
 * trace/sink/pf_parts.h - the files of a Perfetto trace that is split by time: X.pftrace, X.2.pftrace, X.3.pftrace,
 * and X.parts.json, which names them with their times, nodes and sizes.
 *
 * A trace that fits has one file and no index. The first file keeps the name that everybody knows and appears last:
 * when it is there, all are. What an earlier run left of such names goes at commit. Where the output has no path but
 * the options ask for an archive, the same files come as a tar archive, the index last and always there.
 *
 * An event is in the part in which it begins, whole: a span that goes on behind a cut has its true end there. So that each
 * part opens alone, the next ones repeat what lasts: spans that are open at the cut (from the cut on), the last value of
 * each counter (at the cut), the begin of an arrow that ends there (as an instant). Repeated spans and
 * instants have the arguments meridian_continued = 1 and meridian_begin_ns, their true time; of a counter that an earlier part
 * has, the first sample is the repeated one (readers keep no arguments of samples).
 */
#ifndef MRD_TRACE_PF_PARTS_H
#define MRD_TRACE_PF_PARTS_H

#include "base/json.h"
#include "trace/model/sink.h"
#include "trace/table/outdir.h"

#define MRD_PF_CONTINUED "meridian_continued"
#define MRD_PF_BEGIN_NS  "meridian_begin_ns"

/* What the index says of a part. */
typedef struct {
    mrd_ev_ns first, last; /* begin of its first and of its last event, session time */
    mrd_ev_ns
        until; /* the cut: times of the next part are not before it; of the last part its last time */
    uint64_t events, spans, repeated;
    const uint8_t *seen; /* by mrd_track_id: it has events of this track */
} mrd_pf_part;

typedef struct {
    const mrd_sink_env *env;
    mrd_json *list;
    mrd_out **more; /* parts 2 .. n, sealed or being written; NULL in an archive */
    size_t n, cap;  /* of them */
    mrd_outdir *archive;
    mrd_outdir_file *file; /* of the archive, being written */
    uint64_t events;
} mrd_pf_parts;

/* Name of part `number` (from 1) of the trace at path, and of its index. */
void mrd_pf_part_path(const char *path, size_t number, mrd_buf *to);
void mrd_pf_index_path(const char *path, mrd_buf *to);

/* Removes what another run left beside the trace at path, which has so many parts: further parts, and the index where
 * there is one part. */
void mrd_pf_parts_stale(const char *path, size_t parts);

/* Where the first part goes. Errors: NOMEM, IO. fini is fine on a zeroed one; it removes what was not committed. */
mrd_err mrd_pf_parts_init(mrd_pf_parts *p, const mrd_sink_env *env, mrd_out **ret_out,
                          mrd_why *why);
void mrd_pf_parts_fini(mrd_pf_parts *p);
/* Whether there can be another part. */
bool mrd_pf_parts_can(const mrd_pf_parts *p);
/* The part that was written to `out` is whole. */
mrd_err mrd_pf_parts_end(mrd_pf_parts *p, mrd_out *out, const mrd_pf_part *part, mrd_why *why);
/* ... and this is where the next one goes. */
mrd_err mrd_pf_parts_next(mrd_pf_parts *p, mrd_out **ret_out, mrd_why *why);
/* All parts are whole: those behind the first appear, and the index; the caller commits the first. */
mrd_err mrd_pf_parts_commit(mrd_pf_parts *p, mrd_why *why);

#endif
