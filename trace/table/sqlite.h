/*
 * trace/table/sqlite.h - writes the tables of a profile as one SQLite database. It has the names
 * and columns of the Parquet files, the shipped queries (sql/) as views, and indexes for them.
 *
 * Repeated text and facts about a track are stored once. So events, counters, flows and losses are
 * views over the tables <name>_data, tracks and strings. The database is written to a temporary
 * file ($TMPDIR, /var/tmp) and then copied to env->out. Equal input gives equal bytes. Threads:
 * belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_SQLITE_H
#define MRD_TRACE_TABLE_SQLITE_H

#include "trace/table/rows.h"

typedef struct mrd_sqlite mrd_sqlite;

mrd_err mrd_sqlite_open(const mrd_sink_env *env, mrd_sqlite **ret_db, mrd_why *why);
mrd_err mrd_sqlite_event(mrd_sqlite *db, const mrd_event *ev);
/* ends the output and frees db */
mrd_err mrd_sqlite_close(mrd_sqlite *db, bool good, mrd_why *why);

#endif
