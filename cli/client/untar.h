/*
 * cli/client/untar.h - unpacks the archives (plain ustar files) that the aggregator sends for
 * formats with several files. trace/table/outdir.h writes them.
 */
#ifndef MRD_CLI_CLIENT_UNTAR_H
#define MRD_CLI_CLIENT_UNTAR_H

#include "base/sys/out.h"

/*
 * Unpacks the files of the archive below `dir`. A file gets its final name when it is complete, and
 * the file named `last` (the manifest) gets it after all others. Before that, the files that an
 * existing manifest lists are removed. Refuses names that lead outside of the directory, links, and
 * other kinds of entries. Errors: IO, and CORRUPT or TRUNCATED with the archive's name and the
 * offset in bytes.
 */
mrd_err mrd_untar(const char *archive, const char *dir, const char *last, mrd_why *why);

#endif
