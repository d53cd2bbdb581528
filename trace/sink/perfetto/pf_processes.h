/*
 * trace/sink/perfetto/pf_processes.h - the processes and threads of a Perfetto trace as rows of its
 * process and thread tables, for SQL. The identity of a track is also in the arguments of its
 * slices.
 *
 * The tables identify processes by pid only. If two nodes use one pid, or a process has none, the
 * later one gets a free number from PF_PID_FREE on. Names contain node and pid, and slices have
 * both.
 */
#ifndef MRD_TRACE_PF_PROCESSES_H
#define MRD_TRACE_PF_PROCESSES_H

#include "trace/sink/perfetto/pf_file.h"
#include "trace/sink/perfetto/pf_names.h"

/* first pid for processes without a unique one; no real pid is so large */
#define MRD_PF_PID_FREE 1000000000

/* The encoded arguments that identify a track, if `made` is set. Most slices of the track can use
 * them unchanged. */
typedef struct {
    bool made;
    uint8_t len;
    uint8_t bytes[62];
} mrd_pf_identity_row;

/* Adds the identity of a slice's track to the slice, as arguments. A zeroed structure adds
 * nothing. */
typedef struct {
    const mrd_catalog *catalog;
    mrd_sid instance, process, core, rank; /* keys of the arguments as interned texts */
    mrd_pf_identity_row *rows;             /* indexed by mrd_track_id */
} mrd_pf_identity;

/* Writes the descriptors of the profile's processes, and of threads with a number. Errors:
 * NOMEM. */
mrd_err mrd_pf_write_processes(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile);

/* Prepares the identities of all tracks. `cat` must be complete. Errors: NOMEM. */
mrd_err mrd_pf_identity_init(mrd_pf_identity *to, const mrd_catalog *cat);
void mrd_pf_identity_fini(mrd_pf_identity *id);
/* Discards all encoded arguments, because a new file gives other ids to interned names. */
void mrd_pf_identity_again(mrd_pf_identity *id);
/* Adds the identity of the event's track to a TrackEvent. Leaves out values that the event's own
 * arguments already contain. */
void mrd_pf_identity_add(mrd_pf_identity *of, mrd_pf_names *names, mrd_buf *event,
                         const mrd_event *ev);

#endif
