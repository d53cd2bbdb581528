/*
 * trace/import/device/sysprof_int.h - private to the importer of system profiles: import_sysprof.c
 * (the rows) and sysprof_own.c (the head of files that Meridian wrote).
 */
#ifndef MRD_TRACE_SYSPROF_INT_H
#define MRD_TRACE_SYSPROF_INT_H

#include "trace/import/json_rows.h"

#define CACHE_TRACKS 512u /* a power of two */

/* The fields of a row that determine its track. */
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
    bool own; /* the file was written by Meridian */
    bool any_section;
    size_t section;   /* index of the section that is being read */
    uint32_t *clocks; /* for each clock number of the file, the number in the catalog */
    size_t n_clocks;
    mrd_track_id *tracks; /* tracks of the head, in the order of the head */
    size_t n_tracks;
    /* input to which the scopes of the head belong; for a later part of a trace, the first part's
     * input */
    uint32_t scope_input;
    /* profile of the processes of the head: 0, or the device profile that the head describes */
    uint32_t profile;
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
