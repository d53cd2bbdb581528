/*
 * trace/import/device/sysprof_int.h - private to the importer of system profiles: import_sysprof.c
 * reads the rows, and sysprof_own.c reads the "meridian" object (the head) of files that Meridian
 * wrote.
 */
#ifndef MRD_TRACE_SYSPROF_INT_H
#define MRD_TRACE_SYSPROF_INT_H

#include "trace/import/json_rows.h"

#define CACHE_TRACKS 512u /* number of cached tracks; must be a power of two */

/* The members of a row that determine the process and the track of its event. */
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
    size_t section; /* index of the section of the file that is being read */
    /* clocks[N] is the catalog's number of the clock that the file calls N */
    uint32_t *clocks;
    size_t n_clocks;
    mrd_track_id *tracks; /* tracks of the "meridian" object, in the order of its list */
    size_t n_tracks;
    /* Number of the input that is part of the scopes of processes in the "meridian" object, so that
     * the scopes are unique. If a trace has several files, it is the number of the first one. */
    uint32_t scope_input;
    /* profile of the processes in the "meridian" object: 0, or the device profile that it
     * describes */
    uint32_t profile;
} sysprof;

/* Finds the event source with this exported name, such as the runtime. Returns false and leaves
 * *ret_source unchanged if there is none. */
bool mrd_sysprof_source(mrd_str name, uint32_t *ret_source);
mrd_unit mrd_sysprof_unit(mrd_str name);
/* Frees what mrd_sysprof_own allocated. */
void mrd_sysprof_own_fini(sysprof *prof);
/* Reads the "meridian" object. Its processes, tracks, clocks, artifacts and notes go into the
 * catalog. Invalid parts are skipped and noted. Errors: NOMEM and the errors of the reader. */
mrd_err mrd_sysprof_own(sysprof *prof);

#endif
