/*
 * cli/times.h - what can be said of the times of inputs before anything is made of them.
 */
#ifndef MRD_CLI_TIMES_H
#define MRD_CLI_TIMES_H

#include "trace/model/catalog.h"
#include "trace/store/stream.h"

/* Notes in the catalog: times before zero; as_they_are (nothing aligns them): inputs so far apart that they are not of one
 * run, or count from another start. The store's streams are finished. Errors: NOMEM. */
mrd_err mrd_note_times(mrd_catalog *cat, mrd_store *store, bool as_they_are, mrd_why *why);

#endif
