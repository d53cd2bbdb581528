/* cli/view/times.h - warnings about the times of inputs, before outputs are made */
#ifndef MRD_CLI_VIEW_TIMES_H
#define MRD_CLI_VIEW_TIMES_H

#include "trace/model/catalog.h"
#include "trace/store/stream.h"

/* Adds notes to the profile's catalog about times before zero. With `as_they_are`, the clocks of
 * the inputs are not aligned. Then it also adds notes about inputs that are too far apart to belong
 * to one run, and about inputs whose times count from different starts. The store's streams must be
 * finished. Errors: NOMEM. */
mrd_err mrd_note_times(mrd_catalog *cat, mrd_store *store, bool as_they_are, mrd_why *why);

#endif
