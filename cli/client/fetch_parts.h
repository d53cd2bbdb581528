/*
 * cli/client/fetch_parts.h - unpacks a time range of a Perfetto trace. The aggregator sends it as
 * an archive if it has several files. A whole profile is never an archive: cli/commands/cmd_fetch.c
 * downloads each of its files.
 */
#ifndef MRD_CLI_CLIENT_FETCH_PARTS_H
#define MRD_CLI_CLIENT_FETCH_PARTS_H

#include "base/conf/json.h"

/* Unpacks `archive` into the file `trace` and further files next to it, and removes the archive. In
 * `list`, these files replace the last entry. If `archive` is in fact a single trace, it is only
 * renamed. Errors: IO, and CORRUPT or TRUNCATED with the archive's name. */
mrd_err mrd_fetch_unpack(const char *archive, const char *trace, mrd_json *list, mrd_why *why);
/* Appends a file and its size to the list of fetched files. */
mrd_err mrd_fetch_list(mrd_json *list, const char *file);

#endif
