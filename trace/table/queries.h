/*
 * trace/table/queries.h - the shipped queries: the files of sql/, as part of the program. They are in the
 * SQL that SQLite, DuckDB, ClickHouse and Trino share; docs/data.md has the rules.
 */
#ifndef MRD_TRACE_TABLE_QUERIES_H
#define MRD_TRACE_TABLE_QUERIES_H

#include "base/buf.h"

typedef struct {
    const char *name; /* "late_ranks" */
    const char *sql;  /* begins with comments: the first line says what it answers */
} mrd_query;

/* In the order of their names; static. */
const mrd_query *mrd_queries(size_t *ret_n);
const mrd_query *mrd_query_find(mrd_str name); /* NULL when unknown */
/* The first line of its comment, without "-- ". */
mrd_str mrd_query_title(const mrd_query *q);

#endif
