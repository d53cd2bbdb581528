/*
 * trace/table/queries_int.h - the texts of sql/, as embed.cmake wrote them. Inside trace/table/ only.
 */
#ifndef MRD_TRACE_TABLE_QUERIES_INT_H
#define MRD_TRACE_TABLE_QUERIES_INT_H

#include "trace/table/queries.h"

extern const mrd_query mrd_queries_text[];
extern const size_t mrd_queries_n;

#endif
