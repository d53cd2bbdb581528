/*
 * trace/sink/pf_processes.h - who the processes and threads of a Perfetto trace are: rows of its process and thread
 * tables, for SQL; and the identity of a track as arguments of its slices.
 *
 * The tables tell processes by pid alone. Where two nodes use one number, or a process has none, the later one
 * gets a free number from PF_PID_FREE up; names say node and pid in words, and slices have both.
 */
#ifndef MRD_TRACE_PF_PROCESSES_H
#define MRD_TRACE_PF_PROCESSES_H

#include "trace/sink/pf_file.h"
#include "trace/sink/pf_names.h"

#define MRD_PF_PID_FREE 1000000000 /* beyond what systems give out */

/* The arguments of a track as they are written, once `made`: most slices have these and no others. */
typedef struct {
    bool made;
    uint8_t len;
    uint8_t bytes[62];
} mrd_pf_identity_row;

/* Zeroed: slices have none. */
typedef struct {
    const mrd_catalog *catalog;
    mrd_sid instance, process, core, rank; /* keys of the arguments */
    mrd_pf_identity_row *rows;             /* by mrd_track_id */
} mrd_pf_identity;

/* Writes the descriptors of the profile's processes, and of threads that have a number. Errors: NOMEM. */
mrd_err mrd_pf_write_processes(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile);

/* cat is complete. Errors: NOMEM. */
mrd_err mrd_pf_identity_init(mrd_pf_identity *to, const mrd_catalog *cat);
void mrd_pf_identity_fini(mrd_pf_identity *id);
/* The ids of the names have changed. */
void mrd_pf_identity_again(mrd_pf_identity *id);
/* Adds what is known of the event's track and what the event does not say itself. */
void mrd_pf_identity_add(mrd_pf_identity *of, mrd_pf_names *names, mrd_buf *event,
                         const mrd_event *ev);

#endif
