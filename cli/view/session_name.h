/*
 * cli/view/session_name.h - names the session of a profile that is written from files, for the
 * column session_id and the folders of tables.
 *
 * The name is a hash of the inputs and of the settings that select or move events. So two imports
 * have different names, and the same import has the same name.
 */
#ifndef MRD_CLI_VIEW_SESSION_NAME_H
#define MRD_CLI_VIEW_SESSION_NAME_H

#include "trace/model/catalog.h"

/* Checks a name that the user gave; NULL means none. Errors: INVALID. */
mrd_err mrd_session_name_check(const char *name, mrd_why *why);
/* Sets the session's name in the catalog. Reads all input files. `settings` are texts in a fixed
 * order. Errors: NOMEM. */
mrd_err mrd_session_name_set(const mrd_strlist *settings, mrd_catalog *cat, mrd_why *why);

#endif
