/*
 * cli/view/sql_views.h - writes the statements that show an engine the Parquet tables of profiles.
 *
 * After these statements, the engine runs the shipped queries unchanged. A profile is a directory
 * with tables/, that directory itself, or an address that the engine can read (s3://...).
 *
 * Threads: no state.
 */
#ifndef MRD_CLI_VIEW_SQL_VIEWS_H
#define MRD_CLI_VIEW_SQL_VIEWS_H

#include "base/buf.h"
#include "base/conf/conf.h"

typedef enum {
    MRD_ENGINE_NONE,
    MRD_ENGINE_SQLITE,
    MRD_ENGINE_DUCKDB,
    MRD_ENGINE_CLICKHOUSE,
    MRD_ENGINE_POLARS,
    MRD_ENGINE_DATAFUSION,
    MRD_ENGINE_SPARK,
    MRD_ENGINE_TRINO,
} mrd_engine;

/* The choices of an option, in the order of mrd_engine. */
#define MRD_ENGINE_CHOICES "none,sqlite,duckdb,clickhouse,polars,datafusion,spark,trino"

const char *mrd_engine_name(mrd_engine engine); /* such as "DuckDB"; static */
/* Returns the word of the engine in MRD_ENGINE_CHOICES, such as "duckdb"; static. */
const char *mrd_engine_word(mrd_engine engine);

/*
 * Appends one view for each table. A view joins the table over all n profiles; the session_id of
 * the second profile then ends with #2, and so on. Each statement ends with ";" and a newline.
 * Appends nothing for NONE and SQLITE. Errors: INVALID (a profile is a file, not a directory),
 * NOMEM.
 */
mrd_err mrd_sql_views(mrd_engine engine, char *const *profiles, size_t n, mrd_buf *to,
                      mrd_why *why);

#endif
