/*
 * cli/client/fetch_parts.h - unpacks a slice of a Perfetto trace, which the aggregator sends as an
 * archive if it has several files. Finished profiles are not archives: cli/commands/cmd_fetch.c
 * downloads each of their files.
 */
#ifndef MRD_CLI_CLIENT_FETCH_PARTS_H
#define MRD_CLI_CLIENT_FETCH_PARTS_H

#include "base/conf/json.h"

/* Unpacks `archive` into `trace` and further files next to it. These files replace the last entry
 * of `list`. Removes the archive. If it is a single trace and not an archive, only renames it.
 * Errors: IO, and CORRUPT and TRUNCATED with the archive's name. */
mrd_err mrd_fetch_unpack(const char *archive, const char *trace, mrd_json *list, mrd_why *why);
/* Appends a file and its size to the list of fetched files. */
mrd_err mrd_fetch_list(mrd_json *list, const char *file);

#endif
