/*
 * trace/json/catalog_json.h - the catalog as JSON: the object "meridian" that stands first in every JSON
 * output. Written members are described in docs/json.md.
 */
#ifndef MRD_TRACE_CATALOG_JSON_H
#define MRD_TRACE_CATALOG_JSON_H

#include "trace/json/json_write.h"
#include "trace/model/catalog.h"

/* Writes the member "meridian" into the object just opened. format: "system_profile", ... */
void mrd_catalog_json(mrd_jw *w, const mrd_catalog *cat, uint32_t profile, const char *format);
/* A fact or a process says that the data is simulated. */
bool mrd_catalog_simulated(const mrd_catalog *cat);
const char *mrd_unit_text(mrd_unit unit); /* "bytes", "" for MRD_UNIT_NONE */
const char *mrd_input_state_text(mrd_input_state state);
/* The scope of each process as a small number that depends on their order only, 0 for none: a
 * malloc'd array, NULL without memory. */
uint32_t *mrd_catalog_scopes(const mrd_catalog *cat);

#endif
