/*
 * trace/table/parts.h - writes the tables of a profile as Parquet files, in the layout of a
 * dialect.
 *
 *   meridian   table=<t>/date=<day>/session=<id>/part-<number>.parquet, of at most about 64 MiB.
 *     Every table has at least one part, even if it has no rows. _manifest.json is written last. It
 *     lists the parts with rows, bytes, hashes and times. So if the manifest exists, all files that
 *     it lists are complete
 *   explorer   <Table>.parquet; tables without rows have no file, as in the vendor's output
 *
 * Rows are in order of time, in row groups of 131,072. Memory: a row group of each table, at most
 * about 40 MiB; columns of arguments only need memory for existing values. Equal input gives equal
 * names and bytes. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PARTS_H
#define MRD_TRACE_TABLE_PARTS_H

#include "trace/table/outdir.h"
#include "trace/table/rows.h"

typedef struct mrd_parts mrd_parts;

/* Opens the output. If env->dir is set, the files are written there, and the manifest to env->out.
 * Otherwise all files are written to env->out as a tar archive. */
mrd_err mrd_parts_open(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_parts **ret_parts,
                       mrd_why *why);
mrd_err mrd_parts_event(mrd_parts *parts, const mrd_event *ev);
/* Ends the output and frees parts. `good` means that all earlier calls succeeded. Otherwise the
 * output is removed. */
mrd_err mrd_parts_close(mrd_parts *parts, bool good, mrd_why *why);

#endif
