/*
 * trace/table/csv.h - writes the tables of a profile as CSV (RFC 4180), for spreadsheets and small
 * scripts. Each table is one file with a header line, exact integers, and quotes where necessary.
 * Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_TABLE_CSV_H
#define MRD_TRACE_TABLE_CSV_H

#include "base/buf.h"
#include "trace/table/rows.h"

typedef struct mrd_csv mrd_csv;

/* Writes <table>.csv for each table, into env->dir or as an archive to env->out, like
 * mrd_parts_open. */
mrd_err mrd_csv_open(const mrd_sink_env *env, mrd_csv **ret_csv, mrd_why *why);
mrd_err mrd_csv_event(mrd_csv *csv, const mrd_event *ev);
mrd_err mrd_csv_close(mrd_csv *csv, bool good, mrd_why *why); /* ends the output and frees csv */

/* Appends a text as a field, in quotes if it contains a comma, a quote or a line end. A text that
 * begins with = + - @, a tab or a return gets an apostrophe in front. Otherwise spreadsheets take
 * it for a formula. Not for numbers, because -1 would get an apostrophe. */
void mrd_csv_text(mrd_buf *to, mrd_str text);

#endif
