/*
 * trace/table/parts.h - the tables of a profile as Parquet files.
 *
 *   meridian   table=<t>/date=<day>/session=<id>/part-<number>.parquet, of at most about 64 MiB; every
 *              table has one, also without rows. _manifest.json comes last: it lists parts with rows,
 *              bytes, hashes and times, so who reads it sees all or nothing
 *   explorer   <Table>.parquet, tables without rows have no file, as the vendor's
 *
 * Rows come in the order of time, in row groups of 131,072. Memory: a row group of each table, so about
 * 40 MiB at most; of columns of arguments only what is there. Equal input gives equal names and bytes. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_PARTS_H
#define MRD_TRACE_TABLE_PARTS_H

#include "trace/table/outdir.h"
#include "trace/table/rows.h"

typedef struct mrd_parts mrd_parts;

/* Into env->dir when there is one, with the manifest to env->out; else all as a tar archive to env->out. */
mrd_err mrd_parts_open(const mrd_sink_env *env, const mrd_dialect *dialect, mrd_parts **ret_parts,
                       mrd_why *why);
mrd_err mrd_parts_event(mrd_parts *p, const mrd_event *ev);
/* good: nothing failed so far; otherwise what was written is removed. Frees. */
mrd_err mrd_parts_close(mrd_parts *p, bool good, mrd_why *why);

#endif
