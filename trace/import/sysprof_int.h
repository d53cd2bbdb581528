/*
 * trace/import/sysprof_int.h - inside of the importer of system profiles: import_sysprof.c (the rows) and
 * sysprof_own.c (the head of files that we wrote ourselves).
 */
#ifndef MRD_TRACE_SYSPROF_INT_H
#define MRD_TRACE_SYSPROF_INT_H

#include "trace/import/json_rows.h"

#define CACHE_TRACKS 512u /* a power of two */

/* What tells tracks apart in the rows. */
typedef struct {
    int64_t pid, lnc, pcore, device, thread, worker;
    mrd_sid instance, process_name, track;
    uint32_t scope, source, node;
} row_identity;

typedef struct {
    row_identity key;
    mrd_track_id track;
    bool used;
} cached_track;

typedef struct {
    mrd_import *imp;
    mrd_catalog *cat;
    mrd_strtab *strings;
    mrd_input *input;
    mrd_json_reader *r;
    mrd_json_row row;
    mrd_flow flows[MRD_ROW_FLOWS];
    cached_track cache[CACHE_TRACKS];
    mrd_sid ns, unknown;
    bool own; /* written by us */
    bool any_section;
    size_t section;   /* under way */
    uint32_t *clocks; /* of the file to ours */
    size_t n_clocks;
} sysprof;

/* The source of this name; false, and as it was, when there is none. */
bool mrd_sysprof_source(mrd_str name, uint32_t *ret_source);
mrd_unit mrd_sysprof_unit(mrd_str name);
/* Reads the "meridian" object: processes, tracks, clocks, artifacts and notes into the catalog.
 * What is wrong with it becomes a note, and it is passed over. Errors: those of the reader; NOMEM. */
mrd_err mrd_sysprof_own(sysprof *s);

#endif
