/*
 * trace/table/queries_int.h - the texts of sql/, which embed.cmake generates. Private to
 * trace/table/.
 */
#ifndef MRD_TRACE_TABLE_QUERIES_INT_H
#define MRD_TRACE_TABLE_QUERIES_INT_H

#include "trace/table/queries.h"

extern const mrd_query mrd_queries_text[];
extern const size_t mrd_queries_n;

#endif
