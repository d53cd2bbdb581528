/*
 * trace/json/catalog_json.h - the catalog as JSON: the object "meridian" at the beginning of every
 * JSON output. docs/reference/json.md describes its members.
 */
#ifndef MRD_TRACE_CATALOG_JSON_H
#define MRD_TRACE_CATALOG_JSON_H

#include "trace/json/json_write.h"
#include "trace/model/catalog.h"

/* Writes the member "meridian" into the open object. format: "system_profile", ... */
void mrd_catalog_json(mrd_jw *jw, const mrd_catalog *cat, uint32_t profile, const char *format);
/* Returns true if a fact or a process is marked as simulated. */
bool mrd_catalog_simulated(const mrd_catalog *cat);
const char *mrd_unit_text(mrd_unit unit); /* "bytes", "" for MRD_UNIT_NONE */
const char *mrd_input_state_text(mrd_input_state state);
/* Returns the scope of each process as a small number that depends only on their order, 0 for none,
 * in a malloc'd array. NULL if out of memory. */
uint32_t *mrd_catalog_scopes(const mrd_catalog *cat);

#endif
