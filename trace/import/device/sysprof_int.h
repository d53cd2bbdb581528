/*
 * trace/import/device/sysprof_int.h - private to the importer of system profiles: import_sysprof.c (the
 * rows) and sysprof_own.c (the head of files that Meridian wrote).
 */
#ifndef MRD_TRACE_SYSPROF_INT_H
#define MRD_TRACE_SYSPROF_INT_H

#include "trace/import/json_rows.h"

#define CACHE_TRACKS 512u /* a power of two */

/* The fields by which rows are assigned to tracks. */
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
    bool own; /* written by Meridian */
    bool any_section;
    size_t section;   /* index of the current section */
    uint32_t *clocks; /* maps the file's clocks to the catalog's */
    size_t n_clocks;
    mrd_track_id *tracks; /* of the head, in its order */
    size_t n_tracks;
    /* the input of which the head's scopes are: another one for a later part of a trace */
    uint32_t scope_input;
    uint32_t profile; /* of the processes of the head: 0, or the device profile that it describes */
} sysprof;

/* Finds the source of this name. Returns false, with *ret_source unchanged, if there is none. */
bool mrd_sysprof_source(mrd_str name, uint32_t *ret_source);
mrd_unit mrd_sysprof_unit(mrd_str name);
/* Frees what mrd_sysprof_own allocated. */
void mrd_sysprof_own_fini(sysprof *prof);
/* Reads the "meridian" object. Its processes, tracks, clocks, artifacts and notes go into the
 * catalog. Invalid parts are skipped and noted. Errors: NOMEM and the errors of the reader. */
mrd_err mrd_sysprof_own(sysprof *prof);

#endif
