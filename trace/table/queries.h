/*
 * trace/table/queries.h - the shipped queries: the files of sql/, compiled into the program. They
 * use the SQL that SQLite, DuckDB, ClickHouse, Polars, DataFusion, Spark and Trino have in common;
 * docs/reference/data.md describes the rules.
 */
#ifndef MRD_TRACE_TABLE_QUERIES_H
#define MRD_TRACE_TABLE_QUERIES_H

#include "base/buf.h"

typedef struct {
    const char *name; /* name of the query, such as "late_ranks" */
    const char *sql;  /* SQL text that begins with comments; the first line states the purpose */
} mrd_query;

/* Returns all queries, ordered by name; static. */
const mrd_query *mrd_queries(size_t *ret_n);
const mrd_query *mrd_query_find(mrd_str name); /* returns NULL if unknown */
/* Returns the first line of the query's comment, without "-- ". */
mrd_str mrd_query_title(const mrd_query *query);

#endif
