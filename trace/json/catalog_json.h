/*
 * trace/json/catalog_json.h - writes the catalog as JSON: the object "meridian" at the beginning of
 * every JSON output. docs/reference/json.md describes its members.
 */
#ifndef MRD_TRACE_CATALOG_JSON_H
#define MRD_TRACE_CATALOG_JSON_H

#include "trace/json/json_write.h"
#include "trace/model/catalog.h"

/* Writes the member "meridian" into the object that is open in `jw`. `profile` is the profile that
 * the file is about. `format` is its name, such as "system_profile". */
void mrd_catalog_json(mrd_jw *jw, const mrd_catalog *cat, uint32_t profile, const char *format);
/* Returns true if a fact or a process in the catalog is marked as simulated. */
bool mrd_catalog_simulated(const mrd_catalog *cat);
const char *mrd_unit_text(mrd_unit unit); /* "bytes" and so on; "" for MRD_UNIT_NONE */
const char *mrd_input_state_text(mrd_input_state state);
/* Returns an array with a number for the scope of each process: 1, 2 and so on in order of first
 * occurrence, and 0 for no scope. The caller frees the array. Returns NULL if out of memory. */
uint32_t *mrd_catalog_scopes(const mrd_catalog *cat);

#endif
