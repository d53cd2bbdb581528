/* cli/times.h - warnings about the times of inputs, before outputs are made */
#ifndef MRD_CLI_TIMES_H
#define MRD_CLI_TIMES_H

#include "trace/model/catalog.h"
#include "trace/store/stream.h"

/* Adds notes to the catalog: times before zero; with `as_they_are` (no alignment), inputs that are
 * so far apart that they belong to different runs, or count from different starts. The store's
 * streams are finished. Errors: NOMEM. */
mrd_err mrd_note_times(mrd_catalog *cat, mrd_store *store, bool as_they_are, mrd_why *why);

#endif
