/*
 * trace/table/sqlite.h - the tables of a profile as one SQLite database: the same names and columns as in
 * the Parquet files, the shipped queries (sql/) as views, indexes for them.
 *
 * Text that repeats and what belongs to a line of events are stored once: events, counters, flows and
 * losses are views over <name>_data, tracks and strings. It is written to a temporary file ($TMPDIR,
 * /var/tmp) and then given to env->out. Equal input gives equal bytes. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_SQLITE_H
#define MRD_TRACE_TABLE_SQLITE_H

#include "trace/table/rows.h"

typedef struct mrd_sqlite mrd_sqlite;

mrd_err mrd_sqlite_open(const mrd_sink_env *env, mrd_sqlite **ret_db, mrd_why *why);
mrd_err mrd_sqlite_event(mrd_sqlite *db, const mrd_event *ev);
mrd_err mrd_sqlite_close(mrd_sqlite *db, bool good, mrd_why *why); /* frees */

#endif
